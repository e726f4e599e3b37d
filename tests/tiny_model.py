"""A transformer of a few thousand parameters with everything switched on, for tests."""

import dataclasses
import functools

import jax
import numpy as np

from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig

CONFIG = ModelConfig(
    vocab_size=13, d_model=12, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=6, d_ff=20, rope_theta=100.0,
    qk_norm=True, qkv_bias=True, tie_embeddings=False)
PLAIN = dataclasses.replace(CONFIG, num_kv_heads=4, qk_norm=False, qkv_bias=False, tie_embeddings=True)


@functools.cache
def random_params(config: ModelConfig = CONFIG, *, sharpness: float = 1.0, seed: int = 0) -> dict:
  """Parameters in which nothing is zero or one, as biases and norms are at the start; NumPy arrays.

  Args:
    config: sizes.
    sharpness: multiplies the head (or embedding), so the logits.
    seed: of everything.
  """
  rng = np.random.default_rng(seed)
  params = jax.device_get(jax.jit(transformer.init, static_argnums=1)(jax.random.key(seed), config))
  moved = lambda x: (x + 0.3 * rng.standard_normal(x.shape)).astype(np.float32)
  params = jax.tree.map(moved, params)
  last = 'embedding' if config.tie_embeddings else 'head'
  return params | {last: params[last] * np.float32(sharpness)}
