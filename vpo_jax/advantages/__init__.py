"""Advantage estimators: reward vectors in, one advantage a rollout out. Knows nothing of models or text.

Axes: B prompts, G rollouts of a prompt, m answers in each, d reward components.
"""

import difflib
import inspect

from vpo_jax.advantages import (
  diversity_bonus,
  dr_grpo,
  gdpo,
  grpo,
  hypervolume,
  max_at_k,
  maxrl,
  multi_rlvr,
  pareto_rank,
  pkpo,
  poly_epo,
  random_weights,
  set_max,
  vpo,
  vpo_subsets,
)
from vpo_jax.advantages.result import Advantages

__all__ = ['ESTIMATORS', 'Advantages', 'compute', 'settings_of']

ESTIMATORS = {
    'diversity_bonus': diversity_bonus.diversity_bonus,
    'dr_grpo': dr_grpo.dr_grpo,
    'gdpo': gdpo.gdpo,
    'grpo': grpo.grpo,
    'hypervolume': hypervolume.hypervolume,
    'max_at_k': max_at_k.max_at_k,
    'maxrl': maxrl.maxrl,
    'multi_rlvr': multi_rlvr.multi_rlvr,
    'pareto_rank': pareto_rank.pareto_rank,
    'pkpo': pkpo.pkpo,
    'poly_epo': poly_epo.poly_epo,
    'random_weights': random_weights.random_weights,
    'set_max': set_max.set_max,
    'vpo': vpo.vpo,
    'vpo_subsets': vpo_subsets.vpo_subsets,
}


def settings_of(name: str) -> dict[str, object]:
  """Keywords that the estimator names, with their defaults: masks, per-rollout arrays and settings alike.

  Raises:
    ValueError: no estimator has this name.
  """
  if name not in ESTIMATORS:
    raise ValueError(f'{name=} is no estimator.{_suggestion(name, ESTIMATORS)}')
  parameters = inspect.signature(ESTIMATORS[name]).parameters.values()
  return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def compute(name: str, rewards, key=None, **keywords) -> Advantages:
  """Advantages by the estimator called `name`, its keywords and the group size checked first.

  Args:
    name: a key of `ESTIMATORS`.
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: for the estimators that draw weightings.
    **keywords: what `settings_of(name)` lists.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: an unknown name or keyword, one rollout a prompt, or a shape or setting that the estimator refuses.
  """
  known = settings_of(name)
  for keyword in keywords:
    if keyword not in known:
      raise ValueError(f'{name} has no setting {keyword!r}.{_suggestion(keyword, known)}')
  shape = getattr(rewards, 'shape', ())
  if len(shape) == 4 and shape[1] == 1:
    raise ValueError(f'{rewards.shape=} has one rollout a prompt; {name} compares rollouts and needs at least 2.')
  return ESTIMATORS[name](rewards, key, **keywords)


def _suggestion(word, words):
  close = difflib.get_close_matches(str(word), words)
  return f' Did you mean {" or ".join(close)}?' if close else f' There are: {", ".join(words)}.'
