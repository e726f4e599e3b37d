import functools
import json
import types

import numpy as np
import pytest
from etils import epath
from evaluation.workdir_test import write_workdir

from experiments import quickstart
from vpo_jax import tasks
from vpo_jax.evaluation import workdir


@pytest.fixture
def root(tmp_path):
  """What the runs leave, by hand: two mazes, 30 answers each."""
  for label, score in (('vpo', .9), ('grpo', .5), ('grpo_kl', .6), ('vpo_subsets', 1.)):
    m = 3 if label == 'vpo' else 1
    rewards = np.zeros((2, 30, 2))
    rewards[:, ::2] = score
    folder = write_workdir(tmp_path / label, label, m=m, rewards=rewards)
    if label in ('vpo', 'grpo'):
      write_workdir(folder, label, m=m, step=0, rewards=rewards / 10)
    config = json.loads((folder / 'config.json').read_text())
    config['config']['task'] = {'name': 'maze_small'}
    (folder / 'config.json').write_text(json.dumps(config))
    (folder / 'temperatures.json').write_text(json.dumps([[t, score / 2, score] for t in (.5, 1.)]))
    (folder / 'answers.json').write_text(json.dumps(['1 2', '7', None]))
  return epath.Path(tmp_path)


def test_table_and_figures_are_written_and_shown(root, capsys):
  out = quickstart.write(root)
  assert sorted(path.name for path in out.iterdir()) == [
      'best_at_k.png', 'diversity.png', 'maze.png', 'reward_vectors.png', 'table.md', 'temperature.png']
  printed = capsys.readouterr().out
  assert (out / 'table.md').read_text() in printed and 'one seed' in printed
  heading, _, *rows = [[cell.strip() for cell in line.strip('|').split('|')]
                       for line in (out / 'table.md').read_text().splitlines()]
  table = {row[0]: dict(zip(heading, row, strict=True)) for row in rows}
  assert list(table) == ['Warm start, 1 a rollout', 'Warm start, 3 a rollout', 'GRPO', 'GRPO, tuned KL', 'VPO',
                         'VPO over subsets']
  # Every other answer scores .9; the best of 30 always does.
  assert (table['VPO']['best@1'], table['VPO']['best@30'], table['VPO']['completion']) == ('0.450', '0.900', '0.500')
  assert (table['VPO']['training tokens'], table['Warm start, 3 a rollout']['training tokens']) == ('20,000', '–')
  assert table['Warm start, 3 a rollout']['best@30'] == '0.090'


def test_programs_are_listed_with_the_tests_they_pass(tmp_path):
  task = tasks.make('programs')
  example = task.examples('tuning')[quickstart.PROBLEM]
  right, tests = ' '.join(task.program(example)), example['tests'].sum()
  pools = {'grpo': types.SimpleNamespace(rewards=np.tile(np.float32(example['tests']), (1, 5, 1)))}
  quickstart.list_programs(task, {'grpo': [right, None], 'vpo': ['x x']}, pools, epath.Path(tmp_path))
  lines = (tmp_path / 'programs.md').read_text().splitlines()
  assert right in lines[0] and ' -> ' in lines[2]
  assert lines[-3:] == [f'| GRPO | `{right}` | {tests} of {tests} |', f'| GRPO | `none` | 0 of {tests} |',
                        f'| VPO | `x x` | 0 of {tests} |']
  assert (tmp_path / 'tests.png').stat().st_size > 0


def test_other_problems_are_refused(root):
  write_workdir(root / 'vpo', m=3, oracle=.5, rewards=np.ones((2, 30, 2)))
  with pytest.raises(ValueError, match='same problems'):
    quickstart.write(root)


def test_bands_are_the_intervals_of_the_evaluation(root):
  run = workdir.read(root / 'vpo')
  figure = quickstart.best_at_k_figure({'vpo': run})
  band, = figure.axes[0].collections
  heights = band.get_paths()[0].vertices[:, 1]
  low, high = run.summary['confidence']['best_at_k/1']
  assert (heights.min(), heights.max()) == pytest.approx((low, run.summary['confidence']['best_at_k/30'][1]))
  assert low <= run.summary['best_at_k']['1'] <= high


@pytest.mark.parametrize('task', quickstart.LOOKS)
def test_configs_of_the_runs(tmp_path, task):
  of = functools.partial(quickstart.settings_of, task, epath.Path(tmp_path))
  kl = of('grpo_kl', ['--config.num_steps=2'])
  assert (kl.loss.kl_coef, kl.num_steps, kl.init_from) == (.3, 2, str(tmp_path / 'warm_start'))
  assert kl.task.name == of('warm_start', []).task.name == task
  assert of('vpo', []).loss.kl_coef == 0
  assert of('vpo', []).eval.num_candidates % of('vpo', []).experience.num_answers == 0  # Pools of equal size for all.
  with pytest.raises(ValueError, match='num_step'):
    of('warm_start', ['--config.num_step=2'])


@pytest.mark.slow
@pytest.mark.parametrize('task', quickstart.LOOKS)
def test_from_nothing_to_figures_and_again(tmp_path, monkeypatch, capsys, task):
  arguments = ['', f'--task={task}', f'--workdir={tmp_path}', '--config.num_steps=2', '--config.eval.num_candidates=6',
               '--config.eval.num_problems=4']
  monkeypatch.setattr('sys.argv', arguments)
  quickstart.main()
  last = capsys.readouterr().out.splitlines()[-1]
  assert last.endswith(f'The table and figures are in {tmp_path}/figures.')
  before = {path: path.stat().st_mtime for path in (tmp_path / 'vpo' / 'eval').iterdir()}
  quickstart.main()  # Nothing is trained or evaluated again.
  assert before == {path: path.stat().st_mtime for path in (tmp_path / 'vpo' / 'eval').iterdir()}
