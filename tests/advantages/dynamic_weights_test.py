import functools

import jax
import numpy as np

from vpo_jax.advantages import dynamic_weights as dynamic
from vpo_jax.pareto import non_dominated

PREFERENCE, ORIGIN = np.array([.25, .75], np.float32), np.zeros(2, np.float32)
step = jax.jit(functools.partial(dynamic.dynamic_weights, preference=PREFERENCE, reference=ORIGIN))


def batch(*point):
  """Two rollouts around the mean `point`."""
  return np.stack([np.array(point) - .1, np.array(point) + .1]).astype(np.float32)[None, :, None]


def test_steps_that_push_the_front_weigh_more():
  state = dynamic.empty_front(2)
  factors = []
  for point in ((.5, .5), (.25, .25), (.75, .25), (.75, .75)):
    state, weights = step(state, batch(*point))
    np.testing.assert_allclose(weights[1], 3 * weights[0], rtol=1e-6)
    factors.append(weights[0] / .25)
  # Areas gained: 1/4; nothing; 1/4 · 1/4; and 9/16 less the 5/16 so far.
  np.testing.assert_allclose(factors, .5 + 1.5 * np.tanh([.25, 0, .0625, .25]), rtol=1e-5)
  np.testing.assert_allclose(state.points[state.used], [[.75, .75]], atol=1e-6)


def test_a_full_front_gives_up_the_point_nearest_to_the_new():
  state = dynamic.empty_front(2, size=2)
  for point in ((.2, .8), (.8, .2), (.7, .4)):
    state, _ = step(state, batch(*point))
  np.testing.assert_allclose(state.points, [[.2, .8], [.7, .4]], atol=1e-6)
  assert state.used.all() and non_dominated(state.points).all()


def test_means_are_over_what_is_there():
  rewards = np.array([[[[1, 5]], [[0, 9]], [[9, 9]]], [[[.5, .5]], [[np.nan, 0]], [[9, 9]]]], np.float32)
  state, _ = step(
      dynamic.empty_front(2), rewards, rollout_mask=np.array([[True, True, False], [True, False, False]]),
      component_mask=np.array([[True, False], [True, True]]))
  # (1 + 0 + .5)/3, and .5 alone in the second component.
  np.testing.assert_allclose(state.points[0], [.5, .5], atol=1e-6)
  # A broken answer is a zero vector: (1 + 0 + .5 + 0)/4 and (.5 + 0)/2.
  state, _ = step(
      dynamic.empty_front(2), rewards, rollout_mask=np.array([[True, True, False]] * 2),
      component_mask=np.array([[True, False], [True, True]]))
  np.testing.assert_allclose(state.points[0], [.375, .25], atol=1e-6)


def test_a_step_below_the_reference_leaves_no_point():
  state, weights = step(dynamic.empty_front(2), batch(.5, .5), reference=np.ones(2, np.float32))
  assert not state.used.any()
  np.testing.assert_allclose(weights, PREFERENCE / 2)
