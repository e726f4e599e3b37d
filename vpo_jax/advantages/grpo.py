"""GRPO: a rollout earns the task's scalar of its answer, standardised within the group (arXiv:2402.03300)."""

import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting


def mean_score(rewards: jax.Array, weights: jax.Array, answers: jax.Array) -> jax.Array:
  """Scalar `[G]` of each rollout: the mean of wᵀr over the answers that count.

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    weights: `[d]` weighting.
    answers: `[G, m]` bool, answers that count; at least one a rollout.
  """
  scores_gm = jnp.einsum('gmd,d->gm', rewards, weights, precision=jax.lax.Precision.HIGHEST)
  return jnp.where(answers, scores_gm, 0).sum(axis=-1) / answers.sum(axis=-1)


def grpo(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, ddof=1,
    eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of GRPO on the task's scalar.

  Meant for one answer a rollout; with several, the rollout earns the mean over those it gave (their best is `set_max`,
  their sum `multi_rlvr`). The sample deviation, as in the usual code; that code has no cut, so where it divides a
  spread below 1e-6 by itself, here the group is flat.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation.
    baseline: 'mean', 'loo' or 'none', see `group_advantage`.
    normalize: 'std' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(mean_score)(groups.rewards, weights, groups.answers)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  return batch_advantages(
      groups, scores, set_rewards=scores, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=ddof, eps=eps,
      baseline=baseline, normalize=normalize)
