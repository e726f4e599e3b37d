"""Dynamic weights for scalar methods: steps that push the front of what the policy reached are paid more.

After the hypervolume-guided weights of arXiv:2509.11452, written from its description:

  w_t = (1/2 + 3/2 tanh ΔV) w,   ΔV the volume that the step's mean reward vector adds to the front of those before,

w the user's preference. The factor is the same for all components, so it only matters where no deviation divides
(`dr_grpo`, or `normalize='none'`). The state lives in the caller. Axes: d reward components, S points of the front.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vpo_jax.advantages.groups import clean_groups
from vpo_jax.hypervolume import hypervolume_jax
from vpo_jax.pareto import non_dominated


class FrontState(NamedTuple):
  """The front of the mean reward vectors so far: `[S, d]` points, `[S]` bool which of them are in use."""

  points: jax.Array
  used: jax.Array


def empty_front(d: int, size: int = 64) -> FrontState:
  """The state before the first step. With more than `size` points, a new one takes the place of its nearest."""
  return FrontState(jnp.zeros((size, d)), jnp.zeros(size, bool))


def dynamic_weights(
    state: FrontState, rewards, preference, reference, *, rollout_mask=None, answer_mask=None,
    component_mask=None) -> tuple[FrontState, jax.Array]:
  """Weights of a step, and the front with the step's point.

  Args:
    state: the front so far.
    rewards: `[B, G, m, d]` reward vectors, at most five components: those of the step, or of a validation set.
    preference: `[d]` the user's weights.
    reference: `[d]` the corner from which volume is measured, such as the first policy's mean vector.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.

  Returns:
    The new state; `scalar_weights` `[d]`, from a half to twice the preference.

  Raises:
    ValueError: a shape is wrong.
  """
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  counts = groups.answers & groups.rollouts[..., None]
  present = counts.sum(axis=(1, 2))[:, None] * groups.components
  totals = jnp.where(counts[..., None], groups.rewards, 0).sum(axis=(0, 1, 2))
  point = totals / jnp.maximum(present.sum(axis=0), 1)

  points = jnp.concatenate([state.points, point[None].astype(state.points.dtype)])
  used = jnp.append(state.used, True)
  reference = jnp.asarray(reference, points.dtype)
  gain = hypervolume_jax(points, reference, used) - hypervolume_jax(points, reference, used.at[-1].set(False))
  front = non_dominated(points, used)
  distances = jnp.where(front[:-1], jnp.abs(points[:-1] - points[-1:]).sum(axis=1), -1)  # Free places first.
  place = jnp.argmin(distances)
  grows = gain > 0
  state = FrontState(
      state.points.at[place].set(jnp.where(grows, points[-1], state.points[place])),
      jnp.where(grows, front[:-1].at[place].set(True), state.used))
  return state, jnp.asarray(preference, points.dtype) * (.5 + 1.5 * jnp.tanh(jnp.maximum(gain, 0)))
