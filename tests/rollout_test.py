import dataclasses
import functools
from unittest import mock

import jax
import numpy as np
import pytest

from tests.counting_model import counting_model
from tests.replay import assert_replays
from tests.tiny_model import CONFIG, random_params
from vpo_jax import partition
from vpo_jax.rollout import RolloutLoop, per_device
from vpo_jax.sampling import decode
from vpo_jax.sampling.logits import sampling_params

CONFIG = dataclasses.replace(CONFIG, num_layers=1)
C = 10
U, G, P = 6, 4, 5
LENGTHS = np.array([2, 5, 1, 4, 3, 5])
REQUESTS = 7 + np.arange(U * G).reshape(U, G)


@functools.cache
def make_loop(num_devices, segments):
  return RolloutLoop(CONFIG, max_new_tokens=C, segments=segments, devices=jax.local_devices()[:num_devices])


def replicated(params, devices):
  return partition.replicate_local(params, partition.make_mesh(devices=devices), devices)


@functools.cache
def params_on(num_devices):
  return replicated(random_params(CONFIG), jax.local_devices()[:num_devices])


def prompts():
  return np.random.default_rng(0).integers(13, size=(U, P)).astype(np.int32)


def sampling(**settings):
  return sampling_params(**dict(vocab_size=13, stop_ids=(0, 5, 8)) | settings)


def rollouts(num_devices, segments, *, order=slice(None), step=2, seed=3, **settings):
  """What a loop samples for the prompts in some order, back in the first order."""
  loop = make_loop(num_devices, segments)
  result = loop(params_on(num_devices), prompts()[order], LENGTHS[order], REQUESTS[order], sampling(**settings),
                seed=seed, step=step)
  back = np.argsort(np.arange(U)[order])
  return jax.tree.map(lambda x: x[back], result)


@functools.cache
def expected():
  return rollouts(1, 1)


# One device and one segment know no slicing, padding or compaction. 6 prompts do not divide by 4 devices.
@pytest.mark.parametrize('num_devices, segments', [(1, 1), (1, 2), (1, 3), (1, 4), (2, 4), (4, 4)])
def test_neither_devices_nor_order_nor_segments_matter(num_devices, segments):
  loop = make_loop(num_devices, segments)
  with mock.patch.object(loop, '_compact', wraps=loop._compact) as compact:
    for order in (np.arange(U), np.random.default_rng(1).permutation(U)):
      actual = rollouts(num_devices, segments, order=order)
      assert_replays(actual, random_params(CONFIG), CONFIG, prompts(), LENGTHS, REQUESTS, sampling(), seed=3, step=2)
      # Where two tokens are nearly tied, machines may differ; both are then right.
      assert (actual.tokens == expected().tokens).all(-1).mean() > .9
  assert compact.call_count == (0 if segments == 1 else 2)


@pytest.mark.parametrize('num_devices', [1, 2, 4])
def test_random_numbers_are_the_same_on_any_devices_to_the_bit(num_devices):
  requests = np.random.default_rng(0).permutation(8).astype(np.uint32)
  draws = per_device(functools.partial(decode.uniforms, vocab_size=13), devices=jax.local_devices()[:num_devices],
                     in_axes=(None, None, 0, None))
  actual = draws(np.uint32(3), np.int32(2), requests.reshape(num_devices, -1), np.int32(4))
  alone = jax.jit(functools.partial(decode.uniforms, vocab_size=13))(
      np.uint32(3), np.int32(2), np.arange(8, dtype=np.uint32), np.int32(4))
  np.testing.assert_array_equal(np.asarray(actual).reshape(8, 13), np.asarray(alone)[requests])


def test_same_step_samples_the_same_bits_and_another_step_or_seed_does_not():
  first = rollouts(2, 4)
  for name, again in dataclasses.asdict(rollouts(2, 4)).items():
    np.testing.assert_array_equal(getattr(first, name), again)
  for other in (dict(step=3), dict(seed=4)):
    actual = rollouts(2, 4, **other)
    assert_replays(actual, random_params(CONFIG), CONFIG, prompts(), LENGTHS, REQUESTS, sampling(),
                   **dict(seed=3, step=2) | other)
    assert (actual.tokens == first.tokens).all(-1).mean() < .2


def test_rollouts_of_a_prompt_differ_unless_greedy():
  assert all(len(np.unique(group, axis=0)) > 1 for group in rollouts(1, 4).tokens)
  greedy = rollouts(1, 4, temperature=0)
  assert_replays(greedy, random_params(CONFIG), CONFIG, prompts(), LENGTHS, REQUESTS, sampling(temperature=0), seed=3,
                 step=2)
  np.testing.assert_array_equal(greedy.tokens, np.broadcast_to(greedy.tokens[:, :1], greedy.tokens.shape))


