import functools

import jax
import numpy as np
import pytest

from vpo_jax import advantages

compute = jax.jit(functools.partial(advantages.compute, 'maxrl'), static_argnames=('baseline', 'eps'))


def scalars(*rows):
  return np.array(rows, np.float32)[:, :, None, None]


def test_rare_successes_weigh_more():
  values, metrics = compute(scalars([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]))
  np.testing.assert_allclose(values, [[3, -1, -1, -1], [1, 1, -1, -1], [0] * 4, [0] * 4], rtol=1e-5)
  np.testing.assert_array_equal(values[2:], 0)
  assert metrics['negative_rewards'] == 0 and metrics['flat_groups'] == .5


def test_what_is_added_to_the_mean():
  # Mean 2.5e-6: 7.5e-6 over 3.5e-6.
  np.testing.assert_allclose(compute(scalars([1e-5, 0, 0, 0])).values[0, 0], 15 / 7, rtol=1e-4)


def test_negative_rewards_are_counted_and_not_spread():
  values, metrics = compute(scalars([1, -1, 0, .5], [1, -2, -2, 0], [1, 0, 0, 0]))
  np.testing.assert_array_equal(values[:2], 0)
  np.testing.assert_allclose(values[2], [3, -1, -1, -1], rtol=1e-5)
  assert metrics['negative_rewards'] == 3
  padding = np.array([[True, False, True, True], [True, False, False, True], [True] * 4])
  values, metrics = compute(scalars([1, -1, 0, .5], [1, -2, -2, 0], [1, 0, 0, 0]), rollout_mask=padding)
  np.testing.assert_allclose(values[:2], [[1, 0, -1, 0], [1, 0, 0, -1]], atol=1e-5)
  assert metrics['negative_rewards'] == 0


@pytest.mark.parametrize('baseline, expected', [
    ('none', [[4, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 2, 0, 0]]),
    ('always', [[3, -1, -1, -1], [-1, -1, -1, -1], [0, 0, 0, 0], [-1, 1, 0, 0]])])
def test_the_forms_of_the_paper(baseline, expected):
  mask = np.array([[True] * 4, [True] * 4, [True] * 4, [True, True, False, False]])
  rewards = scalars([1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0])
  np.testing.assert_allclose(compute(rewards, baseline=baseline, rollout_mask=mask).values, expected, atol=1e-4)
  lone = np.arange(4)[None] < np.ones((4, 1))
  np.testing.assert_array_equal(compute(rewards, baseline=baseline, rollout_mask=lone).values, 0)


def test_several_answers_count_by_their_mean_under_the_tasks_weighting():
  rewards = np.array([[[1, 0], [0, 1]], [[0, 0], [.8, 0]]])[None]
  values, _ = compute(rewards, scalar_weights=np.array([.75, .25]))
  np.testing.assert_allclose(values[0], [.1 / .4, -.1 / .4], rtol=1e-5)  # Scalars .5 and .3.


def test_unknown_settings_are_named():
  with pytest.raises(ValueError, match="baseline='loo' must be one of mean, none, always"):
    compute(scalars([1, 0]), baseline='loo')
