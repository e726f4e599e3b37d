"""Families of preferences under which a pool is scored: what a user of the answers might want of them.

A family is a function from rewards `[.., d]` in [0, 1] to scores `[.., K]`, larger is better, one column a preference;
0 for the zero vector and 1 for the vector of ones in every family. The draws are fixed: same family, same weightings.
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


def tchebycheff(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Scores `[.., K]` by the worst weighted shortfall from the ideal 1: u_w(r) = 1 - max_j (w_j / max w) (1 - r_j).

  Unlike a weighting it also credits answers inside the convex hull of the front.
  """
  scales = weights / weights.max(axis=-1, keepdims=True)
  shortfalls = (1 - np.asarray(rewards, np.float64))[..., None, :] * scales
  return 1 - shortfalls.max(axis=-1)


def minimum(rewards: np.ndarray) -> np.ndarray:
  """Scores `[.., 1]` by the worst component."""
  return np.asarray(rewards, np.float64).min(axis=-1, keepdims=True)


def threshold_counts(rewards: np.ndarray) -> np.ndarray:
  """Scores `[.., 4]` by the share of components that reach each of `THRESHOLDS`."""
  reached = np.asarray(rewards, np.float64)[..., None, :] >= np.array(THRESHOLDS)[:, None] - metrics.TIE
  return reached.mean(axis=-1)


def families(components: Sequence[str]) -> Mapping[str, Callable[[np.ndarray], np.ndarray]]:
  """Returns the preference families of a task by name, given the names of its d `components`."""
  d = len(components)
  linear = lambda weights: functools.partial(metrics.linear_scores, weights=weights)
  return types.MappingProxyType({
      'dirichlet_1': linear(dirichlet_weights(d, 1.)),
      'dirichlet_0.3': linear(dirichlet_weights(d, .3, seed=1)),
      **{f'lopsided_{name}': linear(lopsided_weights(d, j)) for j, name in enumerate(components)},
      'tchebycheff': functools.partial(tchebycheff, weights=dirichlet_weights(d, 1., seed=2)),
      'minimum': minimum,
      'threshold_counts': threshold_counts,
  })
