"""A model whose logits after token i put all mass on token i + 1 (0 after 9), for results that need no computing."""

import jax
import numpy as np

from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig


def counting_model() -> tuple[dict, ModelConfig]:
  """Parameters and config: blocks that add nothing, and a head that is shifted by one."""
  config = ModelConfig(
      vocab_size=10, d_model=10, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=2, d_ff=2, tie_embeddings=False)
  shapes = jax.eval_shape(lambda: transformer.init(jax.random.key(0), config))
  params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
  one_hot = np.eye(10, dtype=np.float32)
  params |= {'embedding': one_hot, 'final_norm': np.ones(10, np.float32), 'head': 30 * np.roll(one_hot, 1, axis=1)}
  return params, config
