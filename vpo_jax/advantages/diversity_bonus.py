"""GRPO with a diversity bonus: a rollout is paid for being unlike the others, whatever it earns."""

import jax
import jax.numpy as jnp

from vpo_jax.advantages.clusters import cluster_ids
from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.grpo import mean_score
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import scalar_weighting

BONUSES = ('cluster', 'variance')


def cluster_bonus(clusters: jax.Array, rollouts: jax.Array) -> jax.Array:
  """How rare each rollout's cluster is, (N/size - 1)/(N - 1): `[G]`, 1 if alone in it, 0 if all are in it.

  Args:
    clusters: `[G]` ids.
    rollouts: `[G]` bool, False for padding.
  """
  count = rollouts.sum()
  size = ((clusters[:, None] == clusters[None]) & rollouts[None]).sum(axis=1)
  return (count / jnp.maximum(size, 1) - 1) / jnp.maximum(count - 1, 1)


def variance_bonus(rewards: jax.Array, rollouts: jax.Array, components: jax.Array) -> jax.Array:
  """Each rollout's part in the variance of the group's reward vectors, ‖r_i - mean r‖² / d: `[G]`.

  Args:
    rewards: `[G, d]` reward vector of each rollout, 0 in components that the prompt lacks.
    rollouts: `[G]` bool, False for padding.
    components: `[d]` bool, components that the prompt has.
  """
  mean = jnp.where(rollouts[:, None], rewards, 0).sum(axis=0) / jnp.maximum(rollouts.sum(), 1)
  return jnp.square(rewards - mean[None]).sum(axis=1) / jnp.maximum(components.sum(), 1)


def diversity_bonus(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, clusters=None,
    bonus='cluster', coefficient=1., ddof=1, eps=1e-6, baseline='mean', normalize='none') -> Advantages:
  """Advantages of r_i + λ d_i, minus the group's mean: Poly-EPO's baseline (arXiv:2604.17654).

  The bonus is added, so that novelty pays also where nobody is right; `poly_epo` multiplies.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer; a rollout has the mean of those it gave.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    clusters: `[B, G]` integers, see `cluster_ids`; for `bonus='cluster'`.
    bonus: 'cluster', as in the paper; 'variance' of the reward vectors, our own.
    coefficient: λ, not negative.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation.
    baseline: 'mean', 'loo' or 'none', see `group_advantage`.
    normalize: 'none', as in the paper; 'std'.

  Returns:
    Values `[B, G]`; metrics, among them the mean bonus (without λ).

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  if bonus not in BONUSES:
    raise ValueError(f'{bonus=} must be one of {", ".join(BONUSES)}.')
  if not 0 <= coefficient < float('inf'):
    raise ValueError(f'{coefficient=} must be a number, not negative.')
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(mean_score)(groups.rewards, weights, groups.answers)
  if bonus == 'cluster':
    bonuses = jax.vmap(cluster_bonus)(cluster_ids(clusters, scores.shape), groups.rollouts)
  else:
    means = groups.rewards.sum(axis=2) / groups.answers.sum(axis=2)[..., None]
    bonuses = jax.vmap(variance_bonus)(means, groups.rollouts, groups.components)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  values, metrics = batch_advantages(
      groups, scores + coefficient * bonuses.astype(scores.dtype), set_rewards=scores,
      pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  mean_bonus = jnp.where(groups.rollouts, bonuses, 0).sum() / jnp.maximum(groups.rollouts.sum(), 1)
  return Advantages(values, metrics | {'diversity_bonus': mean_bonus})
