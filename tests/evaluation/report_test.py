import sys

import numpy as np
import pytest

from evaluation.workdir_test import write_workdir
from vpo_jax.evaluation import report


def cells(table):
  """The cells of a markdown table, by row label and heading."""
  heading, _, *rows = [[cell.strip() for cell in line.strip('|').split('|')]
                       for line in table.splitlines() if line.startswith('|')]
  return {row[0]: dict(zip(heading, row, strict=True)) for row in rows}


@pytest.fixture
def folders(tmp_path):
  one = [[[1, 1.], *[[0, 0]] * 5]] * 2  # One answer of six is perfect.
  return [write_workdir(tmp_path / 'vpo0', rewards=one), write_workdir(tmp_path / 'vpo1', seed=1),
          write_workdir(tmp_path / 'grpo0', 'grpo', m=1), write_workdir(tmp_path / 'grpo1', 'grpo', m=1, seed=1)]


def test_table_by_hand(folders):
  rows = cells(report.table(folders))
  assert list(rows) == ['VPO', 'GRPO']
  # best@1 of the two seeds: 1/6 and 1/2, sample deviation 1/3/√2; best@3: 3/6 twice.
  assert rows['VPO']['best@1'] == '0.333 ± 0.236'
  assert rows['VPO']['best@3'] == '0.500 ± 0.000'
  assert rows['VPO']['best@10'] == '–'  # Six candidates.
  assert (rows['GRPO']['best@1'], rows['GRPO']['completion'], rows['GRPO']['diversity']) == (
      '0.500 ± 0.000', '1.000 ± 0.000', '0.000 ± 0.000')
  assert (rows['VPO']['training tokens'], rows['VPO']['CPU seconds']) == ('20,000 ± 0', '40 ± 0')
  assert '2 problems; best possible scalar 1.000. Answers a problem: VPO 6, GRPO 6.' in report.table(folders)


def test_a_single_run_has_no_deviation_and_step_0_is_the_warm_start(folders):
  write_workdir(folders[2], 'grpo', m=1, step=0, rewards=np.zeros((2, 6, 2)))
  rows = cells(report.table(folders[2:3], step=20))
  assert rows['GRPO']['best@1'] == '0.500'
  assert (rows['Warm start, 1 a rollout']['best@1'], rows['Warm start, 1 a rollout']['CPU seconds']) == ('0.000', '–')


def test_what_may_not_be_compared_is_refused(folders, tmp_path):
  other_start = write_workdir(tmp_path / 'other', 'grpo', warm_start='xyz')
  with pytest.raises(ValueError, match=r"vpo0 .*other .*must start .*'abc' and 'xyz'"):
    report.table([folders[0], other_start])
  other_problems = write_workdir(tmp_path / 'harder', 'grpo', oracle=.8)
  with pytest.raises(ValueError, match=r'vpo0 and .*harder must be evaluated on the same problems'):
    report.write([folders[0], other_problems], tmp_path / 'out')
  with pytest.raises(ValueError, match='at least one workdir'):
    report.table([])


def test_written_files(folders, tmp_path):
  write_workdir(folders[2], 'grpo', m=1, step=0, rewards=np.zeros((2, 6, 2)))
  written = report.write(folders, tmp_path / 'out')
  assert [path.name for path in written] == ['table.md', 'best_at_k.png', 'diversity.png', 'reward_vectors.png']
  assert written[0].read_text() == report.table(folders)
  assert all(path.read_bytes().startswith(b'\x89PNG') for path in written[1:])


def test_command_says_where_its_results_are(folders, tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(sys, 'argv', ['report', *map(str, folders), '--out', str(tmp_path / 'out')])
  report.main()
  assert capsys.readouterr().out.splitlines()[-1].startswith(f'Written: {tmp_path}/out/table.md')
  monkeypatch.setattr(sys, 'argv', ['report', str(tmp_path / 'nothing'), '--out', str(tmp_path / 'out')])
  with pytest.raises(SystemExit):
    report.main()
  assert 'must hold eval/<step>.json' in capsys.readouterr().err
