import dataclasses
import functools

import jax
import numpy as np
import pytest
import scipy.stats

from tests.counting_model import counting_model
from tests.replay import assert_replays
from tests.tiny_model import CONFIG, random_params
from vpo_jax import learner
from vpo_jax.models import transformer
from vpo_jax.rollout import Rollouts
from vpo_jax.sampling import decode
from vpo_jax.sampling.logits import sampling_params

C = 8
SEED, STEP = 3, 5
SIZES = (3, 7)  # Of the cache, in two segments.

prefill = jax.jit(decode.prefill, static_argnames=('config', 'max_new_tokens'))
segment = jax.jit(decode.decode_segment, static_argnames=('config', 'cache_size'))
compact = jax.jit(decode.compact)


def sample(params, config, prompts, lengths, requests, sampling, *, sizes=SIZES, compact_after=()):
  """What a batch samples on one device, and the rows that were running after each segment."""
  draw = (np.uint32(SEED), np.int32(STEP), sampling)
  state = prefill(params, prompts, lengths, requests.astype(np.uint32), *draw, config=config, max_new_tokens=C)
  counts = []
  for size in sizes:
    state, running = segment(params, state, *draw, config=config, cache_size=size)
    counts.append(int(running))
    if size in compact_after:
      state = compact(state)
  fields = (state.tokens, state.lengths, state.finished, state.logprobs, state.sampling_logprobs)
  return Rollouts(*(np.asarray(x).reshape(*requests.shape, *x.shape[1:]) for x in fields)), counts


def batch(prompt_width=6):
  """4 prompts of 1 to 6 tokens with garbage behind them, and the numbers of 3 requests for each."""
  rng = np.random.default_rng(0)
  tokens, lengths = rng.integers(13, size=(4, 6)), np.array([3, 6, 1, 4])
  garbage = rng.integers(13, size=(4, prompt_width))
  garbage[:, :6] = np.where(np.arange(6) < lengths[:, None], tokens, garbage[:, :6])
  return garbage.astype(np.int32), lengths, 40 + np.arange(12).reshape(4, 3)


def sampling(**settings):
  return sampling_params(vocab_size=13, stop_ids=(0, 5, 8), **settings)


@pytest.mark.parametrize('settings', [
    dict(), dict(temperature=.6), dict(temperature=1.3, top_k=6, top_p=.9), dict(temperature=0), dict(min_p=.3)],
                         ids=str)
@pytest.mark.parametrize('prompt_width', [6, 9])
def test_sampling_equals_running_whole_rows(settings, prompt_width):
  params = random_params()
  args = *batch(prompt_width), sampling(**settings)
  rollouts, _ = sample(params, CONFIG, *args)
  assert settings == dict(temperature=0) or len(np.unique(rollouts.lengths)) > 3
  assert_replays(rollouts, params, CONFIG, *args, seed=SEED, step=STEP)


@pytest.mark.parametrize('temperature', [.6, 1., 1.3])
def test_learner_gives_the_tokens_the_probability_they_were_drawn_with(temperature):
  params = random_params()
  prompts, lengths, requests = batch()
  rollouts, _ = sample(params, CONFIG, prompts, lengths, requests, sampling(temperature=temperature))

  @jax.jit
  def score(temperature):
    hidden = transformer.continuation(params, CONFIG, prompts, lengths, rollouts.tokens)
    return learner.token_logprobs(params, CONFIG, hidden, rollouts.tokens, temperature)[0]

  live = np.arange(C) < rollouts.lengths[..., None]
  ratios = np.exp(score(np.float32(temperature)) - rollouts.sampling_logprobs)[live]
  np.testing.assert_allclose(ratios, 1, atol=1e-4)
  np.testing.assert_allclose(np.where(live, score(np.float32(1)), 0), rollouts.logprobs, atol=1e-4)


def test_row_alone_draws_what_it_draws_in_a_batch():
  params = random_params()
  prompts, lengths, requests = batch()
  for i in (1, 2):
    one = slice(i, i + 1)
    alone, _ = sample(params, CONFIG, prompts[one], lengths[one], requests[one], sampling())
    assert_replays(alone, params, CONFIG, prompts[one], lengths[one], requests[one], sampling(), seed=SEED, step=STEP)


def test_scanned_layers_sample_alike():
  scanned = dataclasses.replace(CONFIG, scan_layers=True)
  params = random_params()
  args = *batch(), sampling()
  rollouts, _ = sample(params, scanned, *args)
  assert_replays(rollouts, params, CONFIG, *args, seed=SEED, step=STEP)


def test_bfloat16_log_probs_stay_near_the_learners():
  half = dataclasses.replace(CONFIG, dtype='bfloat16')
  params = random_params()
  prompts, lengths, requests = batch()
  rollouts, _ = sample(params, half, prompts, lengths, requests, sampling())
  hidden = jax.jit(transformer.continuation, static_argnums=1)(params, half, prompts, lengths, rollouts.tokens)
  logits = jax.jit(transformer.head, static_argnums=1)(params, half, hidden)
  expected = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits)), rollouts.tokens[..., None], axis=-1)[..., 0]
  error = np.abs(expected - rollouts.logprobs)[np.arange(C) < rollouts.lengths[..., None]]
  assert rollouts.logprobs.dtype == np.float32
  assert error.mean() < .02 and error.max() < .1, (error.mean(), error.max())


