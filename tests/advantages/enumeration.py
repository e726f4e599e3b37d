"""Expectations without sampling: every group that a small softmax policy can draw, with its chance.

Call under `jax.enable_x64(True)`. Axes: V actions, N rollouts in a group, V^N groups, which make one batch.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def every_group(num_actions: int, size: int) -> np.ndarray:
  """Actions `[V^N, N]` of all groups."""
  return np.array(list(itertools.product(range(num_actions), repeat=size)))


def expected_update(logits: np.ndarray, size: int, advantages: Callable, samplers: np.ndarray | None = None):
  """E Σ_i A_i ∇log π(y_i), in the logits: `[V]`.

  Args:
    logits: `[V]` of the policy π.
    size: N.
    advantages: actions `[V^N, N]` -> values `[V^N, N]`.
    samplers: `[N, V]` probabilities that each member of the group is drawn from; π by default.
  """
  probs = np.asarray(jax.nn.softmax(logits))
  samplers = np.tile(probs, (size, 1)) if samplers is None else samplers
  groups = every_group(len(probs), size)
  chances = samplers[np.arange(size), groups].prod(axis=1)
  scores = np.eye(len(probs))[groups] - probs
  return np.einsum('b,bg,bga->a', chances, advantages(groups), scores)


def objective_gradient(logits: np.ndarray, size: int, score: Callable):
  """∇ of the expected score of `size` draws, in the logits: `[V]`; `score` maps a tuple of actions to a number."""
  sets = every_group(len(logits), size)
  scores = np.array([score(tuple(actions)) for actions in sets])
  return jax.grad(lambda logits: (jax.nn.softmax(logits)[sets].prod(axis=1) * scores).sum())(jnp.asarray(logits))
