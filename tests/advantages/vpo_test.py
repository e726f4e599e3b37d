import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages

STATIC = ('name', 'num_weights', 'weight_sampler', 'baseline', 'normalize', 'ddof')
compute = jax.jit(advantages.compute, static_argnames=STATIC)


class VpoTest(parameterized.TestCase):

  def test_exact_golden(self):
    # max(w, 1-w): 3/4. Twins: .6. One corner and nothing: E w = 1/2. Mean 37/60.
    rewards = np.array([[[1, 0], [0, 1]], [[.6, .6], [.6, .6]], [[1, 0], [0, 0]]])[None]
    exact = lambda **kw: compute('vpo', rewards, weight_sampler='exact', **kw)
    values, metrics = exact(normalize='none')
    np.testing.assert_allclose(values[0], np.array([45, 36, 30]) / 60 - 37 / 60, atol=1e-6)
    np.testing.assert_allclose(exact(normalize='none', baseline='none').values[0], [.75, .6, .5], rtol=1e-6)
    np.testing.assert_allclose(exact().values[0], np.array([8, -1, -7]) / np.sqrt(38), rtol=1e-4)  # 114/3 = 38
    np.testing.assert_allclose(exact(ddof=1).values[0], np.array([8, -1, -7]) / np.sqrt(57), rtol=1e-4)  # 114/2
    np.testing.assert_allclose(metrics['set_reward'], 37 / 60, rtol=1e-6)
    np.testing.assert_allclose(metrics['pool_best'], .76, rtol=1e-6)  # See set_reward_test.

  def test_draws_approach_the_integral(self):
    rewards = np.random.default_rng(0).random((1, 6, 3, 2))
    kw = dict(key=jax.random.key(0), normalize='none', baseline='none')
    drawn = compute('vpo', rewards, num_weights=4096, **kw)
    # Scores in [0, 1] deviate by at most 1/2; the weightings are shared, so all errors are as bad as one.
    np.testing.assert_allclose(
        drawn.values, compute('vpo', rewards, weight_sampler='exact', **kw).values, atol=5 * .5 / 64)

  def test_one_component_is_set_max(self):
    rewards = np.random.default_rng(1).random((3, 6, 2, 1))
    np.testing.assert_allclose(
        compute('vpo', rewards, jax.random.key(0), num_weights=4).values, compute('set_max', rewards).values, atol=1e-4)

  def test_one_answer_is_grpo_on_the_mean_in_the_limit(self):
    rewards = np.random.default_rng(2).random((1, 6, 1, 2))
    np.testing.assert_allclose(
        compute('vpo', rewards, weight_sampler='exact', ddof=1).values, compute('grpo', rewards).values, atol=1e-4)

  def test_draws_are_shared_by_the_group_and_differ_between_prompts_and_keys(self):
    rewards = np.tile(np.random.default_rng(3).random((1, 5, 2, 3)), (2, 1, 1, 1))
    values = lambda key, ids: compute(
        'vpo', rewards, jax.random.key(key), prompt_ids=np.array(ids), num_weights=2).values
    one, same = values(0, [4, 4])
    np.testing.assert_array_equal(one, same)
    self.assertGreater(np.abs(values(0, [4, 5])[1] - one).max(), 1e-3)
    self.assertGreater(np.abs(values(1, [4, 4])[0] - one).max(), 1e-3)

  def test_vectors_of_equal_sums_are_not_flat(self):
    rewards = np.array([[[1., 0.], [0., 1.]], [[1., 0.], [1., 0.]], [[0., 1.], [1., 0.]], [[0., 1.], [0., 1.]]])[None]
    values, _ = compute('vpo', rewards, jax.random.key(0), num_weights=64)
    self.assertGreater(np.min(values[0, jnp.array([0, 2])]), np.max(values[0, jnp.array([1, 3])]))
    np.testing.assert_array_equal(compute('grpo', rewards).values, 0)

  def test_exact_needs_two_components_and_uniform_weightings(self):
    with pytest.raises(ValueError, match='at most two components'):
      advantages.compute('vpo', np.zeros((1, 2, 1, 3)), weight_sampler='exact')
    with pytest.raises(ValueError, match=r'alpha=0\.5'):
      advantages.compute('vpo', np.zeros((1, 2, 1, 2)), weight_sampler='exact', alpha=.5)
