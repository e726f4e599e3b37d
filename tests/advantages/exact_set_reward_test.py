import fractions
import functools
import math

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
from absl.testing import parameterized

from vpo_jax.advantages.exact_set_reward import exact_set_reward, has_closed_form, mean_positive_part
from vpo_jax.advantages.set_reward import set_reward
from vpo_jax.advantages.weights import simplex_weights

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Fixed shapes: JAX compiles once per shape. Quarters make ties, parallel lines and equal answers common.
quarters = lambda *shape: hnp.arrays(np.float32, shape, elements=st.integers(-4, 4).map(lambda n: n / 4))
masks_gm = hnp.arrays(bool, (3, 4)).map(lambda mask: mask | (np.arange(4) == 2))
exact = jax.jit(exact_set_reward)
positive_part = jax.jit(mean_positive_part)


@functools.cache
def many_even_weightings():
  return jax.jit(lambda key: simplex_weights(key, 4096, 4, sampler='sobol'))(jax.random.key(0))


def both(rewards, components=None):
  """The exact set rewards where every answer was given."""
  rewards = np.asarray(rewards, np.float32)
  components = np.ones(rewards.shape[-1], bool) if components is None else np.array(components)
  return exact(rewards, np.ones(rewards.shape[:2], bool), components)


def textbook_positive_part(values):
  """E (wᵀa)⁺ = 1/d Σ_{a_i > 0} a_i^d / Π_{j≠i} (a_i - a_j) in fractions; the a_i all differ."""
  values = [fractions.Fraction(float(value)) for value in values]
  return sum(a**len(values) / math.prod(a - b for b in values if b is not a) for a in values if a > 0) / len(values)


class ExactSetRewardTest(parameterized.TestCase):

  def test_two_components(self):
    # max(w, 1-w): 3/4. With (.6, .6) as third: .6 for w in [.4, .6], twice the integral of w over [.6, 1], .12 + .64.
    corners = [[[1., 0.], [0., 1.], [.6, .6]]]
    np.testing.assert_allclose(both(corners), [.76], rtol=1e-6)
    np.testing.assert_allclose(both(np.array(corners)[:, :2]), [.75], rtol=1e-6)
    # One component left: its best entry. One component at all: the same.
    np.testing.assert_allclose(both(corners, [False, True]), [1])
    np.testing.assert_allclose(both(np.array(corners)[..., :1]), [1])

  def test_two_answers(self):
    # Corners 1 and 2 of three: E max(w_1, w_2) = E of a half share of w_1 + w_2, times 3/4 · 2: 2/3 · 3/4 = 1/2.
    np.testing.assert_allclose(both([[[1, 0, 0], [0, 1, 0]]]), [.5], rtol=1e-6)
    # Without the third component they are the corners of two.
    np.testing.assert_allclose(both([[[1, 0, 9], [0, 1, 5]]], [True, True, False]), [.75], rtol=1e-6)
    np.testing.assert_allclose(both([[[1, 0, 9], [0, 1, 5]]], [False, True, False]), [1], rtol=1e-6)
    np.testing.assert_allclose(both([[[1, 0, 9], [0, 1, 5]]], [False, False, False]), [0])

  def test_one_answer_earns_its_mean(self):
    np.testing.assert_allclose(both([[[3, 0, 0, 1]]]), [1], rtol=1e-6)
    np.testing.assert_allclose(both([[[3, 0, 0, 1]]], [True, True, True, False]), [1], rtol=1e-6)

  def test_answers_that_were_not_given(self):
    rewards = np.array([[[-1, -1, -4], [0, 0, 0]], [[0, 0, 0], [-1, -2, 0]]], np.float32)
    answers = np.array([[True, False], [False, True]])
    np.testing.assert_allclose(exact(rewards, answers, np.ones(3, bool)), [-2, -1], rtol=1e-6)

  @parameterized.parameters((3, 4, 1., False), (2, 4, 1., True), (2, 4, .5, False), (3, 2, 1., True), (3, 2, .5, False),
                            (1, 4, .5, True), (3, 1, .5, True))
  def test_where_there_is_a_closed_form(self, m, d, alpha, expected):
    assert has_closed_form(m, d, alpha) is expected


