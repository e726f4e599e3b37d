"""MaxRL: successes weigh by how rare they are, r_i / mean r - 1 (arXiv:2602.02710)."""

import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.grpo import mean_score
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting

BASELINES = ('mean', 'none', 'always')


def maxrl(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, eps=1e-6,
    baseline='mean') -> Advantages:
  """Advantages of MaxRL: (r_i - mean r) / (mean r + eps), 0 where the mean is 0.

  With p the chance of success, log p = -Σ_k (1-p)^k / k. RL climbs its first term; the paper's estimator, the mean of
  ∇log π over the successes, its first N ('none', 'always'). The usual code ('mean') skips the groups that failed
  altogether, and its expectation stops at N - 1 terms. All this holds for the mean over rollouts of A_i ∇log π(y_i).

  The method is made for successes 0 and 1. Scalars that are only non-negative pass; a group with a negative one gets 0
  and is counted, since its mean may be near 0 or flip all signs. VPO's code divides a lone rollout by eps; here it
  gets 0.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default; several answers count by their mean.
    eps: added to the mean.
    baseline: 'mean'; 'none', r_i / mean; 'always', r_i / mean - 1 also where all failed (-1 each), the control variate
      of the paper.

  Returns:
    Values `[B, G]`; metrics, among them the number of rollouts with a negative scalar.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=1, eps=eps, baseline=baseline, normalize='none', baselines=BASELINES)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(mean_score)(groups.rewards, weights, groups.answers)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  values, metrics = batch_advantages(
      groups, scores, set_rewards=scores, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=1, eps=eps,
      baseline='mean' if baseline == 'mean' else 'none', normalize='none')
  size = groups.rollouts.sum(axis=-1, keepdims=True)
  mean = jnp.where(groups.rollouts, scores, 0).sum(axis=-1, keepdims=True) / jnp.maximum(size, 1)
  values = jnp.where(mean > 0, values / (mean + eps), 0)
  if baseline == 'always':
    values = jnp.where(groups.rollouts & (size > 1), values - 1, 0)
  negative = (scores < 0) & groups.rollouts
  values = jnp.where(negative.any(axis=-1, keepdims=True), 0, values)
  return Advantages(values, metrics | {'negative_rewards': negative.sum()})
