import itertools

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import moocore
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import hypervolume as hv
from vpo_jax import pareto

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Few levels make ties, equal vectors and dominated ones common.
levels_nd = hnp.arrays(np.float32, (7, 3), elements=st.integers(0, 3).map(lambda n: n / 4))
masks_n = hnp.arrays(bool, 7)
on_device = jax.jit(hv.hypervolume_jax)
sampled = jax.jit(hv.hypervolume_monte_carlo, static_argnames='num_samples')

BY_HAND = (
    ([[2., 3.]], [0., 0.], 6),
    ([[2., 3.]], [1., 1.], 2),
    ([[2., 1.], [1., 2.]], [0., 0.], 3),  # Two rectangles of 2 that share a square of 1.
    ([[2., 1.], [1., 2.], [1., 1.], [2., 1.]], [0., 0.], 3),
    ([[1., 0.], [0., 1.]], [0., 0.], 0),  # On the edge.
    ([[1., 0.], [0., 1.]], [-1., -1.], 3),
    ([[3.], [5.]], [1.], 4),
    # Three boxes of 4, pairs share 2, all share 1: 12 - 6 + 1.
    ([[1., 2., 2.], [2., 1., 2.], [2., 2., 1.]], [0., 0., 0.], 7))


def pool(n, d):
  rng = np.random.default_rng(d)
  return rng.integers(0, 4, (n, d)) / 3 if n % 2 == 0 else rng.dirichlet(np.ones(d), n)


