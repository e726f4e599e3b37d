"""Credit of one score among all k-subsets of its group, in closed form by sorted gaps.

A rollout's credit is the mean, over the k-subsets that hold it, of the subset's best score:

  u_i = mean_{S ∋ i, |S| = k} max_{j ∈ S} q_j

With the scores sorted, gaps g_l = q_(l+1) - q_(l) and U_l = C(l, k-1) / C(N-1, k-1), the chance that k-1 others drawn
from N-1 all lie among the l lowest,

  u_(i) = q_(1) + Σ_l (1 - U_{l-1}) g_l + Σ_{l<i} U_{l-1} g_l
  a_(i) = Σ_{l<i} U_l g_l = E_T (q_i - max_T q)⁺,   T a random (k-1)-subset of the others.

a_i is u_i minus the mean best of k-1 others, the marginal contribution of rollout i (baseline 'loo_1'). Nothing large
is subtracted, and no binomial is formed. Functions see one group. Axes: G rollouts, N of them live.
"""

import operator

import chex
import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax.advantages.group_advantage import batch_advantages
from vpo_jax.advantages.result import Advantages

BASELINES = ('mean', 'loo', 'loo_1', 'none')
# Gaps below this share of the scores (of 1, where they are small) are rounding: equal vectors can score unequal bits.
TIE = 1e-6


def subset_table(size: int, k: int) -> np.ndarray:
  """U_l = C(l, k-1) / C(N-1, k-1) for l = 0..N-1, `[N]` float64; zeros if there are fewer than k rollouts.

  Goes down from U_{N-1} = 1 by U_{l-1} = U_l (l-k+1) / l: all in [0, 1], whatever N and k.
  """
  if size < k:
    return np.zeros(size)
  rank = np.arange(size - 1, 0, -1)
  return np.cumprod(np.concatenate([[1.], np.maximum(rank - k + 1, 0) / rank]))[::-1]


def subset_tables(max_size: int, k: int) -> np.ndarray:
  """Row N holds the table of N rollouts at its end, zeros before it: `[G + 1, G]` float64."""
  tables = np.zeros((max_size + 1, max_size))
  for size in range(1, max_size + 1):
    tables[size, max_size - size:] = subset_table(size, k)
  return tables


def subset_credit(scores: jax.Array, mask: jax.Array, tables: jax.Array, *, baseline: str) -> jax.Array:
  """Credits `[G]` of the scores where `mask`, in the units of the scores; equal scores get equal bits.

  Args:
    scores: `[G]`, finite.
    mask: `[G]` bool, False for padding.
    tables: `[G + 1, G]` of `subset_tables`.
    baseline: 'none' gives u_i, 'loo_1' the marginal contributions a_i; 'mean' and 'loo' u_i but for one constant, so
      that centring them later subtracts no large numbers.

  Returns:
    `[G]`; 0 for padding. All equal if there are no more than k live rollouts ('loo_1': fewer than k).
  """
  chex.assert_rank([scores, mask, tables], [1, 1, 2])
  g, = scores.shape
  count = mask.sum()
  table = tables[count]
  lowest = jnp.where(mask, scores, jnp.inf).min()
  order = jnp.argsort(jnp.where(mask, scores, -jnp.inf))  # Padding first: it has no gap to the lowest.
  ranked = jnp.where(mask, scores, lowest)[order]
  gaps = jnp.diff(ranked)
  tie = TIE * jnp.maximum(jnp.abs(jnp.where(mask, scores, 0)).max(), 1)
  gaps = jnp.where((gaps > tie) & (count > 0), gaps, 0)
  steps = jnp.concatenate([jnp.zeros(1, scores.dtype), gaps])
  chances = table if baseline == 'loo_1' else jnp.roll(table, 1)  # The first step is 0 either way.
  credits = jnp.cumsum(chances * steps)
  # A parallel sum may round x + 0 and x differently: take a tie's credit from its first member.
  first = jax.lax.cummax(jnp.where(steps > 0, jnp.arange(g), 0))
  credits = credits[first]
  if baseline == 'none':
    credits += lowest + ((1 - chances) * steps).sum()
  credits = jnp.zeros_like(scores).at[order].set(credits)
  return jnp.where(mask & (count >= 1), credits, 0)


def subset_size(k: int | None, group_size: int, baseline: str) -> int:
  """The subset size to use: max(2, G // 2) by default, as in VPO's code, but at most G - 1 ('loo_1': at least 2).

  Raises:
    ValueError: no signal is left at this k, group size and baseline.
  """
  low = 2 if baseline == 'loo_1' else 1
  if k is None:
    return max(low, min(max(2, group_size // 2), group_size - 1))
  try:
    k = operator.index(k)
  except TypeError:
    raise ValueError(f'{k=} must be a whole number.') from None
  high = group_size if baseline in ('loo_1', 'none') else group_size - 1
  if group_size > 1 and not low <= k <= high:
    raise ValueError(f'{k=} must be in [{low}, {high}] for groups of {group_size} rollouts and {baseline=}.')
  return k


def subset_advantages(groups, credits, *, k, baseline, **settings) -> Advantages:
  """`batch_advantages` for subset credits `[B, G]`, whose leave-one-out baselines leave out the k-subsets' members."""
  size = groups.rollouts.sum(axis=-1)
  if baseline == 'loo':  # u_i minus the mean best of k others: exactly N/(N-k) times the centred credit.
    credits = credits * (size / jnp.maximum(size - k, 1))[:, None]
    baseline = 'mean'
  elif baseline == 'loo_1':  # The credit is its own baseline.
    baseline = 'none'
  values, metrics = batch_advantages(groups, credits, baseline=baseline, **settings)
  live = size > 0
  return Advantages(values, metrics | {'groups_below_k': (live & (size < k)).sum() / jnp.maximum(live.sum(), 1)})