@pytest.mark.parametrize('sizes', [(7,), (1, 3, 4, 7)])
def test_segments_change_nothing(sizes):
  params = random_params()
  args = *batch(), sampling()
  rollouts, _ = sample(params, CONFIG, *args, sizes=sizes)
  assert_replays(rollouts, params, CONFIG, *args, seed=SEED, step=STEP)


def test_compaction_changes_nothing():
  params = random_params()
  for rows in (slice(None), slice(1, 4)):  # 12 rows, and 9, which do not halve.
    prompts, lengths, requests = (x[rows] for x in batch())
    args = prompts, lengths, requests, sampling()
    rollouts, running = sample(params, CONFIG, *args, compact_after=(3,))
    assert 0 < running[0] <= decode.half(requests.size) < requests.size
    assert_replays(rollouts, params, CONFIG, *args, seed=SEED, step=STEP)


def test_compaction_keeps_running_rows_with_their_prompts():
  params = random_params()
  prompts, lengths, requests = batch()
  draw = (np.uint32(SEED), np.int32(STEP), sampling())
  state = prefill(params, prompts, lengths, requests.astype(np.uint32), *draw, config=CONFIG, max_new_tokens=C)
  state, _ = segment(params, state, *draw, config=CONFIG, cache_size=3)
  after = compact(state)
  kept = np.asarray(after.rows)[np.asarray(after.running)]
  np.testing.assert_array_equal(kept, np.flatnonzero(state.running))
  assert len(after.rows) == 6
  for slot, row in enumerate(np.asarray(after.rows)):
    assert after.requests[slot] == requests.reshape(-1)[row]
    assert after.prompt_lengths[slot] == lengths[row // 3]
    np.testing.assert_array_equal(after.prefix[1].k[slot], state.prefix[1].k[row // 3])
    np.testing.assert_array_equal(after.cache[1].v[slot, 0], state.cache[1].v[row // 3, row % 3])


@pytest.mark.parametrize('stop_ids, expected, finished', [
    # Padding, stop token and sampled tokens are all 0: only lengths tell them apart.
    ((0,), [[8, 9, 0], [3, 4, 5, 6, 7, 8, 9, 0], [5, 6, 7, 8, 9, 0]], [True, True, True]),
    # Without it as stop token, 0 is a token like any other.
    ((3,), [[8, 9, 0, 1, 2, 3], [3], [5, 6, 7, 8, 9, 0, 1, 2]], [True, True, False]),
    ((9, 6), [[8, 9], [3, 4, 5, 6], [5, 6]], [True, True, True]),
    ((), [[8, 9, 0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8, 9, 0], [5, 6, 7, 8, 9, 0, 1, 2]], [False] * 3)])
@pytest.mark.parametrize('temperature', [0, 1])
def test_counting_model_counts_on_until_it_stops(stop_ids, expected, finished, temperature):
  params, config = counting_model()
  prompts = np.array([[6, 7, 0, 0], [2, 9, 9, 9], [1, 2, 3, 4]], np.int32)
  lengths = np.array([2, 1, 4])
  rollouts, _ = sample(
      params, config, prompts, lengths, np.arange(3)[:, None],
      sampling_params(vocab_size=10, stop_ids=stop_ids, temperature=temperature))
  np.testing.assert_array_equal(rollouts.lengths[:, 0], [len(x) for x in expected])
  np.testing.assert_array_equal(rollouts.tokens[:, 0], [x + [0] * (C - len(x)) for x in expected])
  np.testing.assert_array_equal(rollouts.finished[:, 0], finished)
  np.testing.assert_allclose(rollouts.logprobs, 0, atol=1e-6)  # All mass lies on the next number.


def test_one_token_comes_from_the_prefill():
  params, config = counting_model()
  state = prefill(params, np.array([[6, 7]], np.int32), np.array([2]), np.zeros((1, 2), np.uint32), np.uint32(0),
                  np.int32(0), sampling_params(vocab_size=10, stop_ids=(8,)), config=config, max_new_tokens=1)
  np.testing.assert_array_equal(state.tokens, [[8], [8]])
  np.testing.assert_array_equal(state.lengths, 1)
  np.testing.assert_array_equal(state.finished, True)


class TestUniforms:

  draws = staticmethod(jax.jit(functools.partial(decode.uniforms, vocab_size=50)))

  def test_are_uniform_and_inside_the_open_interval(self):
    actual = np.asarray(self.draws(np.uint32(0), np.int32(0), np.arange(200, dtype=np.uint32), np.int32(0)))
    assert actual.min() > 0 and actual.max() < 1
    assert scipy.stats.kstest(actual.reshape(-1), 'uniform').pvalue > 1e-3

  def test_differ_in_seed_step_request_and_token(self):
    requests = np.array([0, 1, 2**32 - 2], np.uint32)
    rows = [np.asarray(self.draws(np.uint32(seed), np.int32(step), requests, np.int32(token)))
            for seed in (0, 1, 2**32 - 1) for step in (0, 1, 2) for token in (0, 1, 2)]
    # Not one of 81 rows is alike, nor do two begin alike.
    assert len(np.unique(np.concatenate(rows)[:, :2], axis=0)) == 81

  def test_belong_to_the_request_not_to_its_place(self):
    requests = np.arange(8, dtype=np.uint32)
    shuffled = np.random.default_rng(0).permutation(requests)
    args = np.uint32(7), np.int32(3)
    expected = np.asarray(self.draws(*args, requests, np.int32(4)))
    np.testing.assert_array_equal(self.draws(*args, shuffled, np.int32(4)), expected[shuffled])
    np.testing.assert_array_equal(self.draws(*args, requests[5:6], np.int32(4)), expected[5:6])
