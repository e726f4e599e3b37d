"""VPO's set reward over all k-subsets of a group's rollouts: what a rollout adds to k draws, for every weighting.

The credit of one rollout of m answers is the mean, over the k-subsets of rollouts that hold it and over weightings, of
the best score among their k·m answers. k = 1 is VPO, one component is Max@K.
"""

import jax
import jax.numpy as jnp

from vpo_jax.advantages import group_advantage, subset_credit
from vpo_jax.advantages import weights as weightings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best


def vpo_subsets(
    rewards, key, *, rollout_mask=None, answer_mask=None, component_mask=None, prompt_ids=None, k=None, num_weights=32,
    alpha=1., weight_sampler='dirichlet', ddof=0, eps=1e-4, baseline='mean', normalize='std') -> Advantages:
  """Advantages of the subset credits u (in reward units), averaged over weightings and standardised in each group.

  Without std, Σ_i A_i ∇log π(y_i) has the expectation of ∇J_k, the gradient of the best of k draws under a random
  weighting, times a factor: N/k for 'none', 'loo' and 'loo_1', N/k - 1 for 'mean'.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: weightings are drawn from `fold_in(key, prompt_id)`, once for a group.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    prompt_ids: `[B]` integers, the position by default.
    k: rollouts in a subset; about the number that a user will draw, at least 8 if there are many components, at most
      half of G. By default max(2, G // 2).
    num_weights: K, weightings a prompt; 8 are enough on a budget.
    alpha: concentration of the Dirichlet.
    weight_sampler: 'dirichlet', 'lattice' or 'sobol', as in `vpo`.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation of the credits; 1e-4 tames near-ties only (late in training deviations are near 1e-3).
    baseline: 'mean' of the group; 'loo', the mean best of k others; 'loo_1', of k-1 others, all credits then being
      marginal contributions, never negative; 'none'.
    normalize: 'std' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics, among them the share of groups whose credits deviate by less than 1e-3.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  group_advantage.check_settings(
      ddof=ddof, eps=eps, baseline=baseline, normalize=normalize, baselines=subset_credit.BASELINES)
  weightings.check_settings(
      num_weights=num_weights, alpha=alpha, weight_sampler=weight_sampler, samplers=weightings.SAMPLERS)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  b, g, _, d = groups.rewards.shape
  k = subset_credit.subset_size(k, g, baseline)
  tables = jnp.asarray(subset_credit.subset_tables(g, k), groups.rewards.dtype)

  def credited(rewards, answers, rollouts, components, key):
    weights = weightings.simplex_weights(
        key, num_weights, d, alpha=alpha, components=components, sampler=weight_sampler, dtype=rewards.dtype)
    scores = best_scores(rewards, weights, answers)
    credit = lambda scores: subset_credit.subset_credit(scores, rollouts, tables, baseline=baseline)
    return jax.vmap(credit)(scores).mean(axis=0), scores.mean(axis=0), pool_best(scores, rollouts)

  credits, set_rewards, best = jax.vmap(credited)(*groups[:4], weightings.prompt_keys(key, prompt_ids, b))
  values, metrics = subset_credit.subset_advantages(
      groups, credits, k=k, set_rewards=set_rewards, pool_best=best, ddof=ddof, eps=eps, baseline=baseline,
      normalize=normalize)
  spread = jax.vmap(lambda credits, mask: group_advantage.group_spread(credits, mask, ddof=ddof))(
      credits, groups.rollouts)
  live = groups.rollouts.any(axis=-1)
  near_flat = (live & (spread.std < 1e-3)).sum() / jnp.maximum(live.sum(), 1)
  return Advantages(values, metrics | {'near_flat_groups': near_flat})
