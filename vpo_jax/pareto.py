"""Quality of a set of reward vectors: the non-dominated ones, their hypervolume, how far they lie apart.

Larger rewards are better. Axes: n answers, d reward components.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np


def non_dominated(rewards, mask=None) -> jax.Array:
  """Answers that no other beats: none is as good in every component and better in one.

  Args:
    rewards: `[n, d]` reward vectors. Equal vectors don't dominate each other.
    mask: `[n]` bool; answers outside it dominate nothing and are never on the front. All True by default.

  Returns:
    `[n]` bool.
  """
  rewards = jnp.asarray(rewards)
  chex.assert_rank(rewards, 2)
  mask = jnp.ones(rewards.shape[0], bool) if mask is None else jnp.asarray(mask, bool)
  as_good = (rewards[:, None] >= rewards[None]).all(axis=-1)
  better = (rewards[:, None] > rewards[None]).any(axis=-1)
  beaten = (as_good & better & mask[:, None]).any(axis=0)
  return mask & ~beaten


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


def hypervolume(rewards, reference) -> float:
  """Volume between the reference and the front, exact, on the host in float64.

  The points are taken by rising last component, and each adds the volume that it alone holds among those still to
  come (While, Bradstreet & Barone 2012). Points to come reach at least as far along the last component, so the added
  volume is its length there times a volume of one dimension less.

  Args:
    rewards: `[n, d]` reward vectors; those not above the reference in every component add nothing.
    reference: `[d]` the corner from which volume is measured. At 0, an answer with one zero component adds nothing.

  Returns:
    The volume; 0 for no answers.

  Raises:
    ValueError: the shapes don't fit or an entry is not finite.
  """
  rewards, reference = np.asarray(rewards, np.float64), np.asarray(reference, np.float64)
  if rewards.ndim != 2 or reference.shape != rewards.shape[1:] or not reference.size:
    raise ValueError(f'{rewards.shape=} must be [n, d] and {reference.shape=} [d].')
  if not (np.isfinite(rewards).all() and np.isfinite(reference).all()):
    raise ValueError('rewards and reference must be finite: leave out answers that were not given.')
  heights = rewards - reference
  return float(_volume(_front(heights[(heights > 0).all(axis=1)])))


def _front(points: np.ndarray) -> np.ndarray:
  """Distinct non-dominated points, sorted by rising last component."""
  points = np.unique(points, axis=0)
  beaten = ((points[:, None] <= points[None]).all(axis=-1) & ~np.eye(len(points), dtype=bool)).any(axis=1)
  points = points[~beaten]
  return points[np.argsort(points[:, -1], kind='stable')]


def _volume(front: np.ndarray) -> float:
  """Volume between 0 and the points of a front as `_front` sorts it."""
  n, d = front.shape
  if n == 0:
    return 0.
  if d == 1:
    return front[0, 0]
  if d == 2:  # Rising in the second component, so falling in the first: a staircase.
    return (front[:, 0] * np.diff(front[:, 1], prepend=0)).sum()
  volume = 0.
  for i, (*point, length) in enumerate(front):
    shadows = np.minimum(front[i + 1:, :-1], point)
    volume += length * (np.prod(point) - _volume(_front(shadows)))
  return volume
