"""Max@K: a rollout earns its share of the best scalar among k draws (arXiv:2510.23393)."""

import jax
import jax.numpy as jnp

from vpo_jax.advantages import group_advantage, subset_credit
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting


def max_at_k(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, k=None, ddof=1,
    eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of Max@K on the task's scalar, with several answers on that of the best.

  Credits are the paper's r̃_i: the sum, over the k-subsets that hold rollout i, of their best scalar, divided by the
  number of all k-subsets. Then Σ_i r̃_i ∇log π(y_i) has the expectation of the gradient of the best of k. The paper
  reports no baseline, the mean and leave-one-out; VPO's code takes the mean and the sample deviation, the defaults.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    k: rollouts in a subset, max(2, G // 2) by default.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation.
    baseline: 'mean' of the group; 'loo', k/N times the mean best of k others; 'loo_1', of k-1 others; 'none'.
    normalize: 'std' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  group_advantage.check_settings(
      ddof=ddof, eps=eps, baseline=baseline, normalize=normalize, baselines=subset_credit.BASELINES)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  g = groups.rewards.shape[1]
  k = subset_credit.subset_size(k, g, baseline)
  tables = jnp.asarray(subset_credit.subset_tables(g, k), groups.rewards.dtype)
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  credit = lambda scores, rollouts: subset_credit.subset_credit(scores, rollouts, tables, baseline=baseline)
  credits = jax.vmap(credit)(scores[:, 0], groups.rollouts)
  credits *= k / jnp.maximum(groups.rollouts.sum(axis=-1, keepdims=True), 1)
  return subset_credit.subset_advantages(
      groups, credits, k=k, set_rewards=scores[:, 0], pool_best=jax.vmap(pool_best)(scores, groups.rollouts), ddof=ddof,
      eps=eps, baseline=baseline, normalize=normalize)
