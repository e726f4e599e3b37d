"""Quality of a set of reward vectors: the non-dominated ones, their hypervolume, how far they lie apart.

Larger rewards are better. Axes: n answers, d reward components, K weightings.

Equal vectors don't beat each other: all of them are on the front, or none. Count distinct vectors by `np.unique`.
"""

import chex
import jax
import jax.numpy as jnp

from vpo_jax.hypervolume import BINARY_REFERENCE, hypervolume, hypervolume_jax, hypervolume_monte_carlo

__all__ = [
    'BINARY_REFERENCE', 'front_ranks', 'hypervolume', 'hypervolume_jax', 'hypervolume_monte_carlo', 'igd_plus',
    'l1_similarities', 'non_dominated', 'pairwise_l1', 'r2', 'vendi']


def non_dominated(rewards, mask=None) -> jax.Array:
  """Answers that no other beats: none is as good in every component and better in one.

  Args:
    rewards: `[n, d]` reward vectors. Equal vectors don't dominate each other.
    mask: `[n]` bool; answers outside it dominate nothing and are never on the front. All True by default.

  Returns:
    `[n]` bool.
  """
  beats, mask = _beats(rewards, mask)
  return mask & ~beats.any(axis=0)


def front_ranks(rewards, mask=None) -> jax.Array:
  """Number of the front each answer stands on: 0 for those that no other beats, 1 once these are taken away, and so on.

  Args:
    rewards: `[n, d]` reward vectors. Equal vectors share a front.
    mask: `[n]` bool, answers that take part; all by default.

  Returns:
    `[n]` int32; n for answers outside the mask.
  """
  beats, mask = _beats(rewards, mask)
  n = len(mask)

  # An answer's front is the length of the longest chain of answers that beat each other down to it.
  def longer(state):
    ranks, _ = state
    longest = jnp.where(beats, ranks[:, None] + 1, 0).max(axis=0, initial=0)
    return longest, (longest != ranks).any()

  ranks, _ = jax.lax.while_loop(lambda state: state[1], longer, (jnp.zeros(n, jnp.int32), jnp.array(True)))
  return jnp.where(mask, ranks, n)


def _beats(rewards, mask) -> tuple[jax.Array, jax.Array]:
  """`[n, n]` bool, whether the answer of the row beats that of the column, both in the mask; the mask `[n]`."""
  rewards = jnp.asarray(rewards)
  chex.assert_rank(rewards, 2)
  mask = jnp.ones(rewards.shape[0], bool) if mask is None else jnp.asarray(mask, bool)
  as_good = (rewards[:, None] >= rewards[None]).all(axis=-1)
  better = (rewards[:, None] > rewards[None]).any(axis=-1)
  return as_good & better & mask[:, None] & mask[None], mask


def pairwise_l1(rewards, mask=None) -> jax.Array:
  """Mean L1 distance over the pairs of answers: 0 for fewer than two.

  Args:
    rewards: `[n, d]` reward vectors.
    mask: `[n]` bool, answers that take part; all by default. What stands outside it doesn't matter.

  Returns:
    `[]`.
  """
  rewards, mask = _floats(rewards, mask)
  distances = jnp.abs(rewards[:, None] - rewards[None]).sum(axis=-1)
  count = mask.sum()
  return jnp.where(mask[:, None] & mask[None], distances, 0).sum() / jnp.maximum(count * (count - 1), 1)


