"""Token losses of policy optimisation, and the weights that sum them over a batch.

A loss is Σ weights · token losses with weights made from counts of the *whole* batch, so it can be summed over
micro-batches and devices in any split: never a mean of means. Masked places are selected away before `exp` and before
the sum: whatever stands there, NaN included, reaches neither value nor gradient.

Axes: `[..., T]` tokens of a response; log-probs in nats, float32.
"""

import jax
import jax.numpy as jnp

AGGREGATIONS = ('token-mean', 'seq-mean-token-mean', 'seq-mean-token-sum-norm')
KL_KINDS = ('k1', 'k2', 'k3', 'low_var_kl')
# exp(20) is far beyond any clip, and still finite in float32, squared too.
MAX_LOG_RATIO = 20.


def policy_loss(logprobs, old_logprobs, advantages, mask, *, clip_low=.2, clip_high=.2, dual_clip=3.):
  """Clipped surrogate of PPO with the dual clip, as a loss for each token.

    ρ = exp(clip(log π - log π_old, ±20)),  L = max(-A ρ, -A clip(ρ, 1 - low, 1 + high)),  and min(L, -A c) if A < 0

  The dual clip bounds the loss of a bad token that the policy has made much likelier (arXiv:1912.09729).

  Args:
    logprobs: `[..., T]` under the policy; the gradient goes here only.
    old_logprobs: `[..., T]` under the policy at the start of the step.
    advantages: broadcasts against `logprobs` with as many axes, for instance `[B, G, 1]`.
    mask: `[..., T]`, True where the policy chose the token.
    clip_low: in [0, 1].
    clip_high: at least 0.
    dual_clip: c, above 1; None for no dual clip.

  Returns:
    `[..., T]` losses, 0 where masked, and a dict of sums over the unmasked tokens; divide by its `tokens`, after adding
    up micro-batches: `clipped` and `dual_clipped` (tokens whose gradient the clip took away), `ratio`, `kl_old`
    (log π_old - log π, estimates KL(π_old ‖ π)).

  Raises:
    ValueError: a clip is out of range.
  """
  if not 0 <= clip_low <= 1:
    raise ValueError(f'{clip_low=} must be in [0, 1]: the ratio is clipped at 1 - clip_low.')
  if not clip_high >= 0:
    raise ValueError(f'{clip_high=} must be at least 0: the ratio is clipped at 1 + clip_high.')
  if dual_clip is not None and not dual_clip > 1:
    raise ValueError(f'{dual_clip=} must be above 1, or None.')
  mask = mask.astype(bool)
  log_ratio = _masked_difference(logprobs, jax.lax.stop_gradient(old_logprobs), mask)
  advantages = jnp.where(mask, jax.lax.stop_gradient(advantages).astype(log_ratio.dtype), 0)
  ratio = jnp.exp(jnp.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
  plain = -advantages * ratio
  clipped = -advantages * jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
  losses = jnp.maximum(plain, clipped)
  dual_clipped = jnp.zeros_like(mask)
  if dual_clip is not None:
    bound = -advantages * dual_clip
    dual_clipped = (advantages < 0) & (losses > bound)
    losses = jnp.where(dual_clipped, bound, losses)
  sums = {
      'tokens': mask.sum(),
      'clipped': (clipped > plain).sum(),
      'dual_clipped': dual_clipped.sum(),
      'ratio': jnp.where(mask, ratio, 0).sum(),
      'kl_old': -log_ratio.sum(),
  }
  return losses, jax.tree.map(lambda x: jax.lax.stop_gradient(x).astype(jnp.float32), sums)


def kl_penalty(logprobs, ref_logprobs, kind='low_var_kl', *, mask=None) -> jax.Array:
  """Estimates KL(π ‖ π_ref) from the tokens that π chose, one term a token.

  With x = log π_ref - log π: k1 = -x, k2 = x²/2, k3 = exp(x) - x - 1 (never negative, and of low variance), and
  `low_var_kl`, k3 cut at 10, which is the usual loss term. As *values* k1 and k3 are unbiased. As *losses* they differ:
  the expected gradient of k1 is zero (no pull at all), of k2 that of KL(π ‖ π_ref), of k3 that of KL(π_ref ‖ π).

  x is clipped to ±20 before exp for k3 and its cut: clipping the output alone leaves 0 · inf in the gradient.

  Args:
    logprobs: `[..., T]` under the policy.
    ref_logprobs: `[..., T]` under the reference, which gets no gradient.
    kind: one of `KL_KINDS`.
    mask: `[..., T]`, True where the policy chose the token; all by default.

  Returns:
    `[..., T]` float32 or wider, 0 where masked.

  Raises:
    ValueError: unknown kind.
  """
  if kind not in KL_KINDS:
    raise ValueError(f'{kind=} must be one of {", ".join(KL_KINDS)}.')
  mask = jnp.ones(logprobs.shape, bool) if mask is None else mask.astype(bool)
  gap = -_masked_difference(logprobs, jax.lax.stop_gradient(ref_logprobs), mask)
  if kind == 'k1':
    return -gap
  if kind == 'k2':
    return jnp.square(gap) / 2
  gap = jnp.clip(gap, -MAX_LOG_RATIO, MAX_LOG_RATIO)
  k3 = jnp.expm1(gap) - gap
  k3 = jnp.where(k3 < 0, 0, k3)  # Rounding, at gaps below 1e-7.
  return k3 if kind == 'k3' else jnp.minimum(k3, 10)


def token_counts(mask) -> tuple[jax.Array, jax.Array]:
  """Tokens in the mask `[..., T]`, and sequences with at least one; add them up over the whole batch."""
  mask = mask.astype(bool)
  return mask.sum().astype(jnp.float32), mask.any(axis=-1).sum().astype(jnp.float32)


def token_weights(mask, mode, *, num_tokens, num_sequences, max_length) -> jax.Array:
  """Weights `[..., T]` with which token losses add up to the loss of the whole batch.

  `token-mean`: 1 / all tokens. `seq-mean-token-mean`: each sequence weighs the same, its tokens share. And
  `seq-mean-token-sum-norm` (Dr. GRPO): 1 / (sequences · max_length), so that long sequences are not diluted. (Some code
  divides by the length only: then the gradient grows with the number of sequences.)

  Args:
    mask: `[..., T]` of a part of the batch, True where a token counts. All-False rows (padding, or responses left out)
      weigh nothing and are no sequences.
    mode: one of `AGGREGATIONS`.
    num_tokens: tokens of the whole batch, see `token_counts`; of no effect in the other modes.
    num_sequences: sequences of the whole batch with at least one token; of no effect in `token-mean`.
    max_length: longest response that the sampler allows, one constant for the run.

  Returns:
    `[..., T]` float32, 0 where masked; zeros for a batch without tokens.

  Raises:
    ValueError: unknown mode.
  """
  if mode not in AGGREGATIONS:
    raise ValueError(f'{mode=} must be one of {", ".join(AGGREGATIONS)}.')
  ones = mask.astype(bool).astype(jnp.float32)
  if mode == 'token-mean':
    return ones / jnp.maximum(num_tokens, 1)
  if mode == 'seq-mean-token-mean':
    ones = ones / jnp.maximum(ones.sum(axis=-1, keepdims=True), 1)
    return ones / jnp.maximum(num_sequences, 1)
  return ones / (jnp.maximum(num_sequences, 1) * max_length)


def weighted_sum(values, weights) -> jax.Array:
  """Σ weights · values; a value of weight 0 does not matter, even if it is NaN."""
  return (jnp.where(weights != 0, values, 0) * weights).sum()


def _masked_difference(left, right, mask):
  """`left - right` in float32 or wider, 0 where masked."""
  dtype = jnp.promote_types(left.dtype, jnp.float32)
  return jnp.where(mask, left, 0).astype(dtype) - jnp.where(mask, right, 0).astype(dtype)