class TestCounting:

  params, config = counting_model()

  def sample(self, loop, *, stop_ids, last=(6, 2)):
    return loop(replicated(self.params, loop.devices), np.array(last, np.int32)[:, None], np.array([1, 1]),
                np.arange(4).reshape(2, 2), sampling_params(vocab_size=10, stop_ids=stop_ids), seed=0, step=0)

  def make_loop(self, **settings):
    return RolloutLoop(self.config, **dict(segments=4, devices=jax.local_devices()[:1]) | settings)

  def test_loop_ends_with_the_last_response(self):
    loop = self.make_loop(max_new_tokens=9)
    assert loop.cache_sizes == [2, 4, 6, 8]
    spies = {size: mock.Mock(wraps=program) for size, program in loop._decode.items()}
    loop._decode = spies
    with mock.patch.object(loop, '_compact', wraps=loop._compact) as compact:
      actual = self.sample(loop, stop_ids=(6, 7))  # 7 at once; 3, 4, 5, 6.
    assert compact.call_count == 1  # Just half of the rows are running after 3 tokens.
    assert [spy.call_count for spy in spies.values()] == [1, 1, 0, 0]
    np.testing.assert_array_equal(actual.lengths, [[1, 1], [4, 4]])
    np.testing.assert_array_equal(actual.tokens[:, 0, :5], [[7, 0, 0, 0, 0], [3, 4, 5, 6, 0]])
    np.testing.assert_array_equal(actual.finished, True)

  @pytest.mark.parametrize('max_new_tokens, cache_sizes', [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2, 3])])
  def test_shortest_responses(self, max_new_tokens, cache_sizes):
    loop = self.make_loop(max_new_tokens=max_new_tokens)
    assert loop.cache_sizes == cache_sizes
    loop.warm_up(replicated(self.params, loop.devices), num_prompts=2, prompt_width=1, rollouts=2,
                 sampling=sampling_params(vocab_size=10, stop_ids=()))
    actual = self.sample(loop, stop_ids=(7,))
    np.testing.assert_array_equal(actual.lengths, [[1, 1], [max_new_tokens] * 2])
    np.testing.assert_array_equal(actual.tokens[1, 0], [3, 4, 5, 6][:max_new_tokens])
    np.testing.assert_array_equal(actual.finished, [[True] * 2, [False] * 2])

  def test_one_prompt_on_four_devices(self):
    loop = self.make_loop(max_new_tokens=3, segments=1, devices=jax.local_devices()[:4])
    params = replicated(self.params, loop.devices)
    actual = loop(params, np.array([[6]], np.int32), np.array([1]), np.array([[4, 2]]),
                  sampling_params(vocab_size=10, stop_ids=(8,)), seed=0, step=0)
    np.testing.assert_array_equal(actual.tokens, [[[7, 8, 0]] * 2])


@pytest.mark.parametrize('settings, message', [
    (dict(max_new_tokens=0), 'max_new_tokens=0 must be at least 1'),
    (dict(segments=0), 'segments=0 must be 1 to 4'),
    (dict(segments=5), 'segments=5 must be 1 to 4')])
def test_bad_setting_is_named(settings, message):
  with pytest.raises(ValueError, match=message):
    RolloutLoop(CONFIG, **dict(max_new_tokens=8, segments=2) | settings)


@pytest.mark.parametrize('arguments, message', [
    (dict(seed=-1), r'seed=-1 must lie in \[0, 2\*\*32\)'),
    (dict(seed=2**32), r'seed=4294967296 must lie in'),
    (dict(prompt_lengths=np.array([0, 5, 1, 4, 3, 5])), 'prompt_lengths from 0 to 5 must lie in 1 to 5'),
    (dict(prompt_lengths=np.array([2, 5, 1, 4, 6, 5])), 'prompt_lengths from 1 to 6 must lie in 1 to 5'),
    (dict(requests=np.zeros((U, G), int)), 'requests from 0 to 0 must be distinct'),
    (dict(requests=REQUESTS - 8), 'requests from -1 to 22 must be distinct and lie in'),
    (dict(requests=REQUESTS + 2**32 - 8), r'must be distinct and lie in \[0, 2\*\*32\)')])
def test_bad_argument_is_named(arguments, message):
  good = dict(prompts=prompts(), prompt_lengths=LENGTHS, requests=REQUESTS, sampling=sampling(), seed=0, step=0)
  with pytest.raises(ValueError, match=message):
    make_loop(1, 1)(None, **good | arguments)


def test_warm_up_compiles_every_program_there_is():
  """At most ten; no call after it compiles one, not even an eager operation, whatever changes in the batch."""
  jax.clear_caches()  # Or operations that other tests compiled would not be counted.
  devices = jax.local_devices()[:2]
  loop = RolloutLoop(CONFIG, max_new_tokens=C, segments=4, devices=devices)
  params = replicated(random_params(CONFIG), devices)
  compiled = []
  listen = lambda name, _, **__: compiled.append(name) if name == '/jax/core/compile/backend_compile_duration' else None
  jax.monitoring.register_event_duration_secs_listener(listen)
  try:
    loop.warm_up(params, num_prompts=U, prompt_width=P, rollouts=G, sampling=sampling())
    assert 0 < len(compiled) <= 10
    compiled.clear()
    rng = np.random.default_rng(0)
    endings = set()
    with mock.patch.object(loop, '_compact', wraps=loop._compact) as compact:
      for step in range(20):
        settings = dict(
            temperature=rng.choice([0, .5, 1., 2.]), top_k=int(rng.integers(14)), top_p=rng.uniform(.2, 1),
            min_p=rng.uniform(0, .3), stop_ids=tuple(rng.permutation(13)[: step % 9]))
        result = loop(params, rng.integers(13, size=(U, P)), rng.integers(1, P + 1, U), step + REQUESTS,
                      sampling(**settings), seed=step, step=step)
        compacted_at = compact.call_args.args[0].cache[0].v.shape[-2] if compact.called else None
        endings.add((compacted_at, bool(result.lengths.max() == C)))
        compact.reset_mock()
  finally:
    jax.monitoring.unregister_event_duration_listener(listen)
  assert not compiled, f'{len(compiled)} programs were compiled after the warm-up'
  # Never compacted, or after either segment; and some of the calls ended before the last segment.
  assert {at for at, _ in endings} == {None, *loop.cache_sizes[:2]} and {full for _, full in endings} == {False, True}