def r2(rewards, weights, *, utility='linear', ideal=None, mask=None) -> jax.Array:
  """R2 indicator: the mean over users of the utility of the answer that each likes best; larger is better.

    R2 = 1/K Σ_k max_s u_k(r_s)    u_k(r) = w_kᵀ r, or -max_j w_kj (ideal_j - r_j)

  The linear form is VPO's set reward of the answers: it sees only the convex hull of the front. The Tchebycheff form
  also credits answers inside the hull; it is the usual R2, with its sign turned.

  Args:
    rewards: `[n, d]` reward vectors.
    weights: `[K, d]` weightings.
    utility: 'linear' or 'tchebycheff'.
    ideal: `[d]` the best value of each component, for 'tchebycheff'.
    mask: `[n]` bool, answers that count; all by default.

  Returns:
    `[]`; -inf for no answers.

  Raises:
    ValueError: the utility is unknown, or 'tchebycheff' has no ideal.
  """
  rewards, mask = _floats(rewards, mask)
  weights = jnp.asarray(weights, rewards.dtype)
  chex.assert_shape(weights, (None, rewards.shape[1]))
  match utility:
    case 'linear':
      utilities_kn = jnp.matmul(weights, rewards.T, precision=jax.lax.Precision.HIGHEST)
    case 'tchebycheff' if ideal is not None:
      shortfalls = jnp.asarray(ideal, rewards.dtype)[None] - rewards
      utilities_kn = -(weights[:, None] * shortfalls[None]).max(axis=-1)
    case 'tchebycheff':
      raise ValueError(f'{ideal=} must be [d], the best value of each component, for {utility=}.')
    case _:
      raise ValueError(f'{utility=} must be linear or tchebycheff.')
  return jnp.where(mask[None], utilities_kn, -jnp.inf).max(axis=-1, initial=-jnp.inf).mean()


def igd_plus(rewards, front, mask=None) -> jax.Array:
  """Mean distance from the points of a known front to the answers: 0 where each is reached, smaller is better.

  Only shortfalls count as distance (Ishibuchi et al. 2015), so that a better answer never makes it worse:

    IGD+ = mean_z min_s ‖max(z - r_s, 0)‖₂

  Args:
    rewards: `[n, d]` reward vectors.
    front: `[f, d]` the vectors to be reached.
    mask: `[n]` bool, answers that count; all by default.

  Returns:
    `[]`; inf for no answers.
  """
  rewards, mask = _floats(rewards, mask)
  front = jnp.asarray(front, rewards.dtype)
  chex.assert_shape(front, (None, rewards.shape[1]))
  shortfalls = jnp.maximum(front[:, None] - rewards[None], 0)
  distances_fn = jnp.sqrt(jnp.square(shortfalls).sum(axis=-1))
  return jnp.where(mask[None], distances_fn, jnp.inf).min(axis=-1, initial=jnp.inf).mean()


def l1_similarities(rewards) -> jax.Array:
  """Similarities `[n, n]` of reward vectors `[n, d]`: exp(-L1 distance), 1 for equal ones; positive semi-definite."""
  rewards, _ = _floats(rewards, None)
  return jnp.exp(-jnp.abs(rewards[:, None] - rewards[None]).sum(axis=-1))


def vendi(similarities, mask=None) -> jax.Array:
  """Vendi score: the effective number of different answers, exp of the entropy of the similarities' eigenvalues / n.

  1 where all are alike, n where none is like another (Friedman & Dieng 2023).

  Args:
    similarities: `[n, n]` symmetric and positive semi-definite with ones on its diagonal, such as `l1_similarities`.
    mask: `[n]` bool, answers that count; all by default.

  Returns:
    `[]`; 0 for no answers.
  """
  similarities, mask = _floats(similarities, mask)
  chex.assert_shape(similarities, (len(mask), len(mask)))
  count = mask.sum()
  shares = jnp.where(mask[:, None] & mask[None], similarities, 0) / jnp.maximum(count, 1)
  # Rounding leaves eigenvalues of about -1e-7; answers outside the mask add zeros.
  eigenvalues = jnp.maximum(jnp.linalg.eigvalsh(shares), 0)
  entropy = jax.scipy.special.entr(eigenvalues).sum()
  return jnp.where(count > 0, jnp.exp(entropy), 0)


def _floats(rewards, mask) -> tuple[jax.Array, jax.Array]:
  """Floats `[n, d]`, 0 outside the mask; the mask `[n]`, all by default."""
  rewards = jnp.asarray(rewards)
  chex.assert_rank(rewards, 2)
  rewards = rewards.astype(jnp.promote_types(rewards.dtype, jnp.float32))
  mask = jnp.ones(rewards.shape[0], bool) if mask is None else jnp.asarray(mask, bool)
  return jnp.where(mask[:, None], rewards, 0), mask
