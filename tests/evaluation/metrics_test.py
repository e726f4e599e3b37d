import itertools
import math

import chex
import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import distance

from vpo_jax.evaluation import metrics

property_test = hypothesis.settings(deadline=None, max_examples=50)
scores_n = hnp.arrays(np.float64, 7, elements=st.floats(-3, 3))
rewards_nd = hnp.arrays(np.float64, (6, 3), elements=st.floats(0, 1))


def brute_best(scores, k):
  return np.mean([max(subset) for subset in itertools.combinations(scores, k)])


class MetricsTest(chex.TestCase):

  @chex.variants(with_jit=True, without_jit=True)
  def test_best_at_k_averages_all_subsets(self):
    best = self.variant(metrics.best_at_k, static_argnums=1)
    # Pairs of (.2, .9, .1, .4): maxima .9 .2 .4 .9 .9 .4.
    np.testing.assert_allclose(best(jnp.array([.2, .9, .1, .4]), 2), 3.7 / 6, rtol=1e-6)

  @chex.variants(with_jit=True, without_jit=True)
  def test_diversity_with_mask(self):
    diversity = self.variant(metrics.diversity_l1)
    rewards = jnp.array([[0., 0.], [1., 1.], [0., 1.], [9., 9.]])
    # Distances 2, 1, 1; the last row is masked.
    np.testing.assert_allclose(diversity(rewards, jnp.array([True, True, True, False])), 4 / 3, rtol=1e-6)


@pytest.mark.parametrize('n, c, k, expected', [
    (200, 3, 64, .6878), (1000, 10, 100, .6531), (4, 1, 4, 1.), (4, 4, 1, 1.), (2, 0, 1, 0.), (2, 1, 1, .5),
    (4, 1, 2, .5)])
def test_pass_at_k_of_humaneval(n, c, k, expected):
  successes = np.arange(n) < c
  assert abs(metrics.pass_at_k(successes, k) - expected) < 5e-5
  exact = 1 - math.comb(n - c, k) / math.comb(n, k)
  np.testing.assert_allclose(metrics.pass_at_k(successes, k), exact, rtol=1e-12)
  np.testing.assert_allclose(metrics.pass_at_k(jnp.asarray(successes), k), exact, atol=1e-6)  # float32


def test_solved_problems_do_not_stand_for_samples_of_one_problem():
  solved = np.arange(164)[:, None] < 50  # One sample of each of 164 problems.
  np.testing.assert_allclose(metrics.pass_at_k(solved, 1).mean(), 50 / 164)
  with pytest.raises(ValueError, match=r'k=10 must be .* n=1'):
    metrics.pass_at_k(solved, 10)


@pytest.mark.parametrize('k', [0, 6, -1])
def test_k_outside_the_pool_is_refused(k):
  with pytest.raises(ValueError, match=f'k={k} must be'):
    metrics.best_at_k(np.zeros(5), k)


@property_test
@hypothesis.given(scores_n)
def test_best_at_k_laws(scores):
  curve = metrics.best_curve(scores, range(1, 8))
  np.testing.assert_allclose(curve, [brute_best(scores, k) for k in range(1, 8)], atol=1e-12)
  np.testing.assert_allclose(curve[0], scores.mean(), atol=1e-12)
  assert curve[-1] == scores.max()
  assert (np.diff(curve) >= -1e-12).all()
  np.testing.assert_array_equal(metrics.best_curve(scores[::-1], range(1, 8)), curve)


@property_test
@hypothesis.given(st.integers(1, 60), st.data())
def test_best_at_k_of_binary_scores_is_the_product_form(n, data):
  c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
  product = 1 - np.prod(1 - k / np.arange(n - c + 1, n + 1)) if n - c >= k else 1.
  np.testing.assert_allclose(metrics.pass_at_k(np.arange(n) < c, k), product, atol=1e-12)


def test_batched_and_vmapped_agree_in_float32():
  scores = np.random.default_rng(0).random((5, 513))
  for k in (1, 30, 512):
    expected = metrics.best_at_k(scores, k)
    assert expected.shape == (5,)
    vmapped = jax.vmap(lambda s, k=k: metrics.best_at_k(s, k))(jnp.asarray(scores, jnp.float32))
    np.testing.assert_allclose(vmapped, expected, atol=1e-6)


def test_rollouts_come_whole():
  scores = np.array([[.1, .9], [.2, .3], [.5, .4]])
  # Best of each rollout .9 .3 .5; pairs .9 .9 .5.
  np.testing.assert_allclose(metrics.best_at_k_rollouts(scores, 2), 2.3 / 3)
  # Two single answers hold less: 15 pairs of (.1 .9 .2 .3 .5 .4).
  np.testing.assert_allclose(metrics.best_at_k(scores.ravel(), 2), brute_best(scores.ravel(), 2))
  np.testing.assert_allclose(metrics.pass_at_k_rollouts(scores > .45, 2), 1)
  np.testing.assert_allclose(metrics.pass_at_k_rollouts(scores > .6, 2), 2 / 3)


