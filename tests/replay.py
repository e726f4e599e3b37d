"""What a sampler must have done, worked out from its result: the whole rows are run again, without any cache."""

import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax.models import transformer
from vpo_jax.sampling.decode import uniforms
from vpo_jax.sampling.logits import filtered_logits

_logits = jax.jit(transformer.logits, static_argnums=1)
_filtered = jax.jit(filtered_logits)


@jax.jit
def _uniforms(seed, step, requests, like):
  """`[R, C, V]` numbers, those of each token drawn one by one."""
  return jax.vmap(lambda t: uniforms(seed, step, requests, t, like.shape[2]), out_axes=1)(jnp.arange(like.shape[1]))


def assert_replays(rollouts, params, config, prompts, prompt_lengths, requests, sampling, *, seed, step):
  """Checks every field of `rollouts` against rows that are run whole, and random numbers that are drawn anew.

  A sampled token's perturbed logit must be the largest, or within 1e-4 of it: two samplers that pass can differ only
  where two tokens were nearly tied.
  """
  u, g, c = rollouts.tokens.shape
  lengths = rollouts.lengths
  live = np.arange(c) < lengths[..., None]
  stops = np.isin(rollouts.tokens, sampling.stop_ids) & live
  np.testing.assert_array_equal(rollouts.finished, stops.any(-1))
  # The stop token is the last one; without it a response has all C tokens.
  np.testing.assert_array_equal(lengths, np.where(stops.any(-1), stops.argmax(-1) + 1, c))
  for field in (rollouts.tokens, rollouts.logprobs, rollouts.sampling_logprobs):
    np.testing.assert_array_equal(field[~live], 0)

  width = prompts.shape[1] + c
  rows = np.zeros((u, g, width), np.int32)
  for i, n in enumerate(prompt_lengths):
    rows[i, :, :n] = prompts[i, :n]
    rows[i, :, n : n + c] = rollouts.tokens[i]
  logits = np.asarray(_logits(params, config, rows.reshape(u * g, width))).reshape(u, g, width, -1)
  at = prompt_lengths[:, None, None] - 1 + np.arange(c)  # The state before a token draws it.
  logits = np.take_along_axis(logits, np.broadcast_to(at, (u, g, c))[..., None], axis=2)
  flat = logits.reshape(u * g * c, -1)
  scores = np.asarray(_filtered(flat / (sampling.temperature or 1), sampling)).reshape(logits.shape)
  chosen = lambda x: np.take_along_axis(x, rollouts.tokens[..., None], axis=-1)[..., 0]
  logprobs = lambda x: np.where(live, chosen(np.asarray(jax.nn.log_softmax(x))), 0)
  np.testing.assert_allclose(rollouts.logprobs, logprobs(logits), atol=1e-4)
  if sampling.temperature == 0:
    perturbed = logits
    np.testing.assert_array_equal(rollouts.sampling_logprobs, 0)
  else:
    draws = np.asarray(_uniforms(np.uint32(seed), np.int32(step), requests.reshape(-1).astype(np.uint32),
                                 logits.reshape(u * g, c, -1)))
    perturbed = scores - np.log(-np.log(draws.reshape(logits.shape)))
    np.testing.assert_allclose(rollouts.sampling_logprobs, logprobs(scores), atol=1e-4)
  gap = np.where(live, perturbed.max(-1) - chosen(perturbed), 0)
  assert gap.max() <= 1e-4, f'{(gap > 1e-4).sum()} of {live.sum()} tokens are not those that their numbers draw'
