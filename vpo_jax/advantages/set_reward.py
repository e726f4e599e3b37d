"""What a set of answers is worth under weightings of the reward components.

Functions see one prompt. Axes: G rollouts, m answers in each, d reward components, K weightings.
"""

import functools

import chex
import jax
import jax.numpy as jnp


def set_scores(rewards: jax.Array, weights: jax.Array, answers: jax.Array) -> jax.Array:
  """Score of each rollout's best answer under every weighting: max_s w_kᵀ r(x, s).

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    weights: `[K, d]` weightings, shared by the whole group.
    answers: `[G, m]` bool, answers that count; at least one a rollout.

  Returns:
    `[G, K]` scores, in the units of `rewards`.
  """
  chex.assert_rank([rewards, weights, answers], [3, 2, 2])  # Checked while tracing: free at run time.
  chex.assert_axis_dimension(weights, 1, rewards.shape[-1])

  def scores_gk(answer):
    scores = jnp.einsum('gd,kd->gk', rewards[:, answer], weights, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(answers[:, answer, None], scores, -jnp.inf)

  # One product an answer: `[G, m, K]` scores never lie in memory, and on a CPU that halves the time.
  return functools.reduce(jnp.maximum, map(scores_gk, range(rewards.shape[1])))


def best_scores(rewards: jax.Array, weights: jax.Array, answers: jax.Array) -> jax.Array:
  """`set_scores` by weighting: `[K, G]`."""
  return set_scores(rewards, weights, answers).T


def pool_best(scores: jax.Array, rollouts: jax.Array) -> jax.Array:
  """Mean over weightings of the best score `[K, G]` of the group; 0 for a group of padding."""
  best = jnp.where(rollouts[None], scores, -jnp.inf).max(axis=-1).mean()
  return jnp.where(rollouts.any(), best, 0)


def set_reward(rewards: jax.Array, weights: jax.Array, answers: jax.Array | None = None) -> jax.Array:
  """Scores each set of answers by its best member under every weighting.

    R̂(S_g) = 1/K Σ_k max_{s ∈ S_g} w_kᵀ r(x, s)   [VPO, arXiv:2605.22817]

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    weights: `[K, d]` points on the simplex, shared by the whole group.
    answers: `[G, m]` bool, answers that count; all by default.

  Returns:
    `[G]` set rewards, in the units of `rewards`.
  """
  answers = jnp.ones(rewards.shape[:2], bool) if answers is None else answers
  return set_scores(rewards, weights, answers).mean(axis=1)
