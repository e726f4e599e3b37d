import chex
import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import parameterized

from vpo_jax.advantages.set_reward import best_scores, pool_best, set_reward
from vpo_jax.advantages.weights import simplex_weights

property_test = hypothesis.settings(deadline=None, max_examples=50)
# Fixed shapes: JAX compiles once per shape. Quarters make ties, parallel lines and equal answers common.
quarters_gmd = hnp.arrays(np.float32, (3, 4, 2), elements=st.integers(-4, 4).map(lambda n: n / 4))


class SetRewardTest(chex.TestCase):

  @chex.variants(with_jit=True, without_jit=True)
  def test_takes_the_best_answer_under_each_weighting(self):
    twins, specialists = [[.5, .5], [.5, .5]], [[1., 0.], [0., 1.]]
    weights = np.array([[.8, .2], [.4, .6]], np.float32)
    actual = self.variant(set_reward)(np.array([twins, specialists], np.float32), weights)
    # Twins: .5 and .5. Specialists: max(.8, .2) and max(.4, .6).
    np.testing.assert_allclose(actual, [.5, .7], rtol=1e-6)

  @parameterized.parameters((2, .75), (3, 11 / 18), (4, 25 / 48))
  def test_specialists_earn_a_harmonic_number_over_d(self, d, expected):
    weights = simplex_weights(jax.random.key(0), 4096, d)
    # E max of Dir(1) = (1 + 1/2 + .. + 1/d)/d; its deviation is at most .144 (d = 2).
    np.testing.assert_allclose(set_reward(np.eye(d, dtype=np.float32)[None], weights), expected, atol=5 * .144 / 64)

  def test_answers_that_were_not_given_are_not_the_best(self):
    rewards = np.array([[[-1., -1.], [0., 0.]]], np.float32)
    scores = best_scores(rewards, np.full((1, 2), .5, np.float32), np.array([[True, False]]))
    np.testing.assert_allclose(scores, [[-1]])

  def test_pool_best_is_the_best_live_rollout_for_each_weighting(self):
    scores = jnp.array([[1., 2., 9.], [4., 3., 9.]])
    np.testing.assert_allclose(pool_best(scores, jnp.array([True, True, False])), 3)  # (2 + 4)/2
    np.testing.assert_allclose(pool_best(scores, jnp.zeros(3, bool)), 0)


@property_test
@hypothesis.given(quarters_gmd, st.permutations(range(4)))
def test_order_copies_and_dominated_answers_add_nothing(rewards, order):
  weights = simplex_weights(jax.random.key(0), 8, 2)
  expected = set_reward(rewards, weights)
  np.testing.assert_allclose(set_reward(rewards[:, list(order)], weights), expected, atol=1e-6)
  worse = np.concatenate([rewards, rewards[:, :1], rewards[:, 1:2] - 1], axis=1)
  np.testing.assert_allclose(set_reward(worse, weights), expected, atol=1e-6)
