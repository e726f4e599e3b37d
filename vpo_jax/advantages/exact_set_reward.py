"""The set reward E_w max_s wᵀr(x, s) for w ~ Dir(1) without draws, where it has a closed form.

  one component    the best entry                                  any Dirichlet
  one answer       the mean of its components                      any symmetric Dirichlet
  two components   the upper envelope of m lines, integrated
  two answers      a divided difference (Hermite-Genocchi)

Functions see one prompt. Axes: G rollouts, m answers in each, d reward components.
"""

import jax
import jax.numpy as jnp


def has_closed_form(num_answers: int, d: int, alpha: float) -> bool:
  """Whether `exact_set_reward` holds for rollouts of so many answers, with d components, under Dir(alpha)."""
  return d == 1 or num_answers == 1 or (alpha == 1 and (d == 2 or num_answers == 2))


def exact_set_reward(rewards: jax.Array, answers: jax.Array, components: jax.Array) -> jax.Array:
  """The set reward under Dir(1), where `has_closed_form`.

  Args:
    rewards: `[G, m, d]` reward vectors.
    answers: `[G, m]` bool, answers that count; at least one a rollout.
    components: `[d]` bool, components that the prompt has.

  Returns:
    `[G]` set rewards, in the units of `rewards`.
  """
  rewards = jnp.where(components[None, None], rewards, 0)
  _, m, d = rewards.shape
  if d <= 2:
    only = jnp.where(answers, rewards.sum(axis=-1), -jnp.inf).max(axis=-1)
    return only if d == 1 else jnp.where(components.all(), envelope_area(rewards, answers), only)
  means = rewards.sum(axis=-1) / jnp.maximum(components.sum(), 1)
  if m == 1:
    return means[:, 0]
  gaps = jnp.where(answers.all(axis=-1)[:, None], rewards[:, 0] - rewards[:, 1], 0)
  last = jnp.where(answers[:, 1], means[:, 1], means[:, 0])
  return last + jax.vmap(lambda gaps: mean_positive_part(gaps, components))(gaps)


def envelope_area(rewards: jax.Array, answers: jax.Array) -> jax.Array:
  """∫ max_s (w r_s1 + (1 - w) r_s2) dw over [0, 1]: `[G]`, from `[G, m, 2]`.

  Answer s scores a line in w, and the best score is the upper envelope of the lines. Each line is integrated over the
  interval where it is on top.
  """
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
  return (width * (height + slope * (start + end) / 2)).sum(axis=-1)


def mean_positive_part(values: jax.Array, components: jax.Array) -> jax.Array:
  """E (wᵀa)⁺ for w ~ Dir(1) over the components that a prompt has: `[]`, from a `[d]`.

  By Hermite and Genocchi it is 1/d times the divided difference of (x⁺)^d at a_1..a_d. As a sum over the a_i it
  divides by their differences. Instead, split a into positive entries p and others -q; with D(i, j) the divided
  difference of (x⁺)^(i+j) at p_1..p_i, -q_1..-q_j, Leibniz's rule for x · x^(i+j-1), taken from both ends, gives

    D(i, j) = (p_i D(i, j-1) + q_j D(i-1, j)) / (p_i + q_j),   D(i, 0) = p_1 + .. + p_i,   D(0, j) = 0:

  weighted means of positive numbers, indifferent to ties, to within a few roundings a step.
  """
  positive = jnp.where(components, jnp.maximum(values, 0), 0)
  others = jnp.where(components, jnp.maximum(-values, 0), 0)

  def with_positive(above, p):  # From D(i-1, ·) to D(i, ·); entries of the other kind change nothing.

    def with_other(left, column):
      q, up = column
      both = (p * left + q * up) / jnp.where(p + q > 0, p + q, 1)
      here = jnp.where(p == 0, up, jnp.where(q == 0, left, both))
      return here, here

    start = above[0] + p
    _, row = jax.lax.scan(with_other, start, (others, above[1:]))
    return jnp.concatenate([start[None], row]), None

  differences, _ = jax.lax.scan(with_positive, jnp.zeros(values.shape[0] + 1, values.dtype), positive)
  return differences[-1] / jnp.maximum(components.sum(), 1)
