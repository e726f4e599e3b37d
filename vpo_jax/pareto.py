"""Quality of a set of reward vectors: the non-dominated ones, their hypervolume, how far they lie apart.

Larger rewards are better. Axes: n answers, d reward components.
"""

import chex
import jax
import jax.numpy as jnp

from vpo_jax.hypervolume import hypervolume, hypervolume_jax

__all__ = ['front_ranks', 'hypervolume', 'hypervolume_jax', 'non_dominated', 'pairwise_l1']


def non_dominated(rewards, mask=None) -> jax.Array:
  """Answers that no other beats: none is as good in every component and better in one.

  Args:
    rewards: `[n, d]` reward vectors. Equal vectors don't dominate each other.
    mask: `[n]` bool; answers outside it dominate nothing and are never on the front. All True by default.

  Returns:
    `[n]` bool.
  """
  beats, mask = _beats(rewards, mask)
  return mask & ~beats.any(axis=0)


def front_ranks(rewards, mask=None) -> jax.Array:
  """Number of the front each answer stands on: 0 for those that no other beats, 1 once these are taken away, and so on.

  Args:
    rewards: `[n, d]` reward vectors. Equal vectors share a front.
    mask: `[n]` bool, answers that take part; all by default.

  Returns:
    `[n]` int32; n for answers outside the mask.
  """
  beats, mask = _beats(rewards, mask)
  n = len(mask)

  # An answer's front is the length of the longest chain of answers that beat each other down to it.
  def longer(state):
    ranks, _ = state
    longest = jnp.where(beats, ranks[:, None] + 1, 0).max(axis=0, initial=0)
    return longest, (longest != ranks).any()

  ranks, _ = jax.lax.while_loop(lambda state: state[1], longer, (jnp.zeros(n, jnp.int32), jnp.array(True)))
  return jnp.where(mask, ranks, n)


def _beats(rewards, mask) -> tuple[jax.Array, jax.Array]:
  """`[n, n]` bool, whether the answer of the row beats that of the column, both in the mask; the mask `[n]`."""
  rewards = jnp.asarray(rewards)
  chex.assert_rank(rewards, 2)
  mask = jnp.ones(rewards.shape[0], bool) if mask is None else jnp.asarray(mask, bool)
  as_good = (rewards[:, None] >= rewards[None]).all(axis=-1)
  better = (rewards[:, None] > rewards[None]).any(axis=-1)
  return as_good & better & mask[:, None] & mask[None], mask


def pairwise_l1(rewards, mask=None) -> jax.Array:
  """Mean L1 distance over the pairs of answers: 0 for fewer than two.

  Args:
    rewards: `[n, d]` reward vectors.
    mask: `[n]` bool, answers that take part; all by default. What stands outside it doesn't matter.

  Returns:
    `[]`.
  """
  rewards = jnp.asarray(rewards)
  chex.assert_rank(rewards, 2)
  rewards = rewards.astype(jnp.promote_types(rewards.dtype, jnp.float32))
  mask = jnp.ones(rewards.shape[0], bool) if mask is None else jnp.asarray(mask, bool)
  rewards = jnp.where(mask[:, None], rewards, 0)
  distances = jnp.abs(rewards[:, None] - rewards[None]).sum(axis=-1)
  count = mask.sum()
  return jnp.where(mask[:, None] & mask[None], distances, 0).sum() / jnp.maximum(count * (count - 1), 1)
