"""GRPO on one random weighting for each prompt, drawn anew at every step or kept."""

import jax

from vpo_jax.advantages import weights as weightings
from vpo_jax.advantages.group_advantage import batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.grpo import mean_score
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best


def random_weights(
    rewards, key, *, rollout_mask=None, answer_mask=None, component_mask=None, prompt_ids=None, redraw='step',
    seed=0, alpha=1., weight_sampler='dirichlet', ddof=1, eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of GRPO under a weighting that the policy can't see.

  VPO's text says that the weighting is drawn anew during training, its code keeps one for each prompt for the whole
  run. Here the text is followed, and the code by `redraw='never'`.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: the weighting is drawn from `fold_in(key, prompt_id)`, once for a group: it is as new as the key.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    prompt_ids: `[B]` integers, the position by default. 'never' needs them: a position is no prompt.
    redraw: 'step'; or 'never', one weighting a prompt, drawn from `fold_in(jax.random.key(seed), prompt_id)`.
    seed: of the weightings that are never redrawn; of no effect otherwise.
    alpha: concentration of the Dirichlet.
    weight_sampler: 'dirichlet'.
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
  weightings.check_settings(num_weights=1, alpha=alpha, weight_sampler=weight_sampler)
  if redraw not in ('step', 'never'):
    raise ValueError(f'{redraw=} must be one of step, never.')
  if redraw == 'never':
    if prompt_ids is None:
      raise ValueError(f'{redraw=} needs prompt_ids: a weighting stays with its prompt.')
    key = jax.random.key(seed)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  b, _, _, d = groups.rewards.shape

  def scored(rewards, answers, rollouts, components, key):
    weights = weightings.simplex_weights(key, 1, d, alpha=alpha, components=components, dtype=rewards.dtype)
    return mean_score(rewards, weights[0], answers), pool_best(best_scores(rewards, weights, answers), rollouts)

  scores, best = jax.vmap(scored)(*groups[:4], weightings.prompt_keys(key, prompt_ids, b))
  return batch_advantages(
      groups, scores, set_rewards=scores, pool_best=best, ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
