"""The benchmark's own arithmetic, and one tiny run of it."""

import argparse

import numpy as np
import pytest

from experiments.benchmarks import advantages, programs, throughput


@pytest.fixture(scope='module')
def figures():
  return throughput.benchmark(argparse.Namespace(
      layers=1, d=8, ff=8, heads=2, kv_heads=1, head_dim=4, vocab=10, batch=16, rollouts=2, prompt=3, new=8, segments=1,
      reps=2, qk_norm=True))


def test_every_program_is_compiled_before_it_is_timed(figures):
  # One cache size: prefill and decode. Log-probs and update.
  assert figures['compile']['sampler']['programs'] == 2
  assert figures['compile']['learner']['programs'] == 2
  assert figures['compile']['programs'] == 4
  assert figures['varied_steps']['compile_events'] == 0


def test_stop_tokens_shorten_the_varied_steps_only(figures):
  assert figures['decode']['tokens'] == 16 * 8  # Every row decodes all its tokens.
  assert figures['varied_steps']['response_length_min'] < 8


def test_rates_are_tokens_over_the_best_cpu_seconds(figures):
  for part, tokens in (('decode', 16 * 8), ('learner', 16 * (3 + 8))):
    times = figures[part]
    assert 0 < times['cpu_seconds_min'] <= times['cpu_seconds_median']
    assert times['tokens_per_cpu_second'] == pytest.approx(tokens / times['cpu_seconds_min'])


def test_sampler_and_learner_agree(figures):
  assert figures['logprob_difference_max'] < 1e-5


def test_ratios_are_ours_over_theirs_where_they_have_the_figure():
  ours = {'decode': {'tokens_per_cpu_second': 6.0}, 'learner': {'tokens_per_cpu_second': 4.0},
          'rl_step': {'cpu_seconds_min': 3.0}}
  theirs = {'decode': {'tokens_per_cpu_second': 2.0}, 'rl_step': {'cpu_seconds_min': 4.0}}
  assert throughput.ratios(ours, theirs) == {
      'decode.tokens_per_cpu_second': 3.0, 'rl_step.cpu_seconds_min': 0.75}


def test_answers_are_stretches_and_only_live_tokens_count():
  task = throughput.RandomPrompts(vocab_size=10, prompt_width=4, shortest=1)
  tokens = np.array([[2, 7, 8, 1, 9], [2, 7, 8, 1, 9], [0, 0, 0, 0, 0]])
  rewards, mask, ids = task.token_reward({}, tokens, np.array([5, 3, 2]), 2)
  # Answers [2, 7] and [8, 1]; token 9 belongs to none. Columns: even, at least 5.
  np.testing.assert_allclose(rewards[0], [[0.5, 0.5], [0.5, 0.5]])
  np.testing.assert_allclose(rewards[1], [[0.5, 0.5], [0.5, 0.5]])  # [8] of two places.
  np.testing.assert_allclose(rewards[2], [[1.0, 0.0], [0.0, 0.0]])
  np.testing.assert_array_equal(mask, [[True, True], [True, True], [True, False]])
  np.testing.assert_array_equal(ids, [[9, 9], [9, 8], [0, 0]])


def test_prompts_are_the_same_every_time_and_at_least_the_shortest():
  task = throughput.RandomPrompts(vocab_size=10, prompt_width=6, shortest=4)
  lengths = [len(task.prompt_tokens(task[i], 2)) for i in range(50)]
  assert set(lengths) == {4, 5, 6}
  np.testing.assert_array_equal(task[7]['prompt'], task[7]['prompt'])


def test_the_numpy_loops_are_vpo():
  # One weighting (1), since d = 1: the best answers are 1, 0 and 2; mean 1, deviation √(2/3). A tied prompt gets 0.
  rewards = np.array([[[[1], [0]], [[0], [0]], [[2], [1]]], [[[3], [0]]] * 3], float)
  for by_rollout in (False, True):
    values = advantages.numpy_advantages(rewards, np.random.default_rng(0), 4, by_rollout=by_rollout)
    np.testing.assert_allclose(values, [[0, -np.sqrt(1.5), np.sqrt(1.5)], [0, 0, 0]], rtol=1e-5)


def test_advantages_are_timed_and_compared_with_many_weightings(monkeypatch):
  monkeypatch.setattr(advantages, 'NUM_WEIGHTS', 16)
  monkeypatch.setattr(advantages, 'LADDER', (16,))
  monkeypatch.setattr(advantages, 'REFERENCE', 256)
  found = advantages.compare((2, 4, 2, 3), repeats=1, calls=1, noise_prompts=2, noise_keys=16)
  assert found['compile_events_in_new_steps'] == 0
  # 32 groups of independent draws on either side: their means are within a factor of 2, and even weightings far below.
  assert .5 < found['noise']['numpy'] / found['noise']['dirichlet'] < 2
  assert found['noise']['lattice'] < found['noise']['dirichlet'] / 4
  assert found['times_faster_than_numpy']['lattice'] == pytest.approx(
      found['cpu_seconds']['numpy'] / found['cpu_seconds']['lattice'])


def test_programs_agree_with_their_oracle_and_compile_once():
  figures = programs.benchmark(prompts=2, rollouts=4, repeats=1, python_programs=20)
  assert figures['evaluations'] == 2 * 4 * 3 * 12
  assert figures['compile_events_in_new_batches'] == 0
  assert figures['times_faster_than_python'] == pytest.approx(
      figures['evaluations_per_second'] / figures['python_evaluations_per_second'])
