"""VPO: a rollout earns what the best of its answers is worth to a user with random preferences.

Vector Policy Optimization, arXiv:2605.22817.
"""

import jax
import jax.numpy as jnp

from vpo_jax.advantages import weights as weightings
from vpo_jax.advantages.exact_set_reward import exact_set_reward, has_closed_form
from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import pool_best, set_scores


def vpo(
    rewards, key, *, rollout_mask=None, answer_mask=None, component_mask=None, prompt_ids=None, num_weights=100,
    alpha=1., weight_sampler='dirichlet', ddof=0, eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of VPO: set rewards, standardised within each group.

  The paper's K = 100, alpha = 1. Its code takes the population deviation and cuts spreads below 1e-6, though it says
  that it does what GRPO does, which takes the sample deviation and has no cut.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: weightings are drawn from `fold_in(key, prompt_id)`, once for a group: drawn for each rollout, sets would also
      differ by their luck with w.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    prompt_ids: `[B]` integers, the position by default.
    num_weights: K, weightings a prompt; of no effect on the values with `weight_sampler='exact'`.
    alpha: concentration of the Dirichlet.
    weight_sampler: 'dirichlet', independent draws; 'lattice', evenly spread ones, whose noise is that of 8 (d = 16) to
      200 (d = 4) times as many draws; 'sobol', likewise where K is a power of two and d at most 32; 'exact', the
      integral, for m or d of at most two (see `exact_set_reward`), without a key.
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
  weightings.check_settings(
      num_weights=num_weights, alpha=alpha, weight_sampler=weight_sampler, samplers=(*weightings.SAMPLERS, 'exact'))
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  b, g, m, d = groups.rewards.shape

  def drawn(rewards, answers, rollouts, components, key, sampler=weight_sampler):
    weights = weightings.simplex_weights(
        key, num_weights, d, alpha=alpha, components=components, sampler=sampler, dtype=rewards.dtype)
    scores = set_scores(rewards, weights, answers)
    return scores.mean(axis=1), pool_best(scores.T, rollouts)

  def integrated(rewards, answers, rollouts, components):
    if has_closed_form(g * m, d, alpha):
      pool = (answers & rollouts[:, None]).reshape(1, g * m)
      best = jnp.where(rollouts.any(), exact_set_reward(rewards.reshape(1, g * m, d), pool, components)[0], 0)
    else:  # The metric alone, under the same weightings every time.
      _, best = drawn(rewards, answers, rollouts, components, jax.random.key(0), sampler='lattice')
    return exact_set_reward(rewards, answers, components), best

  if weight_sampler == 'exact':
    if not has_closed_form(m, d, alpha):
      raise ValueError(f'{weight_sampler=} needs one answer or component, or alpha=1 and two of either; this is m={m}, '
                       f"d={d}, {alpha=}. weight_sampler='lattice' takes any.")
    set_rewards, best = jax.vmap(integrated)(*groups[:4])
  else:
    set_rewards, best = jax.vmap(drawn)(*groups[:4], weightings.prompt_keys(key, prompt_ids, b))
  return batch_advantages(
      groups, set_rewards, set_rewards=set_rewards, pool_best=best, ddof=ddof, eps=eps, baseline=baseline,
      normalize=normalize)