class HypervolumeTest(parameterized.TestCase):

  @parameterized.parameters(*BY_HAND)
  def test_volumes_by_hand(self, rewards, reference, expected):
    self.assertAlmostEqual(hv.hypervolume(rewards, reference), expected)
    np.testing.assert_allclose(hv.hypervolume_jax(np.array(rewards), np.array(reference)), expected, rtol=1e-6)

  def test_no_answers_have_no_volume(self):
    for volume in hv.hypervolume, hv.hypervolume_jax:
      self.assertEqual(volume(np.zeros((0, 3)), np.zeros(3)), 0)
      self.assertEqual(volume(np.zeros((0, 1)), np.zeros(1)), 0)
      self.assertEqual(volume(np.zeros((2, 3)), np.zeros(3)), 0)

  @parameterized.parameters((91, 2), (61, 3), (41, 4), (25, 5), (512, 4))
  def test_agrees_with_moocore(self, n, d):
    expected = moocore.hypervolume(pool(n, d), ref=np.full(d, -.1), maximise=True)
    np.testing.assert_allclose(hv.hypervolume(pool(n, d), np.full(d, -.1)), expected, rtol=1e-12)

  @parameterized.parameters((9, 1), (64, 2), (63, 3), (64, 3), (63, 4), (30, 5))
  def test_on_the_device_agrees_with_moocore(self, n, d):
    expected = moocore.hypervolume(pool(n, d), ref=np.full(d, -.1), maximise=True)
    actual = on_device(pool(n, d).astype(np.float32), np.full(d, -.1, np.float32))
    np.testing.assert_allclose(actual, expected, rtol=2e-5)  # 64 terms of float32.

  def test_binary_reference_counts_the_subsets_that_an_answer_passes_together(self):
    rewards = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    # Of {0, 1} and {1, 2}: the empty set, three singles, two pairs.
    subsets = lambda answer: (s for n in range(5) for s in itertools.combinations(np.flatnonzero(answer), n))
    self.assertLen({passed for answer in rewards for passed in subsets(answer)}, 6)
    self.assertAlmostEqual(hv.hypervolume(rewards, np.full(4, hv.BINARY_REFERENCE)), 6)
    np.testing.assert_allclose(hv.hypervolume_jax(rewards, np.full(4, hv.BINARY_REFERENCE)), 6, rtol=1e-6)
    self.assertEqual(hv.hypervolume(rewards, np.zeros(4)), 0)

  def test_groups_of_a_batch(self):
    rewards = np.stack([pool(8, 3), pool(8, 3)[::-1] / 2])
    mask = np.arange(16).reshape(2, 8) % 3 > 0
    actual = jax.vmap(hv.hypervolume_jax, (0, None, 0))(rewards, np.zeros(3), mask)
    expected = [hv.hypervolume(r[m], np.zeros(3)) for r, m in zip(rewards, mask, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)

  @parameterized.parameters(
      (np.zeros(3), np.zeros(3)), (np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 3)), 0.),
      (np.zeros((2, 0)), np.zeros(0)), (np.array([[np.nan, 1.]]), np.zeros(2)),
      (np.ones((1, 2)), np.array([0., -np.inf])))
  def test_faults_are_named(self, rewards, reference):
    with pytest.raises(ValueError, match=r'rewards.*reference'):
      hv.hypervolume(rewards, reference)
    if np.isfinite(rewards).all() and np.isfinite(reference).all():
      with pytest.raises(ValueError, match=r'rewards.*reference'):
        on_device(rewards, reference)

  def test_what_is_outside_the_mask_or_no_number_adds_nothing(self):
    rewards = jnp.array([[2., 3.], [jnp.nan, 9.], [9., 9.]])
    np.testing.assert_allclose(on_device(rewards, jnp.zeros(2), jnp.array([True, True, False])), 6, rtol=1e-6)

  def test_more_than_five_components_are_refused(self):
    with pytest.raises(ValueError, match='6 reward components must be at most 5'):
      jax.eval_shape(hv.hypervolume_jax, np.zeros((4, 6)), np.zeros(6))

  def test_monte_carlo(self):
    rewards, reference, upper = pool(40, 7), np.full(7, -.5), np.ones(7)
    expected = moocore.hypervolume(rewards, ref=-.5, maximise=True)
    actual = sampled(rewards, reference, upper, jax.random.key(0), num_samples=20_000)
    box = 1.5 ** 7
    share = expected / box
    np.testing.assert_allclose(actual, expected, atol=5 * box * (share * (1 - share) / 20_000) ** .5)
    for n in (1000, 1024, 5000):  # Blocks of 1024 points: none is lost, none is counted twice.
      covers_all = np.array([[1., 1.], [.2, .3]])
      actual = sampled(covers_all, np.array([-1., 0.]), np.ones(2), jax.random.key(1), num_samples=n)
      np.testing.assert_allclose(actual, 2, rtol=1e-6)

  def test_monte_carlo_leaves_out_what_is_masked(self):
    rewards = np.array([[1., 1.], [.5, .5]])
    second = np.array([False, True])
    actual = sampled(rewards, np.zeros(2), np.ones(2), jax.random.key(2), num_samples=20_000, mask=second)
    np.testing.assert_allclose(actual, .25, atol=5 * (.25 * .75 / 20_000) ** .5)

  @parameterized.parameters(
      (dict(upper=np.ones(3), num_samples=4), 'upper'), (dict(upper=np.ones(2), num_samples=0), 'num_samples=0'))
  def test_monte_carlo_names_faults(self, settings, message):
    with pytest.raises(ValueError, match=message):
      hv.hypervolume_monte_carlo(np.zeros((4, 2)), np.zeros(2), key=jax.random.key(0), **settings)


@property_test
@hypothesis.given(levels_nd, st.permutations(range(7)))
def test_only_the_front_has_volume(rewards, order):
  volume = hv.hypervolume(rewards, np.full(3, -1.))
  front = rewards[np.asarray(pareto.non_dominated(rewards))]
  np.testing.assert_allclose(hv.hypervolume(front, np.full(3, -1.)), volume, rtol=1e-12)
  np.testing.assert_allclose(hv.hypervolume(rewards[list(order)], np.full(3, -1.)), volume, rtol=1e-12)
  assert hv.hypervolume(rewards + np.eye(7, 3), np.full(3, -1.)) > volume


@property_test
@hypothesis.given(levels_nd, masks_n, st.permutations(range(7)))
def test_host_and_device_agree_under_masks(rewards, mask, order):
  order = np.array(order)
  reference = np.full(3, -.25, np.float32)
  actual = on_device(rewards[order], reference, mask[order])
  np.testing.assert_allclose(actual, hv.hypervolume(rewards[mask], reference), rtol=1e-5)
