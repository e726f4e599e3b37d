r"""Speed of the program interpreter beside its plain Python oracle, as one JSON object on stdout.

  python -m experiments.benchmarks.programs > programs.json

An evaluation is one program on one input. Reading the responses and comparing the outputs is counted with ours. The
programs are random and valid, of 3 to 8 words. Both in seconds of the wall, ours on all cores; rounds are interleaved
and medians compared. See RESULTS.md.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time

import jax
import numpy as np

from experiments.benchmarks.throughput import Compilations
from vpo_jax import tasks
from vpo_jax.tasks import program_language as language
from vpo_jax.tasks.programs import NUM_TESTS, SEPARATOR

NUM_ANSWERS = 3
NEW_BATCHES = 20


def responses(rng: random.Random, count: int) -> tuple[np.ndarray, np.ndarray]:
  """Random responses of `NUM_ANSWERS` programs each: tokens `[count, T]` and lengths `[count]`."""
  tokens = np.zeros((count, NUM_ANSWERS * (language.MAX_WORDS + 1)), np.int32)
  lengths = np.zeros(count, np.int32)
  for row in range(count):
    written = []
    for _ in range(NUM_ANSWERS):
      written += [language.CODES[word] for word in language.random_program(rng, rng.randint(3, language.MAX_WORDS))]
      written.append(SEPARATOR)
    lengths[row] = len(written) - 1
    tokens[row, :lengths[row]] = written[:-1]
  return tokens, lengths


def benchmark(prompts: int, rollouts: int, repeats: int, python_programs: int) -> dict:
  """The figures for batches of `prompts` problems with `rollouts` responses each."""
  task, rng = tasks.make('programs'), random.Random(0)
  source = task.examples('train')
  problems = [source[i] for i in range(prompts)]
  examples = jax.tree.map(lambda *rows: np.stack(rows), *problems)
  score = jax.jit(jax.vmap(lambda example, tokens, lengths: task.token_reward(example, tokens, lengths, NUM_ANSWERS)))

  def batch():
    tokens, lengths = responses(rng, prompts * rollouts)
    return tokens.reshape(prompts, rollouts, -1), lengths.reshape(prompts, rollouts)

  tokens, lengths = batch()
  start = time.perf_counter()
  rewards, _, _ = jax.block_until_ready(score(examples, tokens, lengths))
  compile_seconds = time.perf_counter() - start
  some = [(problems[p], answer) for p in range(prompts) for r in range(rollouts)
          for answer in task.decode(problems[p], tokens[p, r, :lengths[p, r]], NUM_ANSWERS)][:python_programs]
  ours, plain = [], []
  for _ in range(repeats):
    start = time.perf_counter()
    jax.block_until_ready(score(examples, tokens, lengths))
    ours.append(time.perf_counter() - start)
    start = time.perf_counter()
    expected = [task.reward(problem, answer) for problem, answer in some]
    plain.append(time.perf_counter() - start)
  np.testing.assert_array_equal(np.asarray(rewards).reshape(-1, NUM_TESTS)[:len(some)], expected)

  compilations = Compilations()
  for _ in range(NEW_BATCHES):
    jax.block_until_ready(score(examples, *batch()))
  evaluations = prompts * rollouts * NUM_ANSWERS * NUM_TESTS
  rate = evaluations / statistics.median(ours)
  plain_rate = len(some) * NUM_TESTS / statistics.median(plain)
  return {
      'shape': {'prompts': prompts, 'rollouts': rollouts, 'answers': NUM_ANSWERS, 'tests': NUM_TESTS},
      'evaluations': evaluations,
      'evaluations_per_second': rate,
      'python_evaluations_per_second': plain_rate,
      'times_faster_than_python': rate / plain_rate,
      'compile_seconds': compile_seconds,
      'compile_events_in_new_batches': compilations.count,
  }


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(description='Speed of the program interpreter beside plain Python.')
  parser.add_argument('--prompts', type=int, default=32, help='problems in a batch')
  parser.add_argument('--rollouts', type=int, default=64, help='responses to each')
  parser.add_argument('--repeats', type=int, default=21, help='rounds')
  parser.add_argument('--python_programs', type=int, default=500, help='programs that the oracle runs in a round')
  settings = parser.parse_args()
  print(json.dumps(benchmark(**vars(settings)) | {
      'machine': {'cpus': len(os.sched_getaffinity(0)), 'python': platform.python_version(), 'jax': jax.__version__,
                  'device': jax.devices()[0].device_kind}}))


if __name__ == '__main__':
  main()
