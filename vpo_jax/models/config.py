"""Sizes and switches of a decoder-only transformer, and the presets that experiments name."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """A pre-norm decoder with RMSNorm, rotary positions, grouped-query attention and SwiGLU.

  Attributes:
    vocab_size: V.
    d_model: width of the residual stream.
    num_layers: number of blocks.
    num_heads: query heads.
    num_kv_heads: key/value heads; each serves `num_heads / num_kv_heads` query heads.
    head_dim: width of one head; `num_heads * head_dim` need not be `d_model`.
    d_ff: hidden width of the SwiGLU.
    rope_theta: base of the rotary frequencies.
    norm_eps: epsilon of every RMSNorm.
    qk_norm: RMSNorm on each query and key head (Qwen3).
    qkv_bias: biases on the query, key and value projections (Qwen2).
    tie_embeddings: the head is the transposed embedding.
    scan_layers: `lax.scan` over the stacked layers (compile time flat in depth) or unrolled (faster on CPU); the
      parameters are the same.
    dtype: dtype of activations and matmuls; parameters stay float32, as do softmax, norms and log-probs.
  """

  vocab_size: int
  d_model: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  d_ff: int
  rope_theta: float = 10_000.0
  norm_eps: float = 1e-6
  qk_norm: bool = False
  qkv_bias: bool = False
  tie_embeddings: bool = True
  scan_layers: bool = False
  dtype: str = 'float32'

  def __post_init__(self):
    for name in ('vocab_size', 'd_model', 'num_layers', 'num_heads', 'num_kv_heads', 'head_dim', 'd_ff'):
      if getattr(self, name) < 1:
        raise ValueError(f'model.{name}={getattr(self, name)} must be at least 1.')
    if self.num_heads % self.num_kv_heads:
      raise ValueError(f'model.num_heads={self.num_heads} must be a multiple of model.num_kv_heads='
                       f'{self.num_kv_heads}.')
    if self.head_dim % 2:
      raise ValueError(f'model.head_dim={self.head_dim} must be even: rotary positions turn pairs.')
    if self.dtype not in ('float32', 'bfloat16', 'float16'):
      raise ValueError(f'model.dtype={self.dtype!r} must be float32, bfloat16 or float16.')
