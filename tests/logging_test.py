"""The log: rows survive resumes and NaN, locks refuse the living and forget the dead."""

import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from vpo_jax import logging


def rows(workdir):
  return [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]


def test_rows_are_written_at_once_and_hold_no_nan(tmp_path):
  with logging.MetricsLog(tmp_path / 'run') as log:
    log.write(1, {
        'loss': jnp.float32(.5), 'reward/arguments': float('nan'), 'note': 'x', 'front': np.eye(2, dtype=int)})
    text = (tmp_path / 'run' / 'metrics.jsonl').read_text()
    assert text == '{"step": 1, "loss": 0.5, "reward/arguments": null, "note": "x", "front": [[1, 0], [0, 1]]}\n'
    log.write(1, {'eval/best_at_k': np.inf})  # An evaluation at the same step is a row of its own.
  assert rows(tmp_path / 'run')[1] == {'step': 1, 'eval/best_at_k': None}


def test_a_resume_drops_the_rows_after_its_checkpoint(tmp_path):
  with logging.MetricsLog(tmp_path) as log:
    for step in range(1, 213):
      log.write(step, {'loss': step / 2})
  with logging.MetricsLog(tmp_path, restored_step=200) as log:
    assert [row['step'] for row in rows(tmp_path)] == list(range(1, 201))
    for step in range(201, 251):
      log.write(step, {'loss': step / 4})
  assert [row['step'] for row in rows(tmp_path)] == list(range(1, 251))
  assert rows(tmp_path)[211] == {'step': 212, 'loss': 53.}
  with logging.MetricsLog(tmp_path):
    assert rows(tmp_path) == []


