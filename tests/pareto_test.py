import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import moocore
import numpy as np
import pytest
from absl.testing import parameterized
from scipy.spatial import distance

from vpo_jax import pareto

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Few levels make ties, equal vectors and dominated ones common.
levels_nd = hnp.arrays(np.float32, (7, 3), elements=st.integers(0, 3).map(lambda n: n / 4))
masks_n = hnp.arrays(bool, 7)
non_dominated, pairwise_l1 = jax.jit(pareto.non_dominated), jax.jit(pareto.pairwise_l1)


class ParetoTest(parameterized.TestCase):

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

  @parameterized.parameters(
      ([[2., 3.]], [0., 0.], 6),
      ([[2., 3.]], [1., 1.], 2),
      ([[2., 1.], [1., 2.]], [0., 0.], 3),  # Two rectangles of 2 that share a square of 1.
      ([[2., 1.], [1., 2.], [1., 1.], [2., 1.]], [0., 0.], 3),
      ([[1., 0.], [0., 1.]], [0., 0.], 0),  # On the edge.
      ([[1., 0.], [0., 1.]], [-1., -1.], 3),
      ([[3.], [5.]], [1.], 4),
      # Three boxes of 4, pairs share 2, all share 1: 12 - 6 + 1.
      ([[1., 2., 2.], [2., 1., 2.], [2., 2., 1.]], [0., 0., 0.], 7))
  def test_volumes_by_hand(self, rewards, reference, expected):
    self.assertAlmostEqual(pareto.hypervolume(rewards, reference), expected)

  def test_no_answers_have_no_volume(self):
    self.assertEqual(pareto.hypervolume(np.zeros((0, 3)), np.zeros(3)), 0)
    self.assertEqual(pareto.hypervolume(np.zeros((2, 3)), np.zeros(3)), 0)

  @parameterized.parameters((90, 2), (60, 3), (40, 4), (25, 5), (512, 4))
  def test_agrees_with_moocore(self, n, d):
    rng = np.random.default_rng(d)
    rewards = rng.integers(0, 4, (n, d)) / 3 if n == 512 else rng.dirichlet(np.ones(d), n)
    expected = moocore.hypervolume(rewards, ref=np.full(d, -.1), maximise=True)
    np.testing.assert_allclose(pareto.hypervolume(rewards, np.full(d, -.1)), expected, rtol=1e-12)

  @parameterized.parameters(
      (np.zeros(3), np.zeros(3)), (np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 3)), 0.),
      (np.zeros((2, 0)), np.zeros(0)), (np.array([[np.nan, 1.]]), np.zeros(2)),
      (np.ones((1, 2)), np.array([0., -np.inf])))
  def test_faults_are_named(self, rewards, reference):
    with pytest.raises(ValueError, match=r'rewards.*reference'):
      pareto.hypervolume(rewards, reference)


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
@hypothesis.given(levels_nd, st.permutations(range(7)))
def test_only_the_front_has_volume(rewards, order):
  volume = pareto.hypervolume(rewards, np.full(3, -1.))
  front = rewards[np.asarray(non_dominated(rewards))]
  np.testing.assert_allclose(pareto.hypervolume(front, np.full(3, -1.)), volume, rtol=1e-12)
  np.testing.assert_allclose(pareto.hypervolume(rewards[list(order)], np.full(3, -1.)), volume, rtol=1e-12)
  assert pareto.hypervolume(rewards + np.eye(7, 3), np.full(3, -1.)) > volume
