import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import moocore
import numpy as np
import pytest
from absl.testing import absltest
from scipy.spatial import distance

from vpo_jax import pareto

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Few levels make ties, equal vectors and dominated ones common.
levels_nd = hnp.arrays(np.float32, (7, 3), elements=st.integers(0, 3).map(lambda n: n / 4))
masks_n = hnp.arrays(bool, 7)
non_dominated, pairwise_l1 = jax.jit(pareto.non_dominated), jax.jit(pareto.pairwise_l1)
front_ranks, igd_plus, r2, vendi = map(jax.jit, (pareto.front_ranks, pareto.igd_plus, pareto.r2, pareto.vendi))


class ParetoTest(absltest.TestCase):

  def test_the_front(self):
    rewards = np.array([[1, 0], [0, 1], [.5, .5], [.5, .4], [0, 0], [1, 0]])
    # The last equals the first: neither beats the other.
    np.testing.assert_array_equal(non_dominated(rewards), [True, True, True, False, False, True])
    mask = np.array([True, True, False, True, True, False])
    np.testing.assert_array_equal(non_dominated(rewards, mask), [True, True, False, True, False, False])

  def test_distances(self):
    rewards = jnp.array([[0., 0.], [1., 1.], [0., 1.], [jnp.nan, 9.]])
    mask = jnp.array([True, True, True, False])
    np.testing.assert_allclose(pairwise_l1(rewards, mask), (2 + 1 + 1) / 3, rtol=1e-6)
    np.testing.assert_array_equal(pairwise_l1(rewards, jnp.arange(4) < 1), 0)

  def test_fronts_by_hand(self):
    rewards = np.array([[3, 0], [2, 1], [2, 0], [1, 1], [0, 3], [1, 1], [0, 0]])
    # (2,0) and (1,1) stand behind (2,1), (0,0) behind all. Equal vectors share a front.
    np.testing.assert_array_equal(front_ranks(rewards), [0, 0, 1, 1, 0, 1, 2])
    mask = np.array([True, False, True, True, True, True, False])
    np.testing.assert_array_equal(front_ranks(rewards, mask), [0, 7, 1, 0, 0, 0, 7])
  def test_r2_by_hand(self):
    rewards = np.array([[1., 0.], [0., 1.], [.6, .6], [9., 9.]])
    mask = np.arange(4) < 3
    weights = np.array([[1., 0.], [.5, .5], [.25, .75]])
    # The best scalars: 1; .6 of the compromise; .75 of (0, 1) against .6.
    np.testing.assert_allclose(pareto.r2(rewards, weights, mask=mask), (1 + .6 + .75) / 3, rtol=1e-6)
    # The smallest worst shortfalls from (1, 1): 0; .5 (1 - .6); of .25, .75 and .75 · .4 the first.
    actual = pareto.r2(rewards, weights, utility='tchebycheff', ideal=np.ones(2), mask=mask)
    np.testing.assert_allclose(actual, -(0 + .2 + .25) / 3, rtol=1e-6)
    self.assertEqual(pareto.r2(rewards, weights, mask=np.zeros(4, bool)), -np.inf)

  def test_r2_agrees_with_moocore(self):
    rewards = np.random.default_rng(0).dirichlet(np.ones(3), 12)[:, :2]
    first = (np.arange(4096) + .5) / 4096
    weights = np.stack([first, 1 - first], axis=1)
    actual = pareto.r2(rewards, weights, utility='tchebycheff', ideal=np.ones(2))
    np.testing.assert_allclose(actual, -moocore.r2_exact(rewards, ref=np.ones(2), maximise=True), rtol=1e-4)

  def test_r2_names_faults(self):
    with pytest.raises(ValueError, match='ideal=None must be'):
      pareto.r2(np.ones((2, 2)), np.ones((1, 2)), utility='tchebycheff')
    with pytest.raises(ValueError, match="utility='chebyshev' must be linear or tchebycheff"):
      pareto.r2(np.ones((2, 2)), np.ones((1, 2)), utility='chebyshev')

  def test_igd_plus(self):
    front = np.array([[1., 0.], [0., 1.]])
    # (.4, .7) falls short of (1, 0) by .6, of (0, 1) by .3; what it has beyond them counts for nothing.
    np.testing.assert_allclose(pareto.igd_plus(np.array([[.4, .7]]), front), .45, rtol=1e-6)
    self.assertEqual(pareto.igd_plus(np.array([[1., .5], [0., 1.], [0., 0.]]), front), 0)
    self.assertEqual(pareto.igd_plus(front, front, np.zeros(2, bool)), np.inf)
    rng = np.random.default_rng(1)
    rewards, front = rng.random((9, 3)), rng.random((5, 3)) + .5
    expected = moocore.igd_plus(rewards[:6], ref=front, maximise=True)
    np.testing.assert_allclose(pareto.igd_plus(rewards, front, np.arange(9) < 6), expected, rtol=1e-5)

  def test_vendi_counts_different_answers(self):
    far = 100 * np.array([[0., 0.], [1., 0.], [0., 1.], [0., 0.]])
    vendi = lambda rewards, mask=None: pareto.vendi(pareto.l1_similarities(rewards), mask)
    np.testing.assert_allclose(vendi(far[:3]), 3, rtol=1e-5)
    np.testing.assert_allclose(vendi(far[[0, 3]]), 1, rtol=1e-5)
    # Shares 1/2, 1/4, 1/4 have an entropy of 3/2 ln 2.
    np.testing.assert_allclose(vendi(far), 2 ** 1.5, rtol=1e-5)
    # Shares 2/3, 1/3: ln 3 - 2/3 ln 2.
    np.testing.assert_allclose(vendi(far, np.arange(4) != 2), 3 / 2 ** (2 / 3), rtol=1e-5)
    self.assertEqual(vendi(far, np.zeros(4, bool)), 0)
    # Two answers at L1 distance ln 2 are similar by 1/2: eigenvalues (1 ± 1/2) / 2.
    pair = np.array([[0., 0.], [np.log(2) / 2, -np.log(2) / 2]])
    np.testing.assert_allclose(vendi(pair), np.exp(-.75 * np.log(.75) - .25 * np.log(.25)), rtol=1e-5)


