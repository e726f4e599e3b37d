"""Prefill and cached decoding of groups of responses, as pure functions of fixed shapes.

A batch is U prompts with G responses each, R = U · G rows. Prompts are run once; their keys and values are shared by
the group. The response cache grows between segments. When at most half of the rows are still running, `compact` keeps
only these: U becomes R/2 and G becomes 1, for the same functions.
"""

import flax.struct
import jax
import jax.numpy as jnp

from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig
from vpo_jax.models.transformer import KeyValues
from vpo_jax.sampling.logits import SamplingParams, draw_token, is_stop


@flax.struct.dataclass
class SamplerState:
  """What one segment of decoding reads and writes. The first block is the result, in request order.

  Attributes:
    tokens: `[R, C]` int32 sampled tokens; 0 behind the length.
    logprobs: `[R, C]` log-probs (nats) under the untempered distribution.
    sampling_logprobs: `[R, C]` log-probs under the distribution the tokens were drawn from.
    lengths: `[R]` int32 sampled tokens, the stop token included.
    finished: `[R]` bool, whether a stop token was sampled.

    rows: `[R']` int32, the result row that each running slot writes to.
    requests: `[R']` uint32 request of each slot, from which its random numbers come.
    last: `[R']` int32 token sampled last.
    running: `[R']` bool.
    step: `[]` int32 index of the token sampled last.
    prompt_lengths: `[U']` int32.
    prefix: per layer, `[U', K, P, H]` keys and values of the prompts.
    cache: per layer, `[U', G', K, H, c]` keys and `[U', G', K, c, H]` values of the responses; c grows with the
      segments.
  """

  tokens: jax.Array
  logprobs: jax.Array
  sampling_logprobs: jax.Array
  lengths: jax.Array
  finished: jax.Array
  rows: jax.Array
  requests: jax.Array
  last: jax.Array
  running: jax.Array
  step: jax.Array
  prompt_lengths: jax.Array
  prefix: tuple[KeyValues, ...]
  cache: tuple[KeyValues, ...]


def uniforms(seed: jax.Array, step: jax.Array, requests: jax.Array, token: jax.Array, vocab_size: int) -> jax.Array:
  """The `[R, V]` random numbers in (0, 1) that draw token index `token` of each of `[R]` requests.

  They are a function of (seed, training step, request, token index) alone: not of the batch's order, of the devices
  or of compaction.
  """
  key = jax.random.fold_in(jax.random.key(seed), step)

  def row(request):
    token_key = jax.random.fold_in(jax.random.fold_in(key, request), token)
    return jax.random.uniform(token_key, (vocab_size,), minval=jnp.finfo(jnp.float32).tiny)

  return jax.vmap(row)(requests)


def prefill(params, prompts: jax.Array, prompt_lengths: jax.Array, requests: jax.Array, seed: jax.Array,
            train_step: jax.Array, sampling: SamplingParams, *, config: ModelConfig, max_new_tokens: int
            ) -> SamplerState:
  """Runs `[U, P]` prompts once and draws the first token of each of their `[U, G]` requests."""
  u, g = requests.shape
  r = u * g
  hidden, kv = transformer.prefill(params, config, prompts)
  last = jnp.take_along_axis(hidden, (prompt_lengths - 1)[:, None, None], axis=1)[:, 0]
  logits = jnp.repeat(transformer.head(params, config, last), g, axis=0)
  head_major = lambda x: x.transpose(0, 1, 3, 2, 4)  # [L, U, P, K, H] -> [L, U, K, P, H]
  per_layer = lambda x: [head_major(x)[i] for i in range(config.num_layers)]
  prefix = tuple(map(KeyValues, per_layer(kv.k), per_layer(kv.v)))
  empty = KeyValues(*(jnp.zeros((u, g, config.num_kv_heads, *shape), config.dtype)
                      for shape in ((config.head_dim, 0), (0, config.head_dim))))
  blank = jnp.zeros((r, max_new_tokens))
  state = SamplerState(
      tokens=blank.astype(jnp.int32), logprobs=blank, sampling_logprobs=blank, lengths=jnp.zeros(r, jnp.int32),
      finished=jnp.zeros(r, bool), rows=jnp.arange(r, dtype=jnp.int32), requests=requests.reshape(r),
      last=jnp.zeros(r, jnp.int32), running=jnp.ones(r, bool), step=jnp.int32(-1), prompt_lengths=prompt_lengths,
      prefix=prefix, cache=(empty,) * config.num_layers)
  return _append(state, logits, seed, train_step, sampling)


def decode_segment(params, state: SamplerState, seed: jax.Array, train_step: jax.Array, sampling: SamplingParams, *,
                   config: ModelConfig, cache_size: int) -> tuple[SamplerState, jax.Array]:
  """Decodes until the cache holds `cache_size` tokens of every row, or no row is running.

  Returns:
    The state with the cache grown to `cache_size`, and the number of rows still running, `[]`.
  """
  *_, size, _ = state.cache[0].v.shape
  grown = lambda x, axis: jnp.pad(x, [(0, cache_size - size if i == axis else 0) for i in range(5)])
  state = state.replace(cache=tuple(KeyValues(grown(kv.k, 4), grown(kv.v, 3)) for kv in state.cache))
  u, g = state.cache[0].v.shape[:2]
  params = transformer.unstacked(params, config)

  def more(state):
    return (state.step < cache_size) & state.running.any()

  def one_token(state):
    hidden, cache = transformer.decode_step(
        params, config, state.last.reshape(u, g), state.step, state.prefix, state.prompt_lengths, state.cache)
    logits = transformer.head(params, config, hidden.reshape(u * g, -1))
    return _append(state.replace(cache=cache), logits, seed, train_step, sampling)

  state = jax.lax.while_loop(more, one_token, state)
  return state, state.running.sum()


def compact(state: SamplerState) -> SamplerState:
  """Keeps half of the rows, the running ones first; the caller knows that no more than half are running."""
  r = state.rows.shape[0]
  g = state.cache[0].k.shape[1]
  keep = jnp.argsort(~state.running, stable=True)[: half(r)]
  return state.replace(
      rows=state.rows[keep], requests=state.requests[keep], last=state.last[keep], running=state.running[keep],
      prompt_lengths=state.prompt_lengths[keep // g],
      prefix=jax.tree.map(lambda x: x[keep // g], state.prefix),
      cache=jax.tree.map(lambda x: x.reshape(r, 1, *x.shape[2:])[keep], state.cache))


def half(rows: int) -> int:
  """Rows that `compact` keeps."""
  return -(-rows // 2)


def _append(state, logits, seed, train_step, sampling):
  """Draws the next token of every running row from `[R', V]` logits and writes it to the result."""
  step = state.step + 1
  draws = uniforms(seed, train_step, state.requests, step, logits.shape[-1])
  token, logprob, sampling_logprob = draw_token(draws, logits, sampling)
  stops = state.running & is_stop(token, sampling)
  # Rows that ended write nowhere: an index behind the last row is dropped.
  at = jnp.where(state.running, state.rows, state.tokens.shape[0])
  return state.replace(
      tokens=state.tokens.at[at, step].set(token, mode='drop'),
      logprobs=state.logprobs.at[at, step].set(logprob, mode='drop'),
      sampling_logprobs=state.sampling_logprobs.at[at, step].set(sampling_logprob, mode='drop'),
      lengths=state.lengths.at[at].set(step + 1, mode='drop'),
      finished=state.finished.at[at].set(stops, mode='drop'),
      last=token, running=state.running & ~stops, step=step)
