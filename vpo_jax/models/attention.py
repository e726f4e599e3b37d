"""Softmax attention over right-padded rows, and over a prompt that a group of rows shares.

Heads: N query heads in K key/value heads, H wide. Scores and softmax are float32.
"""

import jax
import jax.numpy as jnp

_MASKED = -1e30  # Not -inf: a row with no key at all (padding) must stay finite.


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
  """Attends from every position to itself and those before it.

  Rows are right-padded, so no live query can see padding: it lies behind every live position.

  Args:
    q: `[B, T, N, H]` queries.
    k: `[B, T, K, H]` keys.
    v: `[B, T, K, H]` values.

  Returns:
    `[B, T, N, H]`.
  """
  t = q.shape[1]
  mask = jnp.tril(jnp.ones((t, t), bool))
  return jax.nn.dot_product_attention(q, k, v, mask=mask[None, None])


def prefix_attention(q: jax.Array, k: jax.Array, v: jax.Array, prefix_k: jax.Array, prefix_v: jax.Array,
                     prefix_lengths: jax.Array) -> jax.Array:
  """Attends causally within each continuation and to the whole prefix that its group shares.

  Args:
    q: `[U, G, C, N, H]` queries of G continuations of each of U prefixes.
    k: `[U, G, C, K, H]` keys of the continuations.
    v: `[U, G, C, K, H]` values of the continuations.
    prefix_k: `[U, P, K, H]` keys of the prefixes.
    prefix_v: `[U, P, K, H]` values of the prefixes.
    prefix_lengths: `[U]` live positions of each prefix.

  Returns:
    `[U, G, C, N, H]`.
  """
  u, g, c = q.shape[:3]
  p = prefix_k.shape[1]
  share = lambda x: jnp.broadcast_to(x[:, None], (u, g, *x.shape[1:]))
  keys = jnp.concatenate([share(prefix_k), k], axis=2)
  values = jnp.concatenate([share(prefix_v), v], axis=2)
  in_prefix = jnp.arange(p)[None, :] < prefix_lengths[:, None]
  mask = jnp.concatenate([
      jnp.broadcast_to(in_prefix[:, None, :], (u, c, p)),
      jnp.broadcast_to(jnp.tril(jnp.ones((c, c), bool)), (u, c, c))], axis=-1)
  rows = lambda x: x.reshape(u * g, *x.shape[2:])
  out = jax.nn.dot_product_attention(rows(q), rows(keys), rows(values), mask=rows(share(mask))[:, None])
  return out.reshape(q.shape)


def decode_attention(q: jax.Array, k: jax.Array, v: jax.Array, prefix_k: jax.Array, prefix_v: jax.Array,
                     prefix_lengths: jax.Array, step: jax.Array) -> jax.Array:
  """Attends from one new token of each continuation to its prefix and to cache positions up to `step`.

  The caches are head-major, so each head's keys are one contiguous matrix, and the prefix is stored and read once a
  group. Keys of continuations have their positions last: a few queries against `[H, C]` run 3 times as fast on a CPU
  as against `[C, H]`.

  Args:
    q: `[U, G, N, H]` queries of the new tokens.
    k: `[U, G, K, H, C]` key cache, position `step` included.
    v: `[U, G, K, C, H]` value cache.
    prefix_k: `[U, K, P, H]` keys of the prefixes.
    prefix_v: `[U, K, P, H]` values of the prefixes.
    prefix_lengths: `[U]` live positions of each prefix.
    step: `[]` index of the new token in the continuation.

  Returns:
    `[U, G, N, H]`.
  """
  u, g, n, h = q.shape
  heads, p = prefix_k.shape[1:3]
  q = q.reshape(u, g, heads, n // heads, h)
  scale = h**-0.5
  in_prefix = jnp.arange(p)[None, :] < prefix_lengths[:, None]
  prefix_scores = jnp.einsum('ugkrh,ukph->ugkrp', q, prefix_k, preferred_element_type=jnp.float32) * scale
  prefix_scores = jnp.where(in_prefix[:, None, None, None, :], prefix_scores, _MASKED)
  scores = jnp.einsum('ugkrh,ugkhc->ugkrc', q, k, preferred_element_type=jnp.float32) * scale
  scores = jnp.where(jnp.arange(k.shape[4]) <= step, scores, _MASKED)
  weights = jax.nn.softmax(jnp.concatenate([prefix_scores, scores], axis=-1), axis=-1).astype(q.dtype)
  out = jnp.einsum('ugkrp,ukph->ugkrh', weights[..., :p], prefix_v)
  out = out + jnp.einsum('ugkrc,ugkch->ugkrh', weights[..., p:], v)
  return out.reshape(u, g, n, h)
