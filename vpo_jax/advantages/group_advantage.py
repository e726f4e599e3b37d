"""Returns of one group -> advantages: baseline, then scale. Shared by every estimator."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from vpo_jax.advantages.groups import Groups
from vpo_jax.advantages.result import Advantages

NORMALIZERS = ('std', 'none')
# Spreads below this share of the returns (of 1, where they are small) are rounding. VPO's code cuts at 1e-6.
NOISE = 1e-6


class Spread(NamedTuple):
  """How the live rollouts of a group differ: `[G]` deviations from their mean, `[]` deviation, whether it is noise."""

  deviations: jax.Array
  std: jax.Array
  flat: jax.Array


def group_spread(returns: jax.Array, mask: jax.Array, *, ddof: int) -> Spread:
  """Spread of the `[G]` returns where `mask`; a tied group deviates by exactly zero."""
  count = mask.sum()
  # From a member, not from 0: a tie then deviates by exactly zero, and a common offset costs no digits.
  shifted = jnp.where(mask, returns - returns[jnp.argmax(mask)], 0)
  deviations = jnp.where(mask, shifted - shifted.sum() / jnp.maximum(count, 1), 0)
  std = jnp.sqrt(jnp.square(deviations).sum() / jnp.maximum(count - ddof, 1))
  scale = jnp.abs(jnp.where(mask, returns, 0)).max()
  flat = (std < NOISE * jnp.maximum(scale, 1)) | (count < 2)
  return Spread(deviations, std, flat)


def group_advantage(returns, mask=None, *, ddof, eps=1e-6, baseline='mean', normalize='std') -> jax.Array:
  """Standardises the `[G]` returns of one group; a tied group gets exactly zero.

  VPO's code takes the population deviation (`ddof=0`), GRPO's the sample one (1): a factor √(G/(G-1)), 7 % at G = 8.

  Args:
    returns: `[G]` one scalar for each rollout.
    mask: `[G]` bool, False for padding, whose advantage is 0.
    ddof: 0 or 1, taken off the count in the deviation.
    eps: added to the deviation.
    baseline: 'mean' of the group; 'loo', the mean of the others; 'none'.
    normalize: 'std' divides by the group's deviation plus `eps`, 'none' leaves the units of the returns.

  Returns:
    `[G]` advantages. Zero in a group that is flat or has one live rollout, except that `baseline='none'` with
    `normalize='none'` leaves the returns of a flat group as they are: they carry the signal there.
  """
  chex.assert_rank(returns, 1)  # Checked while tracing: free at run time.
  mask = jnp.ones(returns.shape, bool) if mask is None else mask
  chex.assert_equal_shape([returns, mask])
  count = mask.sum()
  deviations, std, flat = group_spread(returns, mask, ddof=ddof)
  match baseline:
    case 'mean':
      values = deviations
    case 'loo':  # r_i - mean of the others = G/(G-1) (r_i - mean)
      values = deviations * (count / jnp.maximum(count - 1, 1))
    case 'none':
      values = jnp.where(mask, returns, 0)
  if normalize == 'std':
    values = values / (std + eps)
  elif baseline == 'none':
    flat = count < 2
  return jnp.where(flat, 0, values)


def check_settings(*, ddof, eps, baseline, normalize, baselines=('mean', 'loo', 'none')):
  """Raises ValueError where a setting that `group_advantage` gets is not one it knows."""
  if ddof not in (0, 1):
    raise ValueError(f'{ddof=} must be 0 (population deviation) or 1 (sample deviation).')
  if not 0 < eps < float('inf'):
    raise ValueError(f'{eps=} must be a positive number.')
  if baseline not in baselines:
    raise ValueError(f'{baseline=} must be one of {", ".join(baselines)} for this estimator.')
  if normalize not in NORMALIZERS:
    raise ValueError(f'{normalize=} must be one of {", ".join(NORMALIZERS)}.')


def batch_advantages(groups: Groups, credits, *, set_rewards, pool_best, ddof, eps, baseline, normalize) -> Advantages:
  """Advantages of all groups, with the metrics that all estimators log.

  Args:
    groups: the batch.
    credits: `[B, G]` what the baseline and the scale are applied to.
    set_rewards: `[B, G]` what each rollout earned (the credits themselves, unless rollouts share credit).
    pool_best: `[B]` what all answers of a group earn together.
    ddof: as in `group_advantage`, like the rest.
    eps: likewise.
    baseline: likewise.
    normalize: likewise.

  Returns:
    Values `[B, G]` and metrics.
  """
  values = jax.vmap(
      lambda credits, mask: group_advantage(
          credits, mask, ddof=ddof, eps=eps, baseline=baseline, normalize=normalize))(credits, groups.rollouts)
  spread = jax.vmap(lambda credits, mask: group_spread(credits, mask, ddof=ddof))(credits, groups.rollouts)
  live = groups.rollouts.any(axis=-1)

  def mean(values, mask):
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)

  metrics = groups.metrics | {
      'set_reward': mean(set_rewards, groups.rollouts),
      'pool_best': mean(pool_best, live),
      'group_std': mean(spread.std, live),
      'flat_groups': mean(spread.flat, live),
  }
  return Advantages(jax.lax.stop_gradient(values), metrics)
