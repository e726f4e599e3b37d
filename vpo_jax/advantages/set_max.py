"""Set-max: VPO with one weighting, the task's own. A rollout earns the scalar of its best answer."""

import jax

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting


def set_max(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, ddof=0,
    eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of the best scalars, standardised within each group as in VPO.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: as in `vpo`, like the other masks and settings.
    answer_mask: likewise.
    component_mask: likewise.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    ddof: as in `vpo`.
    eps: likewise.
    baseline: likewise.
    normalize: likewise.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  return batch_advantages(
      groups, scores[:, 0], set_rewards=scores[:, 0], pool_best=jax.vmap(pool_best)(scores, groups.rollouts), ddof=ddof,
      eps=eps, baseline=baseline, normalize=normalize)