@property_test
@hypothesis.given(levels_nd, masks_n)
def test_laws_of_the_indicators(rewards, mask):
  weights = np.array([[.2, .3, .5], [.6, .3, .1]], np.float32)
  better = np.concatenate([rewards, rewards[:1] + np.float32(.25)])
  more = np.append(mask, True)
  assert r2(better, weights, mask=more) >= r2(rewards, weights, mask=mask)
  assert igd_plus(better, rewards, more) <= igd_plus(rewards, rewards, mask)
  np.testing.assert_array_equal(igd_plus(rewards, rewards), 0)
  score, distinct = vendi(pareto.l1_similarities(rewards), mask), len(np.unique(rewards[mask], axis=0))
  assert score <= distinct * 1.0001 and score >= (distinct > 0) * .9999


@property_test
@hypothesis.given(levels_nd, masks_n)
def test_front_and_distance_against_loops(rewards, mask):
  live = np.flatnonzero(mask)
  beats = lambda i, j: (rewards[i] >= rewards[j]).all() and (rewards[i] > rewards[j]).any()
  expected = [bool(mask[j]) and not any(beats(i, j) for i in live) for j in range(7)]
  np.testing.assert_array_equal(non_dominated(rewards, mask), expected)
  pairs = distance.pdist(rewards[mask], 'cityblock')
  np.testing.assert_allclose(pairwise_l1(rewards, mask), pairs.mean() if len(pairs) else 0, atol=1e-6)


@property_test
@hypothesis.given(levels_nd, masks_n)
def test_ranks_are_what_is_left_when_front_after_front_is_taken_away(rewards, mask):
  expected, left = np.full(7, 7), mask.copy()
  for rank in range(7):
    front = np.asarray(non_dominated(rewards, left))
    expected[front], left = rank, left & ~front
  np.testing.assert_array_equal(front_ranks(rewards, mask), expected)
  if mask.any():
    np.testing.assert_array_equal(front_ranks(rewards, mask)[mask], moocore.pareto_rank(rewards[mask], maximise=True))