class MeanPositivePartTest(parameterized.TestCase):

  @parameterized.parameters(3, 8, 32)
  def test_is_the_textbook_sum_of_fractions(self, d):
    rng = np.random.default_rng(d)
    for scale in (1, 1e-3):  # The second: 32 entries within .002 of 0 or of 1/4.
      values = (rng.choice([0, .25], d) + rng.normal(size=d) * scale).astype(np.float32)
      np.testing.assert_allclose(
          positive_part(values, np.ones(d, bool)), float(textbook_positive_part(values)), rtol=2e-5)

  def test_ties(self):
    # a = (c, .., c, -c, .., -c), i of one and j of the other: 2B - 1 times c, B ~ Beta(i, j); i = j = 1: c/4.
    np.testing.assert_allclose(positive_part(np.array([.5, -.5]), np.ones(2, bool)), .125, rtol=1e-6)
    # Beta(2, 2) has the density 6 b (1-b): ∫ over b > 1/2 of (2b - 1) 6 b (1-b) = 3/16.
    np.testing.assert_allclose(positive_part(np.array([.5, -.5, -.5, .5]), np.ones(4, bool)), 3 / 32, rtol=1e-6)
    np.testing.assert_allclose(positive_part(np.full(32, 7.), np.ones(32, bool)), 7, rtol=1e-6)
    np.testing.assert_array_equal(positive_part(np.zeros(5), np.ones(5, bool)), 0)
    np.testing.assert_array_equal(positive_part(np.full(32, -7.), np.ones(32, bool)), 0)

  @property_test
  @hypothesis.given(quarters(5), st.floats(-1e-6, 1e-6))
  def test_near_ties_are_as_good_as_ties(self, values, nudge):
    nudged = values + np.float32(nudge) * np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(
        positive_part(nudged, np.ones(5, bool)), positive_part(values, np.ones(5, bool)), atol=5e-6)

  @property_test
  @hypothesis.given(quarters(6), hnp.arrays(bool, 6))
  def test_absent_components_are_as_if_cut_out(self, values, components):
    kept = values[components]
    nothing = np.zeros(6, np.float32)
    padded = np.concatenate([kept, nothing[len(kept):]])
    there = np.arange(6) < len(kept)
    np.testing.assert_allclose(positive_part(values, components), positive_part(padded, there), rtol=1e-5, atol=1e-7)


@property_test
@hypothesis.given(quarters(3, 4, 2), masks_gm)
def test_two_components_are_the_integral(rewards, answers):
  w = np.linspace(0, 1, 2001)
  scores = rewards[..., :1] * w + rewards[..., 1:] * (1 - w)
  best = np.where(answers[..., None], scores, -np.inf).max(axis=1)
  expected = (best[:, 1:] + best[:, :-1]).mean(axis=1) / 2  # Trapezoids miss a kink by at most slope · step² / 4.
  np.testing.assert_allclose(exact(rewards, answers, np.ones(2, bool)), expected, atol=2e-5)


@property_test
@hypothesis.given(quarters(3, 2, 4))
def test_two_answers_are_the_mean_over_many_even_weightings(rewards):
  np.testing.assert_allclose(both(rewards), jax.jit(set_reward)(rewards, many_even_weightings()), atol=1e-3)


@property_test
@hypothesis.given(quarters(3, 2, 4), quarters(3, 2, 4), st.permutations(range(4)), st.floats(.1, 8))
def test_set_reward_is_symmetric_monotone_convex_and_homogeneous(rewards, others, order, scale):
  values, other_values = both(rewards), both(others)
  close = dict(rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(both(rewards[..., list(order)]), values, **close)
  np.testing.assert_allclose(both(rewards[:, ::-1]), values, **close)
  np.testing.assert_allclose(both(rewards * np.float32(scale)), values * scale, **close)
  assert (both(np.maximum(rewards, others)) >= np.maximum(values, other_values) - 1e-6).all()
  assert (both((rewards + others) / 2) <= (values + other_values) / 2 + 1e-6).all()
  np.testing.assert_allclose(both(np.stack([rewards[:, 0]] * 2, axis=1)), rewards[:, 0].mean(axis=-1), **close)
