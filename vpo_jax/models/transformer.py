"""A decoder-only transformer: `init` makes a nested dict of arrays, the rest are pure functions of it.

Axes: B rows of T tokens; or U prompts of P tokens, each with G continuations of C tokens. V vocabulary, D width,
N query heads, K key/value heads, H head width, F hidden width. Rows are right-padded and carry their lengths; what
lies behind a length is never read. Layers are stacked on axis 0 of every array under `layers`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vpo_jax.models import attention
from vpo_jax.models.config import ModelConfig

Params = dict
HIGHEST = jax.lax.Precision.HIGHEST

# Logical axis names of every parameter; `partition.py` maps them to mesh axes.
LOGICAL_AXES = {
    'embedding': ('vocab', 'embed'),
    'head': ('embed', 'vocab'),
    'final_norm': ('norm',),
    'layers': {
        'attention_norm': ('layers', 'norm'),
        'q': ('layers', 'embed', 'heads', 'head_dim'),
        'k': ('layers', 'embed', 'kv_heads', 'head_dim'),
        'v': ('layers', 'embed', 'kv_heads', 'head_dim'),
        'o': ('layers', 'heads', 'head_dim', 'embed'),
        'q_bias': ('layers', 'heads', 'head_dim'),
        'k_bias': ('layers', 'kv_heads', 'head_dim'),
        'v_bias': ('layers', 'kv_heads', 'head_dim'),
        'q_norm': ('layers', 'head_dim'),
        'k_norm': ('layers', 'head_dim'),
        'mlp_norm': ('layers', 'norm'),
        'gate': ('layers', 'embed', 'mlp'),
        'up': ('layers', 'embed', 'mlp'),
        'down': ('layers', 'mlp', 'embed'),
    },
}


class KeyValues(NamedTuple):
  """Keys and values of one layer, or of all layers stacked on axis 0."""

  k: jax.Array
  v: jax.Array


def init(key: jax.Array, config: ModelConfig) -> Params:
  """Draws float32 parameters: truncated normals of deviation 1/√fan-in, residual outputs smaller by √(2 layers)."""
  c = config
  embed_key, head_key, layer_key = jax.random.split(key, 3)

  def normal(key, shape, fan_in):
    return jax.random.truncated_normal(key, -3, 3, shape) * fan_in**-0.5

  keys = iter(jax.random.split(layer_key, 7))
  n, d, f = c.num_layers, c.d_model, c.d_ff
  q_shape, kv_shape = (n, d, c.num_heads, c.head_dim), (n, d, c.num_kv_heads, c.head_dim)
  residual = 2 * n  # Each block adds twice to the residual stream.
  layers = {
      'attention_norm': jnp.ones((n, d)),
      'q': normal(next(keys), q_shape, d),
      'k': normal(next(keys), kv_shape, d),
      'v': normal(next(keys), kv_shape, d),
      'o': normal(next(keys), (n, c.num_heads, c.head_dim, d), c.num_heads * c.head_dim * residual),
      'mlp_norm': jnp.ones((n, d)),
      'gate': normal(next(keys), (n, d, f), d),
      'up': normal(next(keys), (n, d, f), d),
      'down': normal(next(keys), (n, f, d), f * residual),
  }
  if c.qkv_bias:
    layers |= {'q_bias': jnp.zeros((n, *q_shape[2:])), 'k_bias': jnp.zeros((n, *kv_shape[2:])),
               'v_bias': jnp.zeros((n, *kv_shape[2:]))}
  if c.qk_norm:
    layers |= {'q_norm': jnp.ones((n, c.head_dim)), 'k_norm': jnp.ones((n, c.head_dim))}
  params = {'embedding': normal(embed_key, (c.vocab_size, d), d), 'final_norm': jnp.ones(d), 'layers': layers}
  if not c.tie_embeddings:
    params['head'] = normal(head_key, (d, c.vocab_size), d)
  return params


def num_params(config: ModelConfig) -> int:
  """Counts the parameters that `init` would make."""
  shapes = jax.eval_shape(lambda: init(jax.random.key(0), config))
  return sum(x.size for x in jax.tree.leaves(shapes))


def logits(params: Params, config: ModelConfig, tokens: jax.Array, lengths: jax.Array | None = None) -> jax.Array:
  """Next-token logits of whole rows.

  Args:
    params: what `init` made.
    config: sizes.
    tokens: `[B, T]` int32, right-padded.
    lengths: `[B]` live tokens of each row; outputs behind them are zero. All live by default.

  Returns:
    `[B, T, V]` float32; position t scores token t + 1.
  """
  hidden, _ = prefill(params, config, tokens)
  scores = head(params, config, hidden)
  if lengths is None:
    return scores
  return jnp.where((jnp.arange(tokens.shape[1])[None] < lengths[:, None])[..., None], scores, 0.0)


def prefill(params: Params, config: ModelConfig, tokens: jax.Array) -> tuple[jax.Array, KeyValues]:
  """Runs `[U, P]` prompts: `[U, P, D]` hidden states and, per layer, `[U, P, K, H]` keys and values."""
  positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
  angles = _rope_angles(config, positions)

  def layer(x, weights):
    return _block(weights, config, x, angles, lambda q, k, v: (attention.causal_attention(q, k, v), KeyValues(k, v)))

  x, kv = _over_layers(layer, config, _embed(params, config, tokens), params['layers'])
  return _rms_norm(x, params['final_norm'], config.norm_eps), kv


def continuation(params: Params, config: ModelConfig, prompts: jax.Array, prompt_lengths: jax.Array,
                 tokens: jax.Array) -> jax.Array:
  """Hidden states that predict G continuations of each prompt; the prompt is run once for its group.

  Args:
    params: what `init` made.
    config: sizes.
    prompts: `[U, P]` int32, right-padded.
    prompt_lengths: `[U]`, at least 1.
    tokens: `[U, G, C]` int32; token t of a continuation has position `prompt_length + t`.

  Returns:
    `[U, G, C, D]`: entry t is the state that predicts `tokens[:, :, t]`, so entry 0 is the prompt's last.
  """
  u, g, c = tokens.shape
  inputs = tokens[:, :, :-1]  # The last token predicts nothing.
  prompt_angles = _rope_angles(config, jnp.broadcast_to(jnp.arange(prompts.shape[1]), prompts.shape))
  positions = prompt_lengths[:, None, None] + jnp.broadcast_to(jnp.arange(c - 1), inputs.shape)
  angles = _rope_angles(config, positions)

  def layer(streams, weights):
    prompt, rows = streams
    prompt, kv = _block(
        weights, config, prompt, prompt_angles,
        lambda q, k, v: (attention.causal_attention(q, k, v), KeyValues(k, v)))
    rows, _ = _block(
        weights, config, rows, angles,
        lambda q, k, v: (attention.prefix_attention(q, k, v, kv.k, kv.v, prompt_lengths), None))
    return (prompt, rows), None

  streams = (_embed(params, config, prompts), _embed(params, config, inputs))
  (prompt, rows), _ = _over_layers(layer, config, streams, params['layers'])
  last = jnp.take_along_axis(prompt, (prompt_lengths - 1)[:, None, None], axis=1)  # [U, 1, D]
  first = jnp.broadcast_to(last[:, None], (u, g, 1, prompt.shape[-1]))
  return _rms_norm(jnp.concatenate([first, rows], axis=2), params['final_norm'], config.norm_eps)


def decode_step(params: Params, config: ModelConfig, tokens: jax.Array, step: jax.Array, prefix: tuple[KeyValues, ...],
                prompt_lengths: jax.Array, cache: tuple[KeyValues, ...]
                ) -> tuple[jax.Array, tuple[KeyValues, ...]]:
  """Feeds one token to each of G continuations of U prompts.

  Args:
    params: what `unstacked` made.
    config: sizes.
    tokens: `[U, G]` int32, token `step` of each continuation.
    step: `[]` int32.
    prefix: per layer, `[U, K, P, H]` head-major keys and values of the prompts.
    prompt_lengths: `[U]`.
    cache: per layer, `[U, G, K, H, C]` keys and `[U, G, K, C, H]` values of the continuations.

  Returns:
    `[U, G, D]` hidden states that predict token `step + 1`, and the cache with this token written.
  """
  angles = _rope_angles(config, prompt_lengths[:, None] + step)  # [U, 1, ..]: one position for a group.
  x = _embed(params, config, tokens)
  new_cache = []
  for i, weights in enumerate(params['layers']):

    def attend(q, k, v, i=i):
      write = jax.lax.dynamic_update_slice_in_dim
      kv = KeyValues(
          write(cache[i].k, k[..., None], step, axis=4), write(cache[i].v, v[:, :, :, None], step, axis=3))
      return attention.decode_attention(q, kv.k, kv.v, prefix[i].k, prefix[i].v, prompt_lengths, step), kv

    x, kv = _block(weights, config, x, angles, attend)
    new_cache.append(kv)
  return _rms_norm(x, params['final_norm'], config.norm_eps), tuple(new_cache)


def head(params: Params, config: ModelConfig, hidden: jax.Array) -> jax.Array:
  """Logits `[.., V]` of hidden states `[.., D]`, in float32 whatever the compute dtype."""
  weight = params['embedding'].T if config.tie_embeddings else params['head']
  return jnp.dot(hidden.astype(jnp.float32), weight.astype(jnp.float32), precision=HIGHEST)


def unstacked(params: Params, config: ModelConfig) -> Params:
  """The same parameters with one dict a layer, sliced once so that a decoding loop does not slice at every token."""
  return params | {'layers': [_layer(params['layers'], i) for i in range(config.num_layers)]}


def _layer(layers, i):
  return jax.tree.map(lambda w: w[i], layers)


def _over_layers(layer, config, carry, layers):
  """Applies `layer(carry, weights) -> (carry, output)` through the stack; outputs are stacked on axis 0."""
  if config.scan_layers:
    return jax.lax.scan(layer, carry, layers)
  outputs = []
  for i in range(config.num_layers):
    carry, output = layer(carry, _layer(layers, i))
    outputs.append(output)
  return carry, jax.tree.map(lambda *xs: jnp.stack(xs), *outputs)


def _block(weights, config, x, angles, attend):
  """One pre-norm block. `attend(q, k, v)` returns the heads' output and whatever else the caller keeps."""
  dtype = config.dtype
  h = _rms_norm(x, weights['attention_norm'], config.norm_eps)
  q, k, v = (jnp.einsum('...d,dnh->...nh', h, weights[name].astype(dtype)) for name in 'qkv')
  if config.qkv_bias:
    bias = lambda y, name: jnp.broadcast_to(weights[f'{name}_bias'].astype(dtype), y.shape)
    q, k, v = (y + bias(y, name) for y, name in zip((q, k, v), 'qkv', strict=True))
  if config.qk_norm:
    q = _rms_norm(q, weights['q_norm'], config.norm_eps)
    k = _rms_norm(k, weights['k_norm'], config.norm_eps)
  out, kept = attend(_rope(q, angles), _rope(k, angles), v)
  x = x + jnp.einsum('...nh,nhd->...d', out, weights['o'].astype(dtype))
  h = _rms_norm(x, weights['mlp_norm'], config.norm_eps)
  gate, up = (jnp.dot(h, weights[name].astype(dtype)) for name in ('gate', 'up'))
  return x + jnp.dot(jax.nn.silu(gate) * up, weights['down'].astype(dtype)), kept


def _embed(params, config, tokens):
  return params['embedding'][tokens].astype(config.dtype)


def _rms_norm(x, scale, eps):
  y = x.astype(jnp.float32)
  y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
  return (y * jnp.expand_dims(scale, range(y.ndim - 1))).astype(x.dtype)


def _rope_angles(config, positions):
  """Cosines and sines `[.., 1, H/2]` of the rotary angles at `positions`."""
  half = config.head_dim // 2
  frequencies = config.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  angles = positions[..., None, None].astype(jnp.float32) * jnp.expand_dims(frequencies, range(positions.ndim + 1))
  return jnp.cos(angles), jnp.sin(angles)


def _rope(x, angles):
  """Turns pairs (i, i + H/2) of each head, the layout of Llama's and Qwen's published weights."""
  cos, sin = angles
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)
