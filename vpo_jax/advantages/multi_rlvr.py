"""Multi-RLVR: a rollout earns the sum of its distinct answers' scalars.

Puri et al., Reaching Beyond the Mode; as VPO's paper (arXiv:2605.22817) uses it.
"""

import chex
import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting


def distinct_shares(answers: jax.Array, answer_ids: jax.Array) -> jax.Array:
  """Share `[G, m]` of each answer in the sum: 1 / number of its copies in the rollout, 0 if it doesn't count.

  Copies share one unit, rather than the first taking it, so that the order of answers never matters.

  Args:
    answers: `[G, m]` bool, answers that count.
    answer_ids: `[G, m]` integers; equal in a rollout: the same answer.
  """
  chex.assert_equal_shape([answers, answer_ids])
  same = (answer_ids[:, :, None] == answer_ids[:, None, :]) & answers[:, None, :]
  return jnp.where(answers, 1 / jnp.maximum(same.sum(axis=-1), 1), 0)


def multi_rlvr(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None,
    answer_ids=None, deduplicate=True, ddof=1, eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of GRPO on the sum over answers; a missing answer adds nothing.

  VPO's code removes duplicates before the sum, on some tasks by score vector, which pays for different partial answers
  and not for a second perfect one; the method's own code allows duplicates (`deduplicate=False`) and has eps 1e-4.
  Here equal `answer_ids` are duplicates.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    answer_ids: `[B, G, m]` integers, equal for equal answers of a rollout. None: all answers are taken as distinct.
    deduplicate: whether copies of an answer are paid once.
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
  if answer_ids is None or not deduplicate:
    shares = groups.answers.astype(groups.rewards.dtype)
  else:
    answer_ids = jnp.asarray(answer_ids)
    if answer_ids.shape != groups.answers.shape:
      raise ValueError(f'answer_ids has shape {answer_ids.shape}; it must be {groups.answers.shape}.')
    shares = jax.vmap(distinct_shares)(groups.answers, answer_ids).astype(groups.rewards.dtype)
  scores_bgm = jnp.einsum('bgmd,bd->bgm', groups.rewards, weights, precision=jax.lax.Precision.HIGHEST)
  sums = (shares * scores_bgm).sum(axis=-1)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  return batch_advantages(
      groups, sums, set_rewards=sums, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=ddof, eps=eps,
      baseline=baseline, normalize=normalize)
