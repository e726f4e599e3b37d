import jax
import numpy as np

from vpo_jax import advantages


def test_the_best_answer_under_the_tasks_weighting():
  # Under (3/4, 1/4): max(3/4, 1/4), .5, and 1/4 for the answer that was given.
  rewards = np.array([[[1, 0], [0, 1]], [[.5, .5], [.5, .5]], [[1, 1], [0, 1]]])[None]
  answer_mask = np.array([[[True, True], [True, True], [False, True]]])
  values, metrics = jax.jit(advantages.compute, static_argnums=0)(
      'set_max', rewards, answer_mask=answer_mask, scalar_weights=np.array([.75, .25]))
  np.testing.assert_allclose(values[0], np.array([1, 0, -1]) * np.sqrt(1.5), atol=1e-4)  # ±1/4 over √(2/3)/4
  np.testing.assert_allclose([metrics['set_reward'], metrics['pool_best']], [.5, .75])
