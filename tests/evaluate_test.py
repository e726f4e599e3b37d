"""Pools of a run's checkpoints, and what an evaluation refuses."""

import json
import pathlib
import sys

import numpy as np
import pytest

from tests import tiny_run
from vpo_jax import evaluate as evaluate_lib
from vpo_jax.evaluate import evaluate
from vpo_jax.train import train


@pytest.fixture(autouse=True)
def one_device():
  with tiny_run.devices(1):
    yield


@pytest.fixture(scope='module')
def start(tmp_path_factory):
  return pathlib.Path(tiny_run.warm_start(tmp_path_factory.mktemp('warm') / 'start'))


def pool_of(workdir, *overrides, step=None):
  """The arrays that an evaluation writes."""
  evaluate(workdir, step=step, overrides=[f'--config.{override}' for override in overrides])
  newest = max((workdir / 'eval').glob('*.npz'), key=lambda path: path.stat().st_mtime_ns)
  with np.load(newest) as arrays:
    return dict(arrays)


def same(left, right):
  assert left.keys() == right.keys()
  for name in left:
    np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.fixture(scope='module')
def pool(start):
  with tiny_run.devices(1):
    return pool_of(start)


def test_a_pool_has_every_candidate_of_every_problem(start, pool):
  # 5 candidates are 3 rollouts of 2 answers; 12 rows are 4 problems a call, so the second call is filled up.
  assert pool['rewards'].shape == (5, 6, 4)
  np.testing.assert_array_equal(pool['rollout'], [[0, 0, 1, 1, 2, 2]] * 5)
  np.testing.assert_array_equal(pool['position'], [[0, 1, 0, 1, 0, 1]] * 5)
  assert (pool['rewards'][..., 0] > 0).any() and not pool['rewards'][~pool['answer_mask']].any()
  scalars = pool['rewards'] @ pool['scalar_weights']
  assert (scalars <= pool['oracle'][:, None] + 1e-6).all() and (pool['oracle'] > 0.5).all()
  assert (scalars[0] != scalars[1:]).any()  # No problem twice.
  assert sorted(path.name for path in (start / 'eval').iterdir())[:2] == ['80.json', '80.npz']


def test_the_summary_has_the_agreed_keys(start, pool):
  result = evaluate(start)
  assert json.loads((start / 'eval' / '80.json').read_text()) == result
  assert result.keys() >= {
      'best_at_k', 'best_at_k_rollouts', 'pass_at_k', 'pass_at_k_rollouts', 'expected_best', 'diversity_l1',
      'diversity_l1_valid', 'diversity_l1_within_rollout', 'hypervolume', 'completion', 'oracle', 'num_problems',
      'num_candidates', 'answers_per_rollout', 'generated_tokens', 'confidence'}
  assert result['num_problems'] == 5 and result['num_candidates'] == 6 and result['answers_per_rollout'] == 2
  assert list(result['best_at_k']) == ['1', '2', '3', '5'] and list(result['best_at_k_rollouts']) == ['1', '2', '3']
  scalars = pool['rewards'] @ pool['scalar_weights']
  np.testing.assert_allclose(result['best_at_k']['1'], scalars.mean(), rtol=1e-6)
  np.testing.assert_allclose(result['best_at_k_rollouts']['3'], scalars.max(1).mean(), rtol=1e-6)
  np.testing.assert_allclose(
      result['completion'], (pool['answer_mask'] & (pool['rewards'][..., 0] > 0)).mean(), rtol=1e-6)


def test_a_pool_is_a_function_of_the_seed_and_not_of_the_calls(start, pool):
  same(pool_of(start), pool)
  same(pool_of(start, 'eval.rows=1000'), pool)
  assert (pool_of(start, 'eval.seed=1')['rewards'] != pool['rewards']).any()
  fewer = pool_of(start, 'eval.num_problems=4')
  np.testing.assert_array_equal(fewer['rewards'], pool['rewards'][:4])
  assert fewer['generated_tokens'] < pool['generated_tokens']


def test_greedy_gives_one_answer(start):
  pool = pool_of(start, 'eval.temperature=0')
  for rewards in np.split(pool['rewards'], 3, axis=1)[1:]:
    np.testing.assert_array_equal(rewards, pool['rewards'][:, :2])
  assert pool['generated_tokens'] % 3 == 0


def test_checkpoint_zero_is_what_the_run_started_from(start, tmp_path):
  train(tmp_path, tiny_run.settings('vpo', f'init_from={start}', 'num_steps=2'))
  trained, begun = pool_of(tmp_path), pool_of(tmp_path, step=0)
  same(begun, pool_of(start))
  assert (trained['rewards'] != begun['rewards']).any()
  assert sorted(path.name for path in (tmp_path / 'eval').iterdir()) == ['0.json', '0.npz', '2.json', '2.npz']


def test_one_device_evaluates_what_four_trained(tmp_path):
  with tiny_run.devices(4):
    train(tmp_path, tiny_run.settings('warm_start', 'num_steps=2', 'mesh.data=1', 'mesh.fsdp=4'))
    four = pool_of(tmp_path, 'eval.num_problems=3')
  with pytest.raises(ValueError, match='must multiply to the number of devices, 1'):
    pool_of(tmp_path)
  same(pool_of(tmp_path, 'eval.num_problems=3', 'mesh.fsdp=1'), four)


@pytest.mark.parametrize('override,rule', [
    ('eval.num_problem=3', 'config.eval.num_problem must be a field of the config; did you mean config.eval.num_prob'),
    ('eval.num_problems=0', 'eval.num_problems=0 must be at least 1'),
    ('eval.num_problems=5000', 'eval.num_problems=5000 must be at most 4096'),
    ('eval.num_candidates=0', 'eval.num_candidates=0 must be at least 1'),
    ('eval.num_answers=0', 'eval.num_answers=0 must be at least 1'),
    ('eval.rows=0', 'eval.rows=0 must be at least 1'),
    ('eval.seed=-1', 'eval.seed=-1 must lie in'),
    ('eval.split=tests', "split='tests' must be one of"),
    ('eval.temperature=-1', 'temperature=-1.0 must be finite and at least 0'),
    ('eval.segments=0', 'segments=0 must be 1 to 4'),
    ('num_steps=3', 'config.num_steps=3 must stay 80: an evaluation reads only task, model, mesh, eval'),
    ('model.d_model=8', 'does not fit')])
def test_a_mistake_is_one_line(monkeypatch, capsys, start, override, rule):
  monkeypatch.setattr(sys, 'argv', ['evaluate', '--workdir', str(start), f'--config.{override}'])
  with pytest.raises(SystemExit) as end:
    evaluate_lib.main()
  assert end.value.code == 2
  errors = capsys.readouterr().err
  assert len(errors.splitlines()) == 1 and errors.startswith('error: ') and rule in errors


def test_a_folder_without_run_and_a_missing_step_are_named(start, tmp_path):
  with pytest.raises(ValueError, match=r'must hold a config\.json: it is no training run'):
    evaluate(tmp_path)
  with pytest.raises(ValueError, match='step=7 must be one of the steps saved'):
    evaluate(start, step=7)


def test_the_command_says_where_its_results_are(monkeypatch, capsys, start):
  monkeypatch.setattr(sys, 'argv', ['evaluate', '--workdir', str(start), '--checkpoint', '80'])
  evaluate_lib.main()
  assert capsys.readouterr().out.splitlines()[-1].endswith(f'The results are in {start}/eval.')