def test_expected_best():
  rewards, weights = np.eye(2), np.array([[1., 0.], [0., 1.], [.5, .5]])
  np.testing.assert_allclose(metrics.expected_best(rewards, weights), 2.5 / 3)
  np.testing.assert_allclose(metrics.expected_best_at_k(rewards, weights, 2), 2.5 / 3)
  np.testing.assert_allclose(metrics.expected_best_at_k(rewards, weights, 1), .5)
  np.testing.assert_allclose(metrics.expected_best(jnp.asarray(rewards), weights), 2.5 / 3, rtol=1e-6)


@property_test
@hypothesis.given(rewards_nd)
def test_expected_best_at_k_is_best_at_k_under_each_weighting(rewards):
  weights = np.random.default_rng(0).dirichlet(np.ones(3), 4)
  brute = np.mean([brute_best(rewards @ w, 3) for w in weights])
  np.testing.assert_allclose(metrics.expected_best_at_k(rewards, weights, 3), brute, atol=1e-12)


@property_test
@hypothesis.given(rewards_nd, hnp.arrays(bool, 6))
def test_diversity_is_the_mean_pairwise_distance(rewards, mask):
  pairs = distance.pdist(rewards[mask], 'cityblock')
  expected = pairs.mean() if len(pairs) else 0.
  np.testing.assert_allclose(metrics.diversity_l1(rewards, mask), expected, atol=1e-12)
  np.testing.assert_allclose(metrics.diversity_l1(jnp.asarray(rewards), jnp.asarray(mask)), expected, atol=2e-6)


@property_test
@hypothesis.given(st.floats(0, 1, width=32))
def test_copies_have_no_diversity_in_either_arithmetic(value):
  np.testing.assert_array_equal(metrics.diversity_l1(np.full((3, 7, 2), value, np.float32)), np.zeros(3))
  np.testing.assert_array_equal(metrics.diversity_l1(jnp.full((3, 7, 2), value)), np.zeros(3))


def test_missing_answers_add_no_diversity():
  # Three perfect answers of which two are copies that were dropped and padded by zeros: 0, not 8/3.
  padded = np.array([[1.] * 4, [0.] * 4, [0.] * 4])
  np.testing.assert_allclose(metrics.diversity_l1(padded), 8 / 3)
  assert metrics.diversity_l1(padded, np.array([True, False, False])) == 0


def test_diversity_within_rollout_ignores_differences_between_rollouts():
  rewards = np.array([[[0.], [0.]], [[1.], [.5]]])  # [R=2, m=2, d=1]
  np.testing.assert_allclose(metrics.diversity_l1_within_rollout(rewards), .25)


def test_position_shares_and_information():
  weights = np.array([[.9, .1], [.2, .8]])
  specialists = np.array([[[1., 0.], [0., 1.]]])  # The first answer wins under the first weighting only.
  shares = metrics.position_shares(specialists, weights)
  np.testing.assert_allclose(shares, np.eye(2))
  np.testing.assert_allclose(metrics.position_information(shares), math.log(2))
  mirrored = np.concatenate([specialists, specialists[:, ::-1]])  # A second rollout in the other order.
  np.testing.assert_allclose(metrics.position_shares(mirrored, weights), np.full((2, 2), .5))
  copies = np.ones((1, 3, 2))
  np.testing.assert_allclose(metrics.position_shares(copies, weights), np.full((2, 3), 1 / 3))
  assert metrics.position_information(metrics.position_shares(copies, weights)) == 0
  # q(p|k) = (3/4, 1/4) and (1/4, 3/4): ln 2 minus the entropy of (3/4, 1/4).
  expected = math.log(2) + .75 * math.log(.75) + .25 * math.log(.25)
  np.testing.assert_allclose(metrics.position_information(jnp.array([[.75, .25], [.25, .75]])), expected, rtol=1e-5)


def equations(jaxpr):
  for eqn in jaxpr.eqns:
    yield eqn
    for inner in jax.extend.core.jaxprs_in_params(eqn.params):
      yield from equations(inner)


WITHOUT_PRODUCTS = lambda r, w: metrics.diversity_l1(r)


@pytest.mark.parametrize('function', [
    lambda r, w: metrics.best_at_k(r[:, 0], 2), metrics.expected_best,
    lambda r, w: metrics.expected_best_at_k(r, w, 2), WITHOUT_PRODUCTS,
    lambda r, w: metrics.position_shares(r[None], w)])
def test_products_state_full_precision(function):
  jaxpr = jax.make_jaxpr(function)(jnp.ones((4, 2)), jnp.ones((3, 2)))
  products = [eqn for eqn in equations(jaxpr.jaxpr) if eqn.primitive.name == 'dot_general']
  assert all(eqn.params['precision'] == (jax.lax.Precision.HIGHEST,) * 2 for eqn in products)
  assert bool(products) == (function is not WITHOUT_PRODUCTS)
