import jax
import numpy as np

from vpo_jax import advantages

compute = jax.jit(advantages.compute, static_argnames=('name', 'baseline', 'normalize'))


def test_differences_to_the_mean_in_units_of_the_task():
  rewards = np.array([[1, 0], [1, 1], [0, 3], [0, 0]], float)[None, :, None]
  values, metrics = compute('dr_grpo', rewards, scalar_weights=np.array([1., 2.]))
  np.testing.assert_allclose(values[0], [-1.5, .5, 3.5, -2.5], rtol=1e-6)  # Scalars 1, 3, 6, 0.
  np.testing.assert_allclose(metrics['set_reward'], 2.5)


def test_all_masks_and_baselines_reach_grpo():
  rng = np.random.default_rng(0)
  rewards, arrays = rng.random((3, 4, 2, 2)), {
      'rollout_mask': rng.random((3, 4)) < .8, 'answer_mask': rng.random((3, 4, 2)) < .7,
      'component_mask': np.array([[True, False], [True, True], [False, True]])}
  for baseline in ('mean', 'loo', 'none'):
    np.testing.assert_array_equal(
        compute('dr_grpo', rewards, baseline=baseline, **arrays).values,
        compute('grpo', rewards, baseline=baseline, normalize='none', **arrays).values)
