"""From next-token logits to a token: temperature, top-k, top-p, min-p, greedy, with the log-prob of the draw."""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

MAX_STOP_IDS = 8
_NO_STOP = -1  # Pads the stop ids; no token has this id.
_SHORTLIST = 256  # Filters look at this many of the largest logits first: a full sort at V = 152k costs 100 `top_k`s.


@flax.struct.dataclass
class SamplingParams:
  """How tokens are drawn. Every field is traced: changing one compiles nothing.

  Attributes:
    temperature: `[]` float32; 0 takes the argmax.
    top_k: `[]` int32 tokens kept; 0 keeps all.
    top_p: `[]` float32; keeps the smallest set of tokens whose mass reaches it, at least one; 1 keeps all.
    min_p: `[]` float32; keeps tokens at least this fraction as likely as the likeliest; 0 keeps all.
    stop_ids: `[8]` int32 tokens that end a response, padded with -1.
  """

  temperature: np.ndarray
  top_k: np.ndarray
  top_p: np.ndarray
  min_p: np.ndarray
  stop_ids: np.ndarray


def sampling_params(*, vocab_size: int, stop_ids: tuple[int, ...], temperature: float = 1.0, top_k: int = 0,
                    top_p: float = 1.0, min_p: float = 0.0) -> SamplingParams:
  """Checks the values a user chose and packs them.

  Raises:
    ValueError: a value is out of its range, or a stop id is no token of the vocabulary.
  """
  if not 0 <= temperature < float('inf'):
    raise ValueError(f'sampling.{temperature=} must be finite and at least 0 (0: greedy).')
  if top_k < 0 or top_k % 1:
    raise ValueError(f'sampling.{top_k=} must be a whole number of at least 0 (0: keep all).')
  if not 0 <= top_p <= 1:
    raise ValueError(f'sampling.{top_p=} must lie in [0, 1].')
  if not 0 <= min_p <= 1:
    raise ValueError(f'sampling.{min_p=} must lie in [0, 1].')
  if len(stop_ids) > MAX_STOP_IDS:
    raise ValueError(f'{stop_ids=} must hold at most {MAX_STOP_IDS} ids.')
  for stop_id in stop_ids:
    if not 0 <= stop_id < vocab_size:
      raise ValueError(f'stop id {stop_id} of {stop_ids=} must be a token of the vocabulary, 0 to {vocab_size - 1}.')
  padded = tuple(stop_ids) + (_NO_STOP,) * (MAX_STOP_IDS - len(stop_ids))
  return SamplingParams(
      temperature=np.float32(temperature), top_k=np.int32(min(top_k, vocab_size)), top_p=np.float32(top_p),
      min_p=np.float32(min_p), stop_ids=np.array(padded, np.int32))


def draw_token(uniforms: jax.Array, logits: jax.Array, params: SamplingParams
               ) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Draws one token a row by the Gumbel-max rule.

  Args:
    uniforms: `[R, V]` independent uniforms in (0, 1).
    logits: `[R, V]` float32.
    params: how to draw.

  Returns:
    `[R]` tokens; `[R]` their log-probs (nats) under softmax(logits); `[R]` their log-probs under the distribution they
    were drawn from (0 when greedy).
  """
  greedy = params.temperature == 0
  # The likeliest is 0 at any temperature: the others may go to -inf, but none to +inf, and log-probs near 0 are exact.
  logits = logits - logits.max(axis=-1, keepdims=True)
  tempered = logits / jnp.where(greedy, 1.0, params.temperature)
  any_filter = (params.top_k > 0) | (params.top_p < 1) | (params.min_p > 0)
  kept = jax.lax.cond(any_filter, lambda x: filtered_logits(x, params), lambda x: x, tempered)
  perturbed = jnp.where(greedy, logits, kept - jnp.log(-jnp.log(uniforms)))
  tokens = jnp.argmax(perturbed, axis=-1)
  score = lambda x: jnp.take_along_axis(x - jax.nn.logsumexp(x, axis=-1, keepdims=True), tokens[:, None], axis=-1)[:, 0]
  return tokens.astype(jnp.int32), score(logits), jnp.where(greedy, 0.0, score(kept))


def filtered_logits(logits: jax.Array, params: SamplingParams) -> jax.Array:
  """Sets the `[R, V]` logits that top-k, then top-p, then min-p reject to -inf; at least one a row stays.

  Top-p sees the distribution that top-k left, renormalised. Among equal logits the lower id is kept first.
  """
  vocab = logits.shape[-1]
  if vocab <= _SHORTLIST:
    return _filter_largest(logits, params, vocab)[0]
  short, fits = _filter_largest(logits, params, _SHORTLIST)
  return jax.lax.cond(fits, lambda: short, lambda: _filter_largest(logits, params, vocab)[0])


def is_stop(tokens: jax.Array, params: SamplingParams) -> jax.Array:
  """Whether each of `[R]` tokens ends its response."""
  return (tokens[:, None] == params.stop_ids[None, :]).any(axis=-1)


def _filter_largest(logits, params, n):
  """Filters by the n largest logits of each row; also returns whether no row would have kept more than these."""
  vocab = logits.shape[-1]
  values, ids = jax.lax.top_k(logits, n)
  rank = jnp.arange(n)[None]
  in_top_k = (params.top_k == 0) | (rank < params.top_k)
  top_k_fits = (params.top_k > 0) & (params.top_k <= n)
  total = jnp.where(
      top_k_fits, jax.nn.logsumexp(jnp.where(in_top_k, values, -jnp.inf), axis=-1), jax.nn.logsumexp(logits, axis=-1))
  probs = jnp.where(in_top_k, jnp.exp(values - total[:, None]), 0.0)
  before = jnp.cumsum(probs, axis=-1) - probs
  # The tolerances are float32's: .5 + .3 must reach .8, and .2 is half of .4. Rank 0 always stays.
  in_top_p = (params.top_p >= 1) | (before < params.top_p - 1e-6) | (rank == 0)
  in_min_p = (params.min_p == 0) | (values >= values[:, :1] + jnp.log(params.min_p) - 1e-6)
  keep = in_top_k & in_top_p & in_min_p
  # All n kept: more might have been, unless top-k ended here. And top-p needs the mass of all that top-k left.
  mass_known = top_k_fits | (params.top_k == 0) | (params.top_k >= vocab) | (params.top_p >= 1)
  fits = (n == vocab) | top_k_fits | (mass_known & ~keep[:, -1].any())
  rows = jnp.broadcast_to(jnp.arange(logits.shape[0])[:, None], ids.shape)
  return jnp.full_like(logits, -jnp.inf).at[rows, ids].set(jnp.where(keep, values, -jnp.inf)), fits
