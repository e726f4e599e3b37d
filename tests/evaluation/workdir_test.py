import json
import types

import numpy as np
import pytest

from vpo_jax.evaluation import summary, workdir
from vpo_jax.evaluation.pool import Pool


def write_workdir(folder, method='vpo', warm_start='abc', seed=0, step=20, m=2, rewards=None, oracle=1.):
  """Leaves in `folder` what training and an evaluation of two problems leave; returns `folder`."""
  rewards = np.ones((2, 6, 2), np.float32) * .5 if rewards is None else np.asarray(rewards, np.float32)
  problems, n, d = rewards.shape
  shape = (problems, n)
  pool = Pool(
      rewards=rewards, answer_mask=np.ones(shape, bool), rollout=np.broadcast_to(np.arange(n) // m, shape),
      position=np.broadcast_to(np.arange(n) % m, shape), oracle=np.full(problems, oracle, np.float32),
      generated_tokens=60, components=('completion', 'gold', 'diamond')[:d],
      scalar_weights=np.full(d, 1 / d, np.float32))
  folder.mkdir(parents=True, exist_ok=True)
  config = {'seed': seed, 'experience': {'advantage': {'name': method}}}
  (folder / 'config.json').write_text(json.dumps({'config': config, 'warm_start': warm_start}))
  rows = [{'step': s, 'diversity_l1_valid': .1 * s, 'generated_tokens_total': 1000 * s, 'cpu_seconds_total': 2. * s}
          for s in (10, 20, 30)]
  (folder / 'metrics.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  summary.write(pool, folder, step)
  return folder


def test_reads_what_a_run_left(tmp_path):
  write_workdir(tmp_path, step=0)
  write_workdir(tmp_path, step=20, seed=3)
  run = workdir.read(tmp_path)
  assert (run.method, run.warm_start, run.seed, run.step) == ('vpo', 'abc', 3, 20)
  assert [row['step'] for row in run.history] == [10, 20]  # What was trained later is not part of it.
  np.testing.assert_allclose(run.summary['best_at_k']['1'], .5)
  assert run.pool.answers_per_rollout == 2
  assert workdir.read(tmp_path, 0).step == 0


def test_a_row_that_is_being_written_is_left_out(tmp_path):
  write_workdir(tmp_path)
  with (tmp_path / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 40, "divers')
  assert len(workdir.read(tmp_path).history) == 2


def test_missing_evaluations_are_named(tmp_path):
  with pytest.raises(ValueError, match='evaluate it first'):
    workdir.read(tmp_path)
  write_workdir(tmp_path)
  with pytest.raises(ValueError, match=r'step=30 must be one of the evaluated steps of .*: \[20\]'):
    workdir.read(tmp_path, 30)


def test_different_problems_are_refused_by_name():
  workdir.check_same_problems({'a': np.ones(3), 'b': np.ones(3)})
  with pytest.raises(ValueError, match='a and c must be evaluated on the same problems'):
    workdir.check_same_problems({'a': np.ones(3), 'b': np.ones(3), 'c': np.array([1, 1, .5])})


def test_different_warm_starts_are_refused_by_name():
  run = lambda name, method, warm_start: types.SimpleNamespace(name=name, method=method, warm_start=warm_start)
  both = [run('g1', 'grpo', 'x'), run('g2', 'grpo', 'y'), run('v1', 'vpo', 'y'), run('v2', 'vpo', 'x')]
  workdir.check_same_warm_starts(both)
  workdir.check_same_warm_starts(both[:1])
  for runs in (both[1:], both[1:][::-1]):
    with pytest.raises(ValueError, match=r'v2 \(vpo\) and g2 \(grpo\) must start .*'
                                         r"warm starts are 'x' and 'y'"):
      workdir.check_same_warm_starts(runs)
