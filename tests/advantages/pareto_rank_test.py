import functools

import jax
import numpy as np

from vpo_jax import advantages

compute = jax.jit(functools.partial(advantages.compute, 'pareto_rank'), static_argnames=(
    'baseline', 'normalize', 'ddof', 'eps'))
# Fronts 0, 0, 1 (beaten by the first), 2 (by the third), 1 (a copy of the third).
VECTORS = np.array([[2, 1], [0, 3], [1, 1], [1, 0], [1, 1]], np.float32)[None, :, None]


def test_the_front_is_the_signal():
  values, metrics = compute(VECTORS, normalize='none')
  np.testing.assert_allclose(values[0], [.8, .8, -.2, -1.2, -.2], rtol=1e-6)
  np.testing.assert_allclose([metrics['first_front'], metrics['set_reward'], metrics['pool_best']], [.4, -.8, 0])
  deviation = np.sqrt((2 * .64 + 2 * .04 + 1.44) / 4)
  np.testing.assert_allclose(compute(VECTORS).values[0], np.array([.8, .8, -.2, -1.2, -.2]) / deviation, rtol=1e-5)


def test_no_scale_of_a_component_matters():
  np.testing.assert_array_equal(compute(VECTORS * [100, 1] - [0, 7]).values, compute(VECTORS).values)


def test_of_several_answers_the_best_front_counts():
  rewards = np.array([[[2, 1], [0, 0]], [[1, 0], [0, 3]], [[1, 1], [1, 0]], [[1, 0], [1, 0]]], np.float32)[None]
  answer_mask = np.array([[[True, True], [True, True], [True, True], [True, True]]])
  np.testing.assert_allclose(
      compute(rewards, answer_mask=answer_mask, normalize='none').values[0], [.75, .75, -.25, -1.25], rtol=1e-6)
  # Without (0, 3) the second has (1, 0) left, which (1, 1) of the third beats.
  answer_mask[0, 1, 1] = False
  np.testing.assert_allclose(
      compute(rewards, answer_mask=answer_mask, normalize='none').values[0], [1.25, -.75, .25, -.75], rtol=1e-6)


def test_padding_beats_nobody():
  mask = np.array([[False, True, True, True, True]])
  values, metrics = compute(VECTORS, rollout_mask=mask, normalize='none')
  np.testing.assert_allclose(values[0], [0, .25, .25, -.75, .25], rtol=1e-6)  # Only (1, 0) is beaten now.
  assert metrics['first_front'] == .75
  assert compute(VECTORS, rollout_mask=np.arange(5)[None] == 3, normalize='none').metrics['first_front'] == 1
