import jax
import numpy as np

from vpo_jax.models import attention

causal = jax.jit(attention.causal_attention)
prefixed = jax.jit(attention.prefix_attention)
decode = jax.jit(attention.decode_attention)

# 4 query heads in 2 key/value heads, 6 wide; prefixes of up to 5, continuations of up to 4.
N, K, H, P, C = 4, 2, 6, 5, 4
LENGTHS = np.array([1, 5, 3])


def attended(q, keys, values):
  """`[H]`: one query over lists of keys and values, in float64."""
  scores = np.array([np.dot(q, k) for k in keys], np.float64) / H**.5
  weights = np.exp(scores - scores.max())
  return np.dot(weights / weights.sum(), np.array(values, np.float64))


def normals(*shape):
  return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def grouped():
  """Queries, keys and values of 2 continuations of each of 3 prefixes, and the prefixes' keys and values."""
  q, k, v = normals(3, 2, C, N, H), normals(3, 2, C, K, H), normals(3, 2, C, K, H) + 1
  return q, k, v, normals(3, P, K, H), normals(3, P, K, H) - 1


def test_causal_attention_sees_itself_and_what_came_before():
  q, k, v = normals(2, 7, N, H), normals(2, 7, K, H), normals(2, 7, K, H) + 1
  actual = causal(q, k, v)
  for b, t, n in np.ndindex(2, 7, N):
    head = n // 2  # Query heads 0 and 1 share key head 0.
    expected = attended(q[b, t, n], k[b, : t + 1, head], v[b, : t + 1, head])
    np.testing.assert_allclose(actual[b, t, n], expected, atol=1e-5)


def test_prefix_attention_sees_the_live_prefix_and_its_own_past():
  q, k, v, prefix_k, prefix_v = grouped()
  actual = prefixed(q, k, v, prefix_k, prefix_v, LENGTHS)
  for u, g, t, n in np.ndindex(3, 2, C, N):
    live, head = LENGTHS[u], n // 2
    keys = [*prefix_k[u, :live, head], *k[u, g, : t + 1, head]]
    values = [*prefix_v[u, :live, head], *v[u, g, : t + 1, head]]
    np.testing.assert_allclose(actual[u, g, t, n], attended(q[u, g, t, n], keys, values), atol=1e-5)


def test_decoding_attends_as_the_whole_continuation_does():
  q, k, v, prefix_k, prefix_v = grouped()
  expected = prefixed(q, k, v, prefix_k, prefix_v, LENGTHS)
  to_cache = lambda x: x.transpose(0, 1, 3, 2, 4)  # Head-major.
  for step in range(C):
    unwritten = lambda x, step=step: np.where(np.arange(C)[:, None, None] <= step, x, 1e3)  # Of an earlier batch, say.
    keys = to_cache(unwritten(k)).swapaxes(3, 4)  # Positions last.
    actual = decode(q[:, :, step], keys, to_cache(unwritten(v)), prefix_k.swapaxes(1, 2), prefix_v.swapaxes(1, 2),
                    LENGTHS, np.int32(step))
    np.testing.assert_allclose(actual, expected[:, :, step], atol=1e-5)


def test_large_scores_stay_finite():
  q, k, v, prefix_k, prefix_v = grouped()
  for actual in (causal(1e4 * q[:, 0], 1e4 * k[:, 0], v[:, 0]),
                 prefixed(1e4 * q, 1e4 * k, v, 1e4 * prefix_k, prefix_v, LENGTHS)):
    assert np.isfinite(actual).all()
    assert np.abs(actual).max() <= max(np.abs(v).max(), np.abs(prefix_v).max())
