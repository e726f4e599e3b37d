"""Pareto rank: a rollout earns the front it stands on, by non-dominated sorting of its group.

After the ranking stage of ParetoPO (arXiv:2606.16111), written from its description: only who beats whom counts.
"""

import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.pareto import front_ranks


def best_ranks(rewards: jax.Array, answers: jax.Array, rollouts: jax.Array) -> jax.Array:
  """The best front among each rollout's answers, all answers of the group being sorted together: `[G]` int32.

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    answers: `[G, m]` bool, answers that count; at least one a rollout.
    rollouts: `[G]` bool, False for padding.

  Returns:
    0 for the first front; G·m for padding.
  """
  g, m, d = rewards.shape
  live = answers & rollouts[:, None]
  return front_ranks(rewards.reshape(g * m, d), live.reshape(g * m)).reshape(g, m).min(axis=1)


def pareto_rank(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, ddof=1, eps=1e-6, baseline='mean',
    normalize='std') -> Advantages:
  """Advantages of the negated rank, standardised within the group; no weighting and no scale of a component matters.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer; of several, the best front counts.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation.
    baseline: 'mean', 'loo' or 'none', see `group_advantage`.
    normalize: 'std' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics, among them the share of rollouts on the first front.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  ranks = jax.vmap(best_ranks)(groups.rewards, groups.answers, groups.rollouts)
  signal = -ranks.astype(groups.rewards.dtype)
  values, metrics = batch_advantages(
      groups, signal, set_rewards=signal, pool_best=jnp.zeros(len(signal)), ddof=ddof, eps=eps, baseline=baseline,
      normalize=normalize)
  first = (groups.rollouts & (ranks == 0)).sum() / jnp.maximum(groups.rollouts.sum(), 1)
  return Advantages(values, metrics | {'first_front': first})
