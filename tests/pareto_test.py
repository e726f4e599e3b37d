import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import moocore
import numpy as np
from absl.testing import absltest
from scipy.spatial import distance

from vpo_jax import pareto

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Few levels make ties, equal vectors and dominated ones common.
levels_nd = hnp.arrays(np.float32, (7, 3), elements=st.integers(0, 3).map(lambda n: n / 4))
masks_n = hnp.arrays(bool, 7)
non_dominated, pairwise_l1 = jax.jit(pareto.non_dominated), jax.jit(pareto.pairwise_l1)
front_ranks = jax.jit(pareto.front_ranks)


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
