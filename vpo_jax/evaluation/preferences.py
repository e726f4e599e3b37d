"""Families of preferences under which a pool is scored: what a user of the answers might want of them.

A family is a function from rewards `[.., n, d]` in [0, 1] to scores `[.., n, K]`, larger is better, one column a
preference; 0 for the zero vector and 1 for the vector of ones in every family. The draws are fixed: same family, same
weightings. Where problems have different components, a mask `[.., d]` says which; rewards are 0 outside of it, and
weightings are renormalised to it.
"""

import functools
import types
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vpo_jax.evaluation import metrics

NUM_WEIGHTS = 100
LOPSIDED = .7  # Weight of the favoured component.
THRESHOLDS = (.25, .5, .75, 1.)
SEEN = frozenset({'dirichlet_1'})  # VPO and `vpo_subsets` train on this one.
Family = Callable[[np.ndarray, np.ndarray], np.ndarray]


def dirichlet_weights(d: int, alpha: float, num_weights: int = NUM_WEIGHTS, seed: int = 0) -> np.ndarray:
  """Draws `[K, d]` float64 weightings from Dir(alpha)."""
  return np.random.default_rng(seed).dirichlet(np.full(d, alpha), num_weights)


def lopsided_weights(d: int, component: int) -> np.ndarray:
  """The one weighting `[1, d]` that puts .7 on `component` and shares the rest equally."""
  if d == 1:
    return np.ones((1, 1))
  weights = np.full((1, d), (1 - LOPSIDED) / (d - 1))
  weights[0, component] = LOPSIDED
  return weights


def linear(rewards: np.ndarray, mask: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Scores by `weights` `[K, d]`: wᵀr / Σ_{j in mask} w_j."""
  return metrics.linear_scores(rewards, weights) / (mask @ weights.T)[..., None, :]


def tchebycheff(rewards: np.ndarray, mask: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Scores by the worst weighted shortfall from the ideal 1: u_w(r) = 1 - max_j (w_j / max w) (1 - r_j).

  Unlike a weighting it also credits answers inside the convex hull of the front.
  """
  scales = weights * mask[..., None, :]
  scales = scales / scales.max(axis=-1, keepdims=True)
  shortfalls = (1 - np.asarray(rewards, np.float64))[..., None, :] * scales[..., None, :, :]
  return 1 - shortfalls.max(axis=-1)


def minimum(rewards: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Scores, K = 1, by the worst component."""
  return np.where(mask[..., None, :], np.asarray(rewards, np.float64), np.inf).min(axis=-1, keepdims=True)


def threshold_counts(rewards: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Scores, K = 4, by the share of components that reach each of `THRESHOLDS`."""
  reached = np.asarray(rewards, np.float64)[..., None, :] >= np.array(THRESHOLDS)[:, None] - metrics.TIE
  return (reached & mask[..., None, None, :]).sum(axis=-1) / mask.sum(axis=-1)[..., None, None]


def families(components: Sequence[str], present: Sequence[bool] | None = None) -> Mapping[str, Family]:
  """Returns the preference families of a task by name, given the names of its d `components`.

  Each is a function of rewards `[.., n, d]` and a mask `[.., d]` bool. No weighting favours a component outside of
  `present` `[d]` bool, those that some problem has (all by default).
  """
  d = len(components)
  by = lambda weights: functools.partial(linear, weights=weights)
  return types.MappingProxyType({
      'dirichlet_1': by(dirichlet_weights(d, 1.)),
      'dirichlet_0.3': by(dirichlet_weights(d, .3, seed=1)),
      **{f'lopsided_{name}': by(lopsided_weights(d, j)) for j, name in enumerate(components)
         if present is None or present[j]},
      'tchebycheff': functools.partial(tchebycheff, weights=dirichlet_weights(d, 1., seed=2)),
      'minimum': minimum,
      'threshold_counts': threshold_counts,
  })
