"""What a pool of scored answers is worth to test-time search, exactly: no sampling of subsets.

Axes: n answers of one problem, d reward components, K weightings, R rollouts, m answers in each.
Leading axes are a batch (problems); `jax.vmap` works too. NumPy in, float64 NumPy out: the road of the evaluation.
JAX in, float32 JAX out, jittable: the road of a training step. k, n and the shapes are static.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

TIE = 1e-6  # Scores closer than this tie: rewards are float32.


def _floats(x):
  """Returns the array module and `x` in its floats: float32 JAX or float64 NumPy."""
  return (jnp, jnp.asarray(x, jnp.float32)) if isinstance(x, jax.Array) else (np, np.asarray(x, np.float64))


def _product(xp, a, b):
  """Matrix product; TPUs multiply float32 in bf16 unless told otherwise."""
  if xp is np:
    return a @ b
  return jnp.matmul(a, jnp.asarray(b, jnp.float32), precision=jax.lax.Precision.HIGHEST)


def subset_weights(n: int, k: int) -> np.ndarray:
  """Chance `[n]` that the answer of each ascending rank is the best of a random k-subset.

    w_i = C(i, k-1) / C(n, k), i = 0 .. n-1, by w_{n-1} = k/n and w_{i-1} = w_i (i-k+1)/i, as binomials overflow.

  Raises:
    ValueError: unless 1 <= k <= n. A pool of n answers says nothing about larger subsets.
  """
  if not 1 <= k <= n:
    raise ValueError(f'{k=} must be at least 1 and at most {n=}, the number of candidates.')
  ranks = np.arange(n - 1, 0, -1)
  ratios = np.maximum(ranks - k + 1, 0) / ranks
  return np.cumprod(np.concatenate([[k / n], ratios]))[::-1]


def best_curve(scores, ks: Sequence[int]):
  """Mean best of a random k-subset of `scores` `[.., n]`, for every k of `ks`: `[.., len(ks)]`, by one sort."""
  xp, scores = _floats(scores)
  weights = np.stack([subset_weights(scores.shape[-1], k) for k in ks], axis=-1)
  return _product(xp, xp.sort(scores, axis=-1), weights)


def best_at_k(scores, k: int):
  """Mean over all k-subsets of the best of `scores` `[.., n]`: `[..]`, in their units; ValueError if k > n."""
  return best_curve(scores, (k,))[..., 0]


def pass_at_k(successes, k: int):
  """Chance that a random k-subset of `successes` `[.., n]` (bool or 0/1) holds a success: `[..]`.

  Equal to HumanEval's 1 - C(n-c, k)/C(n, k), c the number of successes; ValueError if k > n.
  """
  return best_at_k(successes, k)


def best_at_k_rollouts(scores, k: int):
  """Mean best score of k whole rollouts, for `scores` `[.., R, m]`: the answers of a rollout come together."""
  return best_at_k(scores.max(axis=-1), k)


def pass_at_k_rollouts(successes, k: int):
  """Chance that k whole rollouts hold a success, for `successes` `[.., R, m]`."""
  return best_at_k_rollouts(successes, k)


def linear_scores(rewards, weights):
  """Scores `[.., n, K]` of `rewards` `[.., n, d]` under `weights` `[K, d]`."""
  xp, rewards = _floats(rewards)
  return _product(xp, rewards, weights.T)


def expected_best(rewards, weights):
  """Mean over `weights` `[K, d]` of the best score in `rewards` `[.., n, d]`: `[..]`."""
  return linear_scores(rewards, weights).max(axis=-2).mean(axis=-1)


def expected_best_at_k(rewards, weights, k: int):
  """Mean over `weights` `[K, d]` and over all k-subsets of `rewards` `[.., n, d]` of the best score: `[..]`."""
  xp, scores_nk = _floats(linear_scores(rewards, weights))
  return best_at_k(xp.swapaxes(scores_nk, -1, -2), k).mean(axis=-1)


def diversity_l1(rewards, mask=None):
  """Mean L1 distance between the reward vectors of two different answers of `rewards` `[.., n, d]`: `[..]`.

  Sorting each component replaces the n² differences: Σ_{i<j} |x_i - x_j| = Σ_i (2i - n + 1) x_(i).

  Args:
    rewards: `[.., n, d]`.
    mask: `[.., n]` bool, the answers that take part; all by default. Give the successful ones for `diversity_l1_valid`:
      a failed answer is the zero vector, far from everything, and inflates the plain form.

  Returns:
    `[..]` distance, 0 with fewer than two answers.
  """
  xp, rewards = _floats(rewards)
  mask = xp.ones(rewards.shape[:-1], bool) if mask is None else xp.asarray(mask, bool)
  count = mask.sum(axis=-1, keepdims=True)
  ranks = xp.cumsum(xp.ones_like(mask, dtype=count.dtype), axis=-1) - 1
  live = (ranks < count)[..., None]
  coefficients = xp.where(ranks < count, 2 * ranks - count + 1, 0)[..., None]
  ordered = xp.sort(xp.where(mask[..., None], rewards, xp.inf), axis=-2)
  # Measured from the smallest, so that a tied group gets exactly 0 and rounding stays in the scale of the spread.
  ordered = xp.where(live, ordered, 0) - xp.where(count > 0, ordered[..., 0, :], 0)[..., None, :]
  total = xp.where(live, coefficients * ordered, 0).sum(axis=(-1, -2))
  return total / xp.maximum(count * (count - 1) // 2, 1)[..., 0]


def diversity_l1_within_rollout(rewards, mask=None):
  """Mean over rollouts of the L1 distance between their own answers, for `rewards` `[.., R, m, d]`: `[..]`."""
  return diversity_l1(rewards, mask).mean(axis=-1)


def position_shares(rewards, weights):
  """How often each answer position of a rollout is its best, by weighting: `[.., K, m]`, summing to 1 over positions.

  Args:
    rewards: `[.., R, m, d]`; an answer that was not given is the zero vector, as everywhere in scoring.
    weights: `[K, d]`.

  Returns:
    `[.., K, m]` shares over the R rollouts; tied positions share a win equally, so copies gain nothing.
  """
  xp, scores = _floats(linear_scores(rewards, weights))
  wins = xp.where(scores >= scores.max(axis=-2, keepdims=True) - TIE, 1., 0.)
  wins = wins / wins.sum(axis=-2, keepdims=True)
  return xp.swapaxes(wins.mean(axis=-3), -1, -2)


def position_information(shares):
  """Mutual information, in nats, between winning position and weighting, from `shares` `[.., K, m]`: `[..]`.

    I = 1/K Σ_k Σ_p q(p|k) ln(q(p|k) / q(p)),  q(p) = 1/K Σ_k q(p|k)

  0: a position wins as often under every weighting. ln m: the weighting decides the position.
  """
  xp, shares = _floats(shares)
  marginal = shares.mean(axis=-2, keepdims=True) + xp.zeros_like(shares)
  ratio = xp.where(shares > 0, shares, 1) / xp.where(shares > 0, marginal, 1)
  return (shares * xp.log(ratio)).sum(axis=-1).mean(axis=-1)
