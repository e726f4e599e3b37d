"""Multi-RLVR: a rollout earns the sum of its distinct answers' scalars.

Puri et al., Reaching Beyond the Mode; as VPO's paper (arXiv:2605.22817) uses it.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import Groups, clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting

SCORES = ('sum', 'max_sum', 'set_coverage')
PASS = .5  # An entry from here on passes its component.
MAX_COVERING = 10  # Set coverage goes through 2^m selections of answers.


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


def answer_sums(groups: Groups, weights: jax.Array, answer_ids) -> jax.Array:
  """Sum `[B, G]` of the scalars of each rollout's answers under `weights` `[B, d]`, copies of an answer paid once.

  Raises:
    ValueError: `answer_ids` `[B, G, m]` (None: all answers differ) don't fit the answers.
  """
  if answer_ids is None:
    shares = groups.answers.astype(groups.rewards.dtype)
  else:
    answer_ids = jnp.asarray(answer_ids)
    if answer_ids.shape != groups.answers.shape:
      raise ValueError(f'answer_ids has shape {answer_ids.shape}; it must be {groups.answers.shape}.')
    shares = jax.vmap(distinct_shares)(groups.answers, answer_ids).astype(groups.rewards.dtype)
  scores_bgm = jnp.einsum('bgmd,bd->bgm', groups.rewards, weights, precision=jax.lax.Precision.HIGHEST)
  return (shares * scores_bgm).sum(axis=-1)


def max_sum(rewards: jax.Array, answers: jax.Array) -> jax.Array:
  """Sum over components of the best entry among each rollout's answers: `[G]`, each entry from any answer.

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    answers: `[G, m]` bool, answers that count; at least one a rollout.
  """
  return jnp.where(answers[..., None], rewards, -jnp.inf).max(axis=1).sum(axis=-1)


def set_coverage(rewards: jax.Array, answers: jax.Array) -> jax.Array:
  """Number of non-empty sets of components that one of the answers passes together: `[G]`.

  By inclusion and exclusion: a selection T of answers shares 2^c - 1 of them, c being the components that all of T
  pass, and adds these if |T| is odd, else takes them off.

  Args:
    rewards: `[G, m, d]` reward vector of every answer; an entry of at least 1/2 passes.
    answers: `[G, m]` bool, answers that count.
  """
  passed = (rewards >= PASS) & answers[..., None]
  m = passed.shape[1]
  chosen_tm = (np.arange(1, 2**m)[:, None] >> np.arange(m)) % 2 == 1
  shared = (passed[:, None] | ~chosen_tm[None, :, :, None]).all(axis=2).sum(axis=-1)
  signs = np.where(chosen_tm.sum(axis=1) % 2 == 1, 1., -1.)
  return (signs[None] * (jnp.exp2(shared.astype(rewards.dtype)) - 1)).sum(axis=-1).astype(rewards.dtype)


def multi_rlvr(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None,
    answer_ids=None, deduplicate=True, score='sum', ddof=1, eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of GRPO on the sum over answers; a missing answer adds nothing.

  VPO's code removes duplicates before the sum, on some tasks by score vector, which pays for different partial answers
  and not for a second perfect one; the method's own code allows duplicates (`deduplicate=False`) and has eps 1e-4.
  Here equal `answer_ids` are duplicates. Where a task names no scalar, VPO's code has two more scores of the set, both
  blind to duplicates: `max_sum` and `set_coverage`, on all components alike.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    answer_ids: `[B, G, m]` integers, equal for equal answers of a rollout. None: all answers are taken as distinct.
    deduplicate: whether copies of an answer are paid once.
    score: 'sum' of the answers' scalars, as in the paper; 'max_sum' or 'set_coverage', without weights.
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
  if score not in SCORES:
    raise ValueError(f'{score=} must be one of {", ".join(SCORES)}.')
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  m = groups.answers.shape[2]
  if score == 'set_coverage' and m > MAX_COVERING:
    raise ValueError(f'{score=} takes at most {MAX_COVERING} answers a rollout, not {m}.')
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  if score == 'sum':
    scores = answer_sums(groups, weights, answer_ids if deduplicate else None)
  else:
    scores = jax.vmap(max_sum if score == 'max_sum' else set_coverage)(groups.rewards, groups.answers)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  return batch_advantages(
      groups, scores, set_rewards=scores, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=ddof, eps=eps,
      baseline=baseline, normalize=normalize)
