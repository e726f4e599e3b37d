"""GDPO: every component standardised in its group, then summed, then whitened over the batch (arXiv:2601.05242)."""

import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import NOISE, batch_advantages, check_settings, group_advantage, group_spread
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting

WHITENERS = ('rollouts', 'tokens', 'none')


def whitened(values: jax.Array, counts: jax.Array, *, eps: float) -> jax.Array:
  """The `[B, G]` values minus their mean, over their sample deviation, each counted `counts` `[B, G]` times.

  Fewer than two in all, or a spread that is rounding: as they were.
  """
  total = counts.sum()
  deviations = values - (counts * values).sum() / jnp.maximum(total, 1)
  std = jnp.sqrt((counts * jnp.square(deviations)).sum() / jnp.maximum(total - 1, 1))
  return jnp.where((total > 1) & (std > NOISE), deviations / (std + eps), values)


def gdpo(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, lengths=None,
    whiten='rollouts', ddof=1, eps=1e-4) -> Advantages:
  """Advantages of GDPO: Σ_j w_j (r_ij - mean_j) / (std_j + eps), whitened.

  The weights come after the division, which would cancel them, and only their ratios matter after whitening. More
  levels stay apart than under a standardised sum, but the vector is not kept: (1, 0) against (0, 1) still cancels.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer; a rollout has the mean of those it gave.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` weights of the components, uniform by default.
    lengths: `[B, G]` tokens of every rollout, for `whiten='tokens'`.
    whiten: 'rollouts' of the batch, as in TRL's form; 'tokens', as in verl's, where a long rollout counts more;
      'none'. Groups without signal keep 0, though the mean over tokens need not be 0.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviations; TRL's form. verl's has 1e-6.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline='mean', normalize='std')
  if whiten not in WHITENERS:
    raise ValueError(f'{whiten=} must be one of {", ".join(WHITENERS)}.')
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  if whiten == 'tokens' and getattr(lengths, 'shape', None) != groups.rollouts.shape:
    given = getattr(lengths, 'shape', lengths)
    raise ValueError(f'{whiten=} needs lengths of shape {groups.rollouts.shape}, not {given}.')
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  means_bgd = groups.rewards.sum(axis=2) / groups.answers.sum(axis=2)[..., None]
  standardise = lambda returns, mask: group_advantage(returns, mask, ddof=ddof, eps=eps)
  standardised = jax.vmap(jax.vmap(standardise, (1, None), 1))
  sums = jnp.einsum(
      'bgd,bd->bg', standardised(means_bgd, groups.rollouts), weights, precision=jax.lax.Precision.HIGHEST)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  scores = jnp.einsum('bgd,bd->bg', means_bgd, weights, precision=jax.lax.Precision.HIGHEST)
  values, metrics = batch_advantages(
      groups, sums, set_rewards=scores, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=ddof, eps=eps,
      baseline='mean', normalize='none')
  if whiten != 'none':
    counts = groups.rollouts if whiten == 'rollouts' else jnp.where(groups.rollouts, jnp.asarray(lengths), 0)
    flat = jax.vmap(lambda sums, mask: group_spread(sums, mask, ddof=ddof).flat)(sums, groups.rollouts)
    values = jnp.where(
        flat[:, None] | ~groups.rollouts, 0, whitened(values, counts.astype(values.dtype), eps=eps))
  return Advantages(values, metrics)
