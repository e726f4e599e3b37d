"""The rollout loop: prompts in, sampled responses out, one sampler a local device under `jax.pmap`.

Each process samples for its own prompts on its own devices, without a collective: a device whose responses are short
waits only for the devices beside it. Random numbers come from (seed, step, request, token index), so the same request
is answered alike wherever it runs.
"""

import functools

import flax.struct
import jax
import numpy as np

from vpo_jax.models.config import ModelConfig
from vpo_jax.sampling import decode
from vpo_jax.sampling.logits import SamplingParams


@flax.struct.dataclass
class Rollouts:
  """Responses of U prompts, G each, on the host.

  Attributes:
    tokens: `[U, G, C]` int32 sampled tokens, stop token included; 0 behind the length.
    lengths: `[U, G]` int32.
    finished: `[U, G]` bool; False: cut off by the length limit.
    logprobs: `[U, G, C]` float32, nats, under the untempered distribution.
    sampling_logprobs: `[U, G, C]` float32, nats, under the distribution that the tokens were drawn from.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  finished: np.ndarray
  logprobs: np.ndarray
  sampling_logprobs: np.ndarray


def per_device(fn, *, devices, in_axes):
  """Runs `fn` on each of `devices` with its own slice of the arguments: the one place that says how.

  `jax.pmap` is in maintenance; `jax.shard_map` over a one-axis mesh of the same devices can take its place here.
  """
  return jax.pmap(fn, in_axes=in_axes, devices=devices)


class RolloutLoop:
  """Samples responses with a fixed table of compiled programs.

  The response cache grows through `segments` sizes. Once after the first segment, or after the second of four, when no
  device has more than half of its rows running, only half of the rows go on; so a batch runs at two row counts, and a
  loop has at most ten programs.
  """

  def __init__(self, config: ModelConfig, *, max_new_tokens: int, segments: int, devices: list | None = None):
    """Builds the loop; programs are compiled on first use or by `warm_up`.

    Args:
      config: the model.
      max_new_tokens: C, the length limit of a response.
      segments: cache sizes, 1 to 4.
      devices: local devices; all by default.

    Raises:
      ValueError: a number is out of range.
    """
    if max_new_tokens < 1:
      raise ValueError(f'{max_new_tokens=} must be at least 1.')
    if not 1 <= segments <= 4:
      raise ValueError(f'{segments=} must be 1 to 4: each is a compiled program.')
    self.devices = list(devices or jax.local_devices())
    self.max_new_tokens = max_new_tokens
    # Token 0 comes from the prefill, so a response of C tokens feeds C - 1 into the cache.
    self.cache_sizes = sorted({-(-(max_new_tokens - 1) * (i + 1) // segments) for i in range(segments)} - {0})
    self._compact_after = self.cache_sizes[: max(1, len(self.cache_sizes) - 2)][: len(self.cache_sizes) - 1]
    mapped = functools.partial(per_device, devices=self.devices)
    self._prefill = mapped(
        functools.partial(decode.prefill, config=config, max_new_tokens=max_new_tokens),
        in_axes=(0, 0, 0, 0, None, None, None))
    self._decode = {
        size: mapped(functools.partial(decode.decode_segment, config=config, cache_size=size),
                     in_axes=(0, 0, None, None, None))
        for size in self.cache_sizes}
    self._compact = mapped(decode.compact, in_axes=0)

  def __call__(self, params, prompts: np.ndarray, prompt_lengths: np.ndarray, requests: np.ndarray,
               sampling: SamplingParams, *, seed: int, step: int) -> Rollouts:
    """Samples one response for every request.

    Args:
      params: parameters with a leading axis over this process's devices (`partition.replicate_local`).
      prompts: `[U, P]` int32 right-padded prompts of this process.
      prompt_lengths: `[U]`, at least 1.
      requests: `[U, G]` number of each response, unique in the step over all processes.
      sampling: how tokens are drawn.
      seed: seed of the run.
      step: training step; two steps never share random numbers.

    Raises:
      ValueError: a number is out of range, or two requests are alike and would be answered alike.
    """
    u, g = requests.shape
    if not 0 <= seed < 2**32:
      raise ValueError(f'{seed=} must lie in [0, 2**32).')
    shortest, longest = int(prompt_lengths.min()), int(prompt_lengths.max())
    if not 1 <= shortest <= longest <= prompts.shape[1]:
      raise ValueError(f'prompt_lengths from {shortest} to {longest} must lie in 1 to {prompts.shape[1]}, the width.')
    if np.unique(requests).size != requests.size or requests.min() < 0 or requests.max() >= 2**32:
      raise ValueError(f'requests from {requests.min()} to {requests.max()} must be distinct and lie in [0, 2**32).')
    args = (np.uint32(seed), np.int32(step), sampling)
    shard = self._to_devices
    state = self._prefill(
        params, shard(prompts.astype(np.int32)), shard(prompt_lengths.astype(np.int32)),
        shard(requests.astype(np.uint32)), *args)
    rows = state.rows.shape[1]
    full = True
    for size in self.cache_sizes:
      state, running = self._decode[size](params, state, *args)
      most = int(np.max(jax.device_get(running)))
      if most == 0:
        break
      if full and size in self._compact_after and most <= decode.half(rows):
        state = self._compact(state)
        full = False
    return self._result(state, u, g)

  def warm_up(self, params, *, num_prompts: int, prompt_width: int, rollouts: int, sampling: SamplingParams) -> None:
    """Compiles every program that a batch of this shape can meet, by walking the table once."""
    args = (np.uint32(0), np.int32(0), sampling)
    requests = np.arange(num_prompts * rollouts, dtype=np.uint32).reshape(num_prompts, rollouts)
    full = self._prefill(
        params, self._to_devices(np.zeros((num_prompts, prompt_width), np.int32)),
        self._to_devices(np.ones(num_prompts, np.int32)), self._to_devices(requests), *args)
    halved = None
    for size in self.cache_sizes:
      full, _ = self._decode[size](params, full, *args)
      if halved is not None:
        halved, _ = self._decode[size](params, halved, *args)
      if size in self._compact_after:
        halved = self._compact(full)
    self._result(full, num_prompts, rollouts)
    if halved is not None:
      self._result(halved, num_prompts, rollouts)

  def _to_devices(self, x):
    """`[U, ..]` to `[devices, U / devices, ..]`; the last row is repeated where U does not divide."""
    n = len(self.devices)
    pad = -len(x) % n
    x = np.concatenate([x, np.repeat(x[-1:], pad, axis=0)]) if pad else x
    return x.reshape(n, -1, *x.shape[1:])

  def _result(self, state, u, g):
    fields = jax.device_get(
        (state.tokens, state.lengths, state.finished, state.logprobs, state.sampling_logprobs))
    rows = lambda x: x.reshape(-1, g, *x.shape[2:])[:u]
    return Rollouts(*map(rows, fields))