def test_a_half_written_last_line_is_dropped_and_another_is_an_error(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3, "lo')
  logging.MetricsLog(tmp_path, restored_step=5).close()
  assert rows(tmp_path) == [{'step': 1}, {'step': 2}]
  path.write_text('{"step": 1}\n{"step"\n{"step": 3}\n')
  with pytest.raises(ValueError, match=r'metrics.jsonl line 2 must be a JSON object with a step'):
    logging.MetricsLog(tmp_path, restored_step=5)


def test_on_an_object_store_the_file_is_uploaded_whole(tmp_path, monkeypatch):
  # The mount stands for a store: what matters is when its file changes.
  monkeypatch.setattr(logging, 'is_remote', lambda path: str(path).startswith(str(tmp_path)))
  (tmp_path / 'metrics.jsonl').write_text('{"step": 1}\n{"step": 2}\n')
  log = logging.MetricsLog(tmp_path, restored_step=1)
  log.write(2, {'again': 1})
  assert rows(tmp_path) == [{'step': 1}, {'step': 2}]  # Still the old one.
  log.write(3, {})
  log.sync()
  assert rows(tmp_path) == [{'step': 1}, {'step': 2, 'again': 1}, {'step': 3}]
  log.write(4, {})
  log.close()
  assert rows(tmp_path)[-1] == {'step': 4}


def tensorboard_points(folder):
  from tensorboardX.proto import event_pb2
  points = {}
  for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
    content, at = path.read_bytes(), 0
    while at < len(content):  # Length (8 bytes), its checksum (4), the event, its checksum (4).
      length = int.from_bytes(content[at:at + 8], 'little')
      event = event_pb2.Event.FromString(content[at + 12:at + 12 + length])
      at += length + 16
      for value in event.summary.value:
        points.setdefault(value.tag, []).append((event.step, value.simple_value))
  return points


def test_tensorboard_has_the_numbers(tmp_path):
  with logging.MetricsLog(tmp_path) as log:
    log.write(1, {'loss': .5, 'reward/goal': float('nan'), 'note': 'x'})
    log.write(2, {'loss': .25, 'reward/goal': 1})
  assert tensorboard_points(tmp_path / 'tensorboard') == {'loss': [(1, .5), (2, .25)], 'reward/goal': [(2, 1.)]}


def test_a_failing_tensorboard_stops_nothing(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'tensorboardX', None)  # As if not installed.
  with pytest.warns(UserWarning, match='No TensorBoard from here on; metrics.jsonl is complete: ModuleNotFoundError'):
    log = logging.MetricsLog(tmp_path)
  log.write(1, {'loss': 1})
  log.close()
  monkeypatch.undo()
  log = logging.MetricsLog(tmp_path, restored_step=1)
  log._tensorboard._writer.close()
  monkeypatch.setattr(log._tensorboard._writer, 'add_scalar', lambda *args: 1 / 0)
  with pytest.warns(UserWarning, match='ZeroDivisionError'):
    log.write(2, {'loss': 1})
  log.write(3, {'loss': 1})
  log.close()
  assert [row['step'] for row in rows(tmp_path)] == [1, 2, 3]


def test_only_process_zero_writes(tmp_path, monkeypatch):
  monkeypatch.setattr(jax, 'process_index', lambda: 1)
  stream = io.StringIO()
  with logging.MetricsLog(tmp_path / 'run') as log, logging.WorkdirLock(tmp_path / 'run'):
    log.write(1, {'loss': 1})
    log.sync()
    progress = logging.Progress(1, stream=stream)
    progress.update(1, tokens=1)
    progress.close()
  logging.write_json(tmp_path / 'run' / 'config.json', {})
  assert not (tmp_path / 'run').exists()
  assert stream.getvalue() == ''


def test_progress_prints_lines_where_nobody_watches(monkeypatch):
  clock = iter([0., 10., 15., 20., 30., 40.])
  monkeypatch.setattr(time, 'monotonic', lambda: next(clock))
  stream = io.StringIO()
  progress = logging.Progress(8, first_step=3, seconds_between_lines=10., stream=stream)
  for step in range(4, 9):
    progress.update(step, tokens=500, reward=jnp.float32(step / 8))
  progress.close()
  # Steps 4, 6, 7 and 8 come 10 s or more after the line before; step 7, at 30 s, is the fourth of 5 new steps.
  assert stream.getvalue().splitlines() == [
      'step 4/8 50 tokens/s, 0:00:40 left reward 0.5',
      'step 6/8 75 tokens/s, 0:00:13 left reward 0.75',
      'step 7/8 67 tokens/s, 0:00:08 left reward 0.875',
      'step 8/8 62 tokens/s, 0:00:00 left reward 1',
  ]


def test_progress_draws_a_bar_on_a_terminal():
  class Terminal(io.StringIO):
    def isatty(self):
      return True

  stream = Terminal()
  progress = logging.Progress(4, first_step=2, stream=stream)
  progress.update(3, tokens=10)
  progress.update(4, tokens=10, reward=.5)
  progress.close()
  assert '4/4' in stream.getvalue()
  assert 'tokens/s reward 0.5' in stream.getvalue()


def test_write_json_replaces_whole_files(tmp_path):
  path = tmp_path / 'eval' / '7.json'
  logging.write_json(path, {'old': 1})
  logging.write_json(epath.Path(path), {
      'best_at_k': {1: np.float32(.5), 2: jnp.bfloat16(.25)}, 'ids': (1, 2), 'none': None,
      'nan': np.array([np.nan, 1])})
  assert json.loads(path.read_text()) == {
      'best_at_k': {'1': .5, '2': .25}, 'ids': [1, 2], 'none': None, 'nan': [None, 1.]}
  with pytest.raises(ValueError, match='must be made of numbers'):
    logging.write_json(path, {'bad': object()})
  assert [file.name for file in path.parent.iterdir()] == ['7.json']
  assert json.loads(path.read_text())['ids'] == [1, 2]


HOLDER = """
import sys, time
from vpo_jax import logging
lock = logging.WorkdirLock(sys.argv[1])
print('held', flush=True)
sys.stdin.readline()
"""


def test_a_live_train_is_named_and_a_dead_one_forgotten(tmp_path):
  def holder():
    environment = os.environ | {'PYTHONPATH': str(pathlib.Path(__file__).parents[1])}
    process = subprocess.Popen([sys.executable, '-c', HOLDER, str(tmp_path)], env=environment, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == 'held\n'
    return process

  process = holder()
  try:
    with pytest.raises(ValueError, match=rf'on {socket.gethostname()} \(pid {process.pid}, started 20'):
      logging.WorkdirLock(tmp_path)
  finally:
    process.kill()
    process.communicate()
  assert (tmp_path / 'train.lock').exists()
  with logging.WorkdirLock(tmp_path):  # Its file is fresh, but the kernel knows that it died.
    assert json.loads((tmp_path / 'train.lock').read_text())['pid'] == os.getpid()
    with pytest.raises(ValueError, match=rf'pid {os.getpid()}'):
      logging.WorkdirLock(tmp_path)
  assert not (tmp_path / 'train.lock').exists()
  process = holder()
  process.communicate('\n')  # Ends it without a release of its own.
  assert not (tmp_path / 'train.lock').exists()


def test_another_hosts_lock_is_stale_after_a_while(tmp_path):
  path = tmp_path / 'train.lock'
  content = {'host': 'elsewhere', 'pid': 1, 'started': '2026-01-01T00:00:00+00:00'}
  path.write_text(json.dumps(content | {'renewed': time.time() - 170}))
  with pytest.raises(ValueError, match=r'on elsewhere \(pid 1, started 2026-01-01.*try again in 180 s or delete'):
    logging.WorkdirLock(tmp_path)
  path.write_text(json.dumps(content | {'renewed': time.time() - 190}))
  logging.WorkdirLock(tmp_path).release()


@pytest.mark.parametrize('kernel', [True, False])
def test_a_lock_is_renewed(tmp_path, monkeypatch, kernel):
  monkeypatch.setattr(logging.WorkdirLock, 'RENEW_SECONDS', .01)
  if not kernel:
    monkeypatch.setattr(logging.WorkdirLock, '_kernel_lock', lambda self: None)
  with logging.WorkdirLock(tmp_path):
    first = json.loads((tmp_path / 'train.lock').read_text())
    deadline = time.monotonic() + 10
    while json.loads((tmp_path / 'train.lock').read_text()) == first and time.monotonic() < deadline:
      time.sleep(.01)
    last = json.loads((tmp_path / 'train.lock').read_text())
  assert last['renewed'] > first['renewed']
  assert last | {'renewed': 0} == first | {'renewed': 0}
