import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages

STATIC = ('name', 'num_weights', 'alpha', 'weight_sampler', 'baseline', 'normalize', 'ddof')
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

  @parameterized.parameters((3, 4, 1.), (2, 4, .5), (3, 2, .5))
  def test_exact_is_refused_without_a_closed_form(self, m, d, alpha):
    with pytest.raises(ValueError, match=f"weight_sampler='exact' needs .* m={m}, d={d}, {alpha=}"):
      compute('vpo', np.zeros((1, 2, m, d)), weight_sampler='exact', alpha=alpha)

  def test_exact_with_two_answers_and_the_pools_best(self):
    rewards = np.random.default_rng(4).random((2, 5, 2, 4))
    values, metrics = compute('vpo', rewards, weight_sampler='exact', normalize='none', baseline='none')
    np.testing.assert_allclose(
        values, compute('vpo', rewards, jax.random.key(0), weight_sampler='lattice', num_weights=1024, normalize='none',
                        baseline='none').values, atol=1e-3)
    self.assertGreater(metrics['pool_best'], values.max(axis=1).mean())

  def test_exact_with_a_pool_that_has_no_closed_form(self):
    rewards = np.eye(4).reshape(1, 2, 2, 4)
    values, metrics = compute('vpo', rewards, weight_sampler='exact', normalize='none', baseline='none')
    np.testing.assert_allclose(values, [[3 / 8, 3 / 8]], rtol=1e-6)  # The larger of 2 weights of 4, (1 + 1/2)/4.
    np.testing.assert_allclose(metrics['pool_best'], 25 / 48, rtol=.02)  # Of 4, (1 + 1/2 + 1/3 + 1/4)/4.

  def test_padding_is_not_in_the_exact_pool(self):
    rewards = np.array([[[[-1, -2]], [[-3, -1]], [[5, 5]]]], np.float32)
    _, metrics = compute('vpo', rewards, weight_sampler='exact', rollout_mask=np.array([[True, True, False]]))
    # E max(w - 2, -1 - 2w), which meet at 1/3: -(1/3 + 1/9) - (4/3 - 4/9).
    np.testing.assert_allclose(metrics['pool_best'], -4 / 3, rtol=1e-6)

  def test_exact_without_closed_form_under_another_alpha_but_one_answer(self):
    rewards = np.random.default_rng(5).random((2, 5, 1, 4))
    np.testing.assert_allclose(
        compute('vpo', rewards, weight_sampler='exact', alpha=.5, ddof=1).values, compute('grpo', rewards).values,
        atol=1e-4)

  @parameterized.parameters(('lattice', 1.), ('sobol', 1.), ('lattice', .5), ('sobol', .5))
  def test_even_weightings_have_the_mean_of_draws_and_less_than_a_tenth_of_their_variance(self, sampler, alpha):
    rewards = np.tile(np.random.default_rng(6).random((1, 4, 3, 4)), (64, 1, 1, 1))  # 64 prompts are 64 shifts.
    set_rewards = lambda sampler, k: np.asarray(compute(
        'vpo', rewards, jax.random.key(0), weight_sampler=sampler, num_weights=k, alpha=alpha, baseline='none',
        normalize='none').values)
    even, drawn = set_rewards(sampler, 128), set_rewards('dirichlet', 128)
    self.assertLess(even.var(axis=0).max(), drawn.var(axis=0).max() / 10)
    errors = np.sqrt((even.var(axis=0) + drawn.var(axis=0)) / 64)
    np.testing.assert_array_less(np.abs(even.mean(axis=0) - drawn.mean(axis=0)), 5 * errors)

  @parameterized.parameters('dirichlet', 'lattice', 'sobol', 'exact')
  def test_jit_vmap_and_four_devices_agree(self, sampler):
    rewards = np.random.default_rng(7).random((8, 5, 2, 3)).astype(np.float32)
    settings = dict(weight_sampler=sampler, num_weights=16, normalize='none')  # The deviation would magnify rounding.
    expected = compute('vpo', rewards, jax.random.key(0), prompt_ids=np.arange(8), **settings).values

    def one(rewards, prompt_id):
      return compute('vpo', rewards[None], jax.random.key(0), prompt_ids=prompt_id[None], **settings).values[0]

    mapped = jax.jit(jax.vmap(one))(rewards, np.arange(8))
    np.testing.assert_allclose(mapped, expected, atol=1e-6)
    mesh = jax.make_mesh((4,), ('data',), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
    by_prompt = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))
    sharded = jax.device_put(rewards, by_prompt)
    actual = compute('vpo', sharded, jax.random.key(0), prompt_ids=np.arange(8), **settings).values
    self.assertEqual(len(actual.sharding.device_set), 4)
    np.testing.assert_allclose(actual, expected, atol=1e-6)

  def test_sobol_has_32_components_at_most(self):
    trace = lambda d: jax.eval_shape(
        lambda rewards: compute('vpo', rewards, jax.random.key(0), weight_sampler='sobol'), np.zeros((1, 2, 1, d)))
    self.assertEqual(trace(32).values.shape, (1, 2))
    with pytest.raises(ValueError, match='d=33 must be at most 32'):
      trace(33)
