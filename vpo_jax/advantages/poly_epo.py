"""Poly-EPO: set RL. All members of a set earn the set's score; a rollout earns the mean of its sets (arXiv:2604.17654).

Axes: B prompts, G rollouts, N of them live, n rollouts in a set, S sets.
"""

import functools
import itertools
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax.advantages.clusters import cluster_ids
from vpo_jax.advantages.group_advantage import batch_advantages, group_spread
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.grpo import mean_score
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.set_reward import best_scores, pool_best
from vpo_jax.advantages.weights import prompt_keys, scalar_weighting

AGGREGATES = ('mean', 'sum')
MAX_SETS = 100_000


def polychromic(rewards: jax.Array, clusters: jax.Array, junk: jax.Array, *, zero_if_single=False) -> jax.Array:
  """Mean reward of one set times its number of distinct clusters over n.

  Args:
    rewards: `[n]` scalars.
    clusters: `[n]` ids.
    junk: `[n]` bool; junk is no cluster.
    zero_if_single: whether a set of one cluster scores 0 instead of 1/n of its mean: so in the first version of the
      paper and in its ancestor (arXiv:2509.25424), not in the code.

  Returns:
    `[]`.
  """
  seen_before = ((clusters[:, None] == clusters[None]) & jnp.tri(len(clusters), k=-1, dtype=bool)).any(axis=1)
  distinct = (~seen_before & ~junk).sum()
  diversity = jnp.where(zero_if_single & (distinct < 2), 0, distinct / len(clusters))
  return rewards.mean() * diversity


def marginal_advantages(set_scores, sets, rollouts, *, aggregate: str) -> jax.Array:
  """What each rollout's sets score above the mean set: `[G]`, of the sets whose members are all live.

  Args:
    set_scores: `[S]`.
    sets: `[S, n]` indices of the members.
    rollouts: `[G]` bool, False for padding.
    aggregate: over the sets that hold a rollout, 'mean' or 'sum'.
  """
  live = rollouts[sets].all(axis=1)
  spread = group_spread(set_scores, live, ddof=0)
  deviations = jnp.where(spread.flat, 0, spread.deviations)  # 0 also for sets with padding.
  holds_sg = jax.nn.one_hot(sets, len(rollouts), dtype=set_scores.dtype).sum(axis=1)
  over_sets = lambda values: jnp.einsum('s,sg->g', values, holds_sg, precision=jax.lax.Precision.HIGHEST)
  sums = over_sets(deviations)
  return sums if aggregate == 'sum' else sums / jnp.maximum(over_sets(live.astype(sums.dtype)), 1)


def poly_epo(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None, clusters=None,
    prompt_ids=None, n=None, num_sets=None, aggregate='mean', zero_if_single=False, junk_id=100,
    set_score=None) -> Advantages:
  """Advantages of set RL: the mean over the sets of n that hold a rollout of their score minus the mean score.

  No deviation, and no baseline for each member: it would make the set's signal an individual one. With J the expected
  score of n draws, Σ_i A_i ∇log π(y_i) has the expectation of (N-n)/n ∇J ('mean') or C(N-1, n) ∇J ('sum'); sampled
  sets in the sum: (S-1)/(C(N,n)-1) of that. If all rollouts lie in clusters of their own, this is Dr.GRPO times
  (N-n)/(n(N-1)), 1/7 at N = 8, n = 4.

  A symmetric score of one's own is a function of one set: `set_score=lambda rewards, clusters, junk: rewards.max()`.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer; a rollout's reward is the mean scalar of those it gave.
    key: for `num_sets`, folded with the prompt's id; else not used.
    rollout_mask: `[B, G]`, False for padding: sets with padding don't count.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    clusters: `[B, G]` integers, see `cluster_ids`.
    prompt_ids: `[B]` integers, the position by default.
    n: rollouts in a set, fewer than G; half of G by default, as in the paper (4 of 8).
    num_sets: sets sampled without replacement for each prompt, at least 2; all C(G, n) by default.
    aggregate: 'mean', as in the code and later versions of the paper; 'sum', as in its first.
    zero_if_single: see `polychromic`.
    junk_id: cluster of answers that are no attempt, left out of the number of clusters.
    set_score: (rewards `[n]`, clusters `[n]`, junk `[n]`) -> `[]`, in JAX; `polychromic` by default.

  Returns:
    Values `[B, G]`; metrics, among them the share of groups with no more than n live rollouts, which get 0.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  if aggregate not in AGGREGATES:
    raise ValueError(f'{aggregate=} must be one of {", ".join(AGGREGATES)}.')
  if set_score is None:
    set_score = functools.partial(polychromic, zero_if_single=zero_if_single)
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  b, g = groups.rollouts.shape
  clusters = cluster_ids(clusters, (b, g))
  n = set_size(n, g)
  sets = jnp.asarray(np.array(list(itertools.combinations(range(g), n))))
  weights = scalar_weighting(scalar_weights, groups.components, groups.rewards.dtype)
  scores = jax.vmap(mean_score)(groups.rewards, weights, groups.answers)
  if num_sets is None:
    sampled, axis = sets, None  # Not one copy a prompt: 36 rollouts have 58,905 sets of 4.
  else:
    if not 2 <= operator.index(num_sets) <= len(sets):
      raise ValueError(f'{num_sets=} must be in [2, {len(sets)}], the number of sets of {n} among {g} rollouts.')
    draw = lambda key: sets[jax.random.choice(key, len(sets), (num_sets,), replace=False)]
    sampled, axis = jax.vmap(draw)(prompt_keys(key, prompt_ids, b)), 0

  def credited(scores, clusters, sets, rollouts):
    set_scores = jax.vmap(set_score)(scores[sets], clusters[sets], (clusters == junk_id)[sets])
    return marginal_advantages(set_scores.astype(scores.dtype), sets, rollouts, aggregate=aggregate)

  credits = jax.vmap(credited, (0, 0, axis, 0))(scores, clusters, sampled, groups.rollouts)
  best = jax.vmap(best_scores)(groups.rewards, weights[:, None], groups.answers)
  values, metrics = batch_advantages(
      groups, credits, set_rewards=scores, pool_best=jax.vmap(pool_best)(best, groups.rollouts), ddof=1, eps=1e-6,
      baseline='none', normalize='none')
  size = groups.rollouts.sum(axis=-1)
  too_few = ((size > 0) & (size <= n)).sum() / jnp.maximum((size > 0).sum(), 1)
  return Advantages(values, metrics | {'groups_without_sets': too_few})


def set_size(n: int | None, group_size: int) -> int:
  """The set size to use: half the group by default.

  Raises:
    ValueError: there are not several sets of n, or too many to list.
  """
  n = max(1, group_size // 2) if n is None else operator.index(n)
  if group_size > 1 and not 1 <= n < group_size:
    raise ValueError(f'{n=} must be in [1, {group_size - 1}] for groups of {group_size} rollouts: it takes two sets.')
  if math.comb(group_size, n) > MAX_SETS:
    raise ValueError(f'{n=} makes {math.comb(group_size, n)} sets of {group_size} rollouts, more than {MAX_SETS}.')
  return n
