"""What a set of answers is worth under weightings of the reward components.

Functions see one prompt. Axes: G rollouts, m answers in each, d reward components, K weightings.
"""

import chex
import jax
import jax.numpy as jnp


def best_scores(rewards: jax.Array, weights: jax.Array, answers: jax.Array) -> jax.Array:
  """Score of each rollout's best answer under every weighting: max_s w_kᵀ r(x, s).

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    weights: `[K, d]` weightings, shared by the whole group.
    answers: `[G, m]` bool, answers that count; at least one a rollout.

  Returns:
    `[K, G]` scores, in the units of `rewards`.
  """
  chex.assert_rank([rewards, weights, answers], [3, 2, 2])  # Checked while tracing: free at run time.
  chex.assert_axis_dimension(weights, 1, rewards.shape[-1])
  scores_kgm = jnp.einsum('gmd,kd->kgm', rewards, weights, precision=jax.lax.Precision.HIGHEST)
  return jnp.where(answers[None], scores_kgm, -jnp.inf).max(axis=-1)


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
  return best_scores(rewards, weights, answers).mean(axis=0)


def exact_set_reward(rewards: jax.Array, answers: jax.Array, components: jax.Array) -> jax.Array:
  """The set reward under Dir(1) without draws, for one or two components.

  With two, answer s scores the line w r_1 + (1 - w) r_2 for w uniform in [0, 1], and the best score is the upper
  envelope of the lines. Each line is integrated over the interval where it is on top.

  Args:
    rewards: `[G, m, d]` reward vectors, d of 1 or 2.
    answers: `[G, m]` bool, answers that count; at least one a rollout.
    components: `[d]` bool, components that the prompt has.

  Returns:
    `[G]` set rewards.
  """
  only = jnp.where(answers, jnp.where(components[None, None], rewards, 0).sum(axis=-1), -jnp.inf).max(axis=-1)
  if rewards.shape[-1] == 1:
    return only
  slope, height = rewards[..., 0] - rewards[..., 1], rewards[..., 1]
  steeper = slope[..., :, None] - slope[..., None, :]
  higher = height[..., :, None] - height[..., None, :]
  parallel = steeper == 0
  crossing = jnp.clip(-higher / jnp.where(parallel, 1, steeper), 0, 1)
  earlier = jnp.tri(slope.shape[-1], k=-1, dtype=bool)[None]  # Of equal lines, the first counts.
  loses = parallel & ((higher < 0) | ((higher == 0) & earlier)) & answers[..., None, :]
  start = jnp.where((steeper > 0) & answers[..., None, :], crossing, 0).max(axis=-1)
  end = jnp.where((steeper < 0) & answers[..., None, :], crossing, 1).min(axis=-1)
  width = jnp.where(answers & ~loses.any(axis=-1), jnp.maximum(end - start, 0), 0)
  integral = (width * (height + slope * (start + end) / 2)).sum(axis=-1)
  return jnp.where(components.all(), integral, only)
