"""Reward vectors as the kernels want them: finite, masked, at least one answer in every rollout.

Axes: B prompts, G rollouts of a prompt, m answers in each, d reward components.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Groups(NamedTuple):
  """Clean reward vectors of a batch of groups.

  Attributes:
    rewards: `[B, G, m, d]` floats, 0 wherever a mask is False.
    answers: `[B, G, m]` bool, answers that count. An empty rollout has one: a zero vector.
    rollouts: `[B, G]` bool, False for padding.
    components: `[B, d]` bool, reward components that the prompt has.
    metrics: counts of what was missing or broken.
  """

  rewards: jax.Array
  answers: jax.Array
  rollouts: jax.Array
  components: jax.Array
  metrics: dict[str, jax.Array]


def clean_groups(rewards, rollout_mask=None, answer_mask=None, component_mask=None) -> Groups:
  """Replaces missing and non-finite answers by zeros and counts them.

  An answer with a NaN or infinite entry (in a component its prompt has) counts as not given: keeping its finite
  entries would pay a broken judge for some components and not for others.

  Args:
    rewards: `[B, G, m, d]` reward vectors, of any real dtype; computed in float32 or wider.
    rollout_mask: `[B, G]`, False for padding. All True by default.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer. All True by default.
    component_mask: `[B, d]`, False where the prompt lacks the component. All True by default.

  Returns:
    The clean groups, under `stop_gradient`.

  Raises:
    ValueError: a shape or dtype is wrong.
  """
  rewards = jnp.asarray(rewards)
  if rewards.ndim != 4 or 0 in rewards.shape:
    raise ValueError(f'{rewards.shape=} must be [prompts, rollouts, answers, components], none of them empty.')
  if jnp.issubdtype(rewards.dtype, jnp.complexfloating):
    raise ValueError(f'{rewards.dtype=} must be real.')
  rewards = jax.lax.stop_gradient(rewards.astype(jnp.promote_types(rewards.dtype, jnp.float32)))
  b, g, m, d = rewards.shape
  rollouts = _mask('rollout_mask', rollout_mask, (b, g))
  given = _mask('answer_mask', answer_mask, (b, g, m)) & rollouts[..., None]
  components = _mask('component_mask', component_mask, (b, d))

  invalid = ~jnp.isfinite(rewards) & given[..., None] & components[:, None, None]
  answers = given & ~invalid.any(axis=-1)
  rewards = jnp.where(answers[..., None] & components[:, None, None], rewards, 0)
  empty = ~answers.any(axis=-1)
  num_rollouts = jnp.maximum(rollouts.sum(), 1)
  metrics = {
      'invalid_entries': invalid.sum(),
      'missing_answers': (rollouts[..., None] & ~answers).sum() / (num_rollouts * m),
      'empty_rollouts': (rollouts & empty).sum() / num_rollouts,
      'group_size': rollouts.sum() / jnp.maximum(rollouts.any(axis=-1).sum(), 1),
  }
  first = jnp.arange(m) == 0
  answers |= empty[..., None] & first[None, None]
  return Groups(rewards, answers, rollouts, components, metrics)


def _mask(field, mask, shape):
  if mask is None:
    return jnp.ones(shape, bool)
  mask = jnp.asarray(mask)
  if mask.shape != shape:
    raise ValueError(f'{field} has shape {mask.shape}; it must be {shape}, to fit the rewards.')
  return mask.astype(bool)
