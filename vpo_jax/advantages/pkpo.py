"""PKPO: Max@K credits against leave-one-out baselines, in the units of the gradient (arXiv:2505.15201)."""

import jax.numpy as jnp

from vpo_jax.advantages import group_advantage, subset_credit
from vpo_jax.advantages.max_at_k import max_at_k
from vpo_jax.advantages.result import Advantages

BASELINES = ('loo_1', 'loo', 'none')


def pkpo(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, k=None,
    baseline='loo_1') -> Advantages:
  """Advantages of PKPO: credits s_i = r̃_i of `max_at_k` minus a baseline, without deviation.

  The sum Σ_i A_i ∇log π(y_i) has the expectation of the gradient of the best of k, whichever the baseline, so that a
  loss which averages over rollouts sees it N times smaller. All but 'loo' are `max_at_k` with other defaults.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    k: rollouts in a subset, max(2, G // 2) by default.
    baseline: 'loo_1', k/N times the mean best of k-1 others, which the paper recommends: 0 in a tied group; 'loo', the
      mean credit of the N-1 others among themselves, k/(N-1) times the mean best of k of them (`max_at_k` takes k/N,
      which is unbiased too and leaves nothing in a tied group, where this leaves a constant); 'none'.

  Returns:
    Values `[B, G]`; metrics. A group with too few live rollouts for the baseline gets 0.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  group_advantage.check_settings(ddof=1, eps=1e-6, baseline=baseline, normalize='none', baselines=BASELINES)
  arrays = dict(rollout_mask=rollout_mask, answer_mask=answer_mask, component_mask=component_mask)
  settings = dict(scalar_weights=scalar_weights, k=k, normalize='none')
  values, metrics = max_at_k(rewards, key, baseline=baseline, **arrays, **settings)
  mask = jnp.ones(values.shape, bool) if rollout_mask is None else jnp.asarray(rollout_mask, bool)
  size = mask.sum(axis=-1, keepdims=True)
  k = subset_credit.subset_size(k, values.shape[1], baseline)
  if baseline == 'loo':
    credits, _ = max_at_k(rewards, key, baseline='none', **arrays, **settings)
    # Credits sum to k times the mean best of all k-subsets; a share of (N-k)/N of these lacks rollout i.
    others = size / jnp.maximum(size - k, 1) * (credits.sum(axis=-1, keepdims=True) / k - credits)
    values -= others * k / jnp.maximum(size * (size - 1), 1)
  return Advantages(jnp.where(mask & (size >= k + (baseline == 'loo')), values, 0), metrics)
