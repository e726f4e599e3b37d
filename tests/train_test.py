"""The loop: killed, stopped, prolonged, broken; and every mistake in a config, before training."""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import time

import jax
import numpy as np
import pytest

from tests import tiny_run
from tests.tiny_run import rows, settings, without_time
from vpo_jax import checkpoint, config, logging, tasks
from vpo_jax import train as train_lib
from vpo_jax.experience import SampledAnswers
from vpo_jax.train import train


@pytest.fixture(autouse=True)
def one_device():
  with tiny_run.devices(1):
    yield


@pytest.fixture(scope='module')
def warm_start(tmp_path_factory):
  return tiny_run.warm_start(tmp_path_factory.mktemp('warm') / 'start')


@pytest.fixture(scope='module')
def finished(tmp_path_factory, warm_start):
  """A run of 20 steps that nobody disturbed. Tests that change it take a copy."""
  workdir = tmp_path_factory.mktemp('finished') / 'run'
  process = tiny_run.start_process(workdir, 'vpo', 'num_steps=20', f'init_from={warm_start}')
  output, errors = process.communicate(timeout=300)
  assert process.returncode == 0, errors
  assert output.splitlines()[-1] == f'Trained to step 20. The results are in {workdir}.'
  assert 'step 20/20' in errors
  return workdir


@pytest.fixture
def copy(finished, tmp_path):
  return pathlib.Path(shutil.copytree(finished, tmp_path / 'copy'))


def state_of(workdir, kind='vpo', *overrides):
  with checkpoint.Checkpoints(workdir / 'checkpoints', every=1, keep=2) as saved:
    return saved.restore(tiny_run.run_of(kind, *overrides).learner.abstract_state)


def main(monkeypatch, *arguments):
  monkeypatch.setattr(sys, 'argv', ['train', *arguments])
  train_lib.main()


def wait_for_rows(process, workdir, count):
  while process.poll() is None and not (
      (workdir / 'metrics.jsonl').exists() and (workdir / 'metrics.jsonl').read_bytes().count(b'\n') >= count):
    time.sleep(0.002)


def test_a_run_killed_at_random_moments_ends_as_one_that_was_not(finished, warm_start, tmp_path):
  generator = random.Random(1)
  overrides = 'num_steps=20', f'init_from={warm_start}'
  for least in (1, 6, 13):
    process = tiny_run.start_process(tmp_path, 'vpo', *overrides)
    wait_for_rows(process, tmp_path, least + generator.randrange(5))
    time.sleep(generator.random() / 50)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, 'It ended before it was killed.'
  process = tiny_run.start_process(tmp_path, 'vpo', *overrides)
  _, errors = process.communicate(timeout=300)
  assert process.returncode == 0, errors
  assert [row['step'] for row in rows(tmp_path)] == list(range(1, 21))
  assert without_time(rows(tmp_path)) == without_time(rows(finished))
  assert any(row['grad_norm'] for row in rows(tmp_path))  # There was something to learn.
  (step, state, meta), (expected_step, expected, expected_meta) = state_of(tmp_path), state_of(finished)
  assert step == expected_step == 20
  assert checkpoint.params_hash(state.params) == checkpoint.params_hash(expected.params)
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(state), jax.device_get(expected))
  assert without_time([meta]) == without_time([expected_meta])


def test_an_interrupted_run_saves_and_says_how_to_go_on(warm_start, tmp_path):
  process = tiny_run.start_process(tmp_path, 'vpo', 'num_steps=100000', f'init_from={warm_start}')
  wait_for_rows(process, tmp_path, 3)
  process.send_signal(signal.SIGINT)
  output, errors = process.communicate(timeout=300)
  assert process.returncode == 130, errors
  assert 'Traceback' not in errors
  step = len(rows(tmp_path))
  assert output.splitlines()[-1] == (f'Stopped by SIGINT after step {step}; the same command goes on from there. The '
                                     f'results so far are in {tmp_path}.')
  assert checkpoint.latest_step(tmp_path / 'checkpoints') == step


def test_sigterm_stops_after_the_step(monkeypatch, warm_start, tmp_path):
  write = logging.MetricsLog.write

  def writing(self, step, row):
    write(self, step, row)
    if step == 3:
      os.kill(os.getpid(), signal.SIGTERM)

  monkeypatch.setattr(logging.MetricsLog, 'write', writing)
  with pytest.raises(SystemExit) as stopped:
    train(tmp_path, settings('vpo', f'init_from={warm_start}'))
  assert stopped.value.code == 143
  assert len(rows(tmp_path)) == checkpoint.latest_step(tmp_path / 'checkpoints') == 3


def test_a_second_signal_does_not_wait():
  # A run in the background starts with Ctrl-C ignored, as does its test.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with train_lib._StopSignals() as stop:
      os.kill(os.getpid(), signal.SIGINT)
      assert stop.agreed() == signal.SIGINT
      with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  finally:
    signal.signal(signal.SIGINT, before)


def test_all_processes_stop_where_one_got_a_signal(monkeypatch):
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  for of_other, expected in ((signal.SIGTERM, signal.SIGTERM), (0, 0)):
    monkeypatch.setattr(train_lib.multihost_utils, 'process_allgather', lambda x, other=of_other: np.array([x, other]))
    assert train_lib._StopSignals().agreed() == expected


def test_a_finished_run_does_nothing_and_a_longer_one_goes_on(monkeypatch, capsys, copy, warm_start, tmp_path):
  before = (copy / 'metrics.jsonl').read_bytes()
  command = lambda steps: tiny_run.command(copy, 'vpo', f'num_steps={steps}', f'init_from={warm_start}')
  for steps in (20, 20, 7):  # A run that got further than it now should is finished, too.
    main(monkeypatch, *command(steps))
    assert capsys.readouterr().out.splitlines()[-1] == f'Trained to step 20. The results are in {copy}.'
    assert (copy / 'metrics.jsonl').read_bytes() == before
    assert checkpoint.latest_step(copy / 'checkpoints') == 20
  main(monkeypatch, *command(22))
  assert [row['step'] for row in rows(copy)] == list(range(1, 23))
  assert rows(copy)[:20] == [json.loads(line) for line in before.splitlines()]
  assert rows(copy)[21]['generated_tokens_total'] == sum(row['generated_tokens'] for row in rows(copy))


def test_a_token_budget_ends_a_run(warm_start, tmp_path):
  train(tmp_path, settings('vpo', f'init_from={warm_start}', 'token_budget=600'))
  totals = [row['generated_tokens_total'] for row in rows(tmp_path)]
  assert totals[-2] < 600 <= totals[-1]
  assert checkpoint.latest_step(tmp_path / 'checkpoints') == len(totals)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(monkeypatch, warm_start, tmp_path):
  sample = SampledAnswers.__call__

  def broken(self, params, step):
    batch, measured = sample(self, params, step)
    return batch.replace(advantages=batch.advantages * (np.nan if step == 3 else 1)), measured

  config_of_run = settings('vpo', f'init_from={warm_start}')
  with monkeypatch.context() as patch:
    patch.setattr(SampledAnswers, '__call__', broken)
    with pytest.raises(FloatingPointError, match=r'of step 4 is not finite.*the last checkpoint is of step 2'):
      train(tmp_path, config_of_run)
  assert checkpoint.latest_step(tmp_path / 'checkpoints') == 2 and len(rows(tmp_path)) == 3
  with np.load(tmp_path / 'not_finite_4.npz') as batch:
    assert np.isnan(batch['advantages']).all() and batch['tokens'].shape == (4, 8, 22)
  train(tmp_path, config_of_run)
  assert [row['step'] for row in rows(tmp_path)] == list(range(1, 7))


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')  # Of Orbax's writers, still at work.
def test_a_checkpoint_that_cannot_be_written_stops_the_run_and_leaves_the_one_before(
    monkeypatch, caplog, tmp_path):
  wide = 'model.d_ff=2048'  # Matrices of 128 KiB: of small ones it is chance how many Orbax packs into a file.
  old = resource.getrlimit(resource.RLIMIT_FSIZE)
  save = checkpoint.Checkpoints.save

  def filling_the_disk(self, step, *args):
    if step == 4:
      self.wait()
      resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, old[1]))  # As a full disk: writes past 16 KiB fail.
    save(self, step, *args)

  monkeypatch.setattr(checkpoint.Checkpoints, 'save', filling_the_disk)
  try:
    # Orbax logs more than fits into the file in which pytest catches it.
    with pytest.raises(RuntimeError, match='A checkpoint could not be saved in'), caplog.at_level(100, 'absl'):
      train(tmp_path, settings('vpo', 'init_from=', wide, 'checkpoints.keep=1', 'num_steps=7'))
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
  assert checkpoint.latest_step(tmp_path / 'checkpoints') == 2
  assert len(rows(tmp_path)) == 6  # It showed at the next save.
  assert state_of(tmp_path, 'vpo', wide)[0] == 2


def test_nothing_is_compiled_after_the_second_step(monkeypatch, warm_start, tmp_path):
  compiled, counts = [], []
  listener = lambda event, duration, **keywords: compiled.append(event) if 'backend_compile' in event else None
  write = logging.MetricsLog.write
  monkeypatch.setattr(
      logging.MetricsLog, 'write', lambda self, *args: (write(self, *args), counts.append(len(compiled))))
  jax.monitoring.register_event_duration_secs_listener(listener)
  try:
    train(tmp_path, settings('vpo', f'init_from={warm_start}'))
  finally:
    jax.monitoring.unregister_event_duration_listener(listener)
  assert counts[0] > 0 and counts[1:] == [counts[1]] * 5


def test_grpo_with_a_kl_term_holds_to_its_start_also_after_a_resume(warm_start, tmp_path):
  overrides = f'init_from={warm_start}', 'loss.kl_coef=0.1'
  train(tmp_path / 'whole', settings('grpo', *overrides, 'num_steps=4'))
  train(tmp_path / 'halves', settings('grpo', *overrides, 'num_steps=2'))
  train(tmp_path / 'halves', settings('grpo', *overrides, 'num_steps=4'))
  kls = [row['kl_reference'] for row in rows(tmp_path / 'whole')]
  assert kls[0] == 0 and min(kls[1:]) > 0
  assert without_time(rows(tmp_path / 'whole')) == without_time(rows(tmp_path / 'halves'))


def test_config_json_names_the_warm_start_and_another_one_is_refused(finished, copy, warm_start, tmp_path):
  _, start, _ = state_of(pathlib.Path(warm_start), 'warm_start')
  record = json.loads((finished / 'config.json').read_text())
  assert record['warm_start'] == checkpoint.params_hash(start.params)
  assert record['config']['num_steps'] == 20 and record['versions']['jax'] == jax.__version__
  longer = shutil.copytree(warm_start, tmp_path / 'longer')
  train(longer, settings('warm_start', 'num_steps=81'))
  shutil.rmtree(tmp_path / 'link', ignore_errors=True)
  content = json.loads((copy / 'config.json').read_text())
  content['config']['init_from'] = str(longer)
  (copy / 'config.json').write_text(json.dumps(content))
  with pytest.raises(ValueError, match='warm_start'):
    train(copy, settings('vpo', 'num_steps=20', f'init_from={longer}'))


def test_another_config_is_refused(monkeypatch, capsys, copy, warm_start):
  with pytest.raises(SystemExit) as end:
    main(monkeypatch, *tiny_run.command(
        copy, 'vpo', 'num_steps=20', f'init_from={warm_start}', 'optimizer.learning_rate=0.5'))
  assert end.value.code == 2
  assert 'optimizer.learning_rate: 0.01 in the workdir, 0.5 now' in capsys.readouterr().err
  assert len(rows(copy)) == 20


@pytest.mark.parametrize('override,rule', [
    ('num_stepz=3', 'config.num_stepz must be a field of the config; did you mean config.num_steps?'),
    ('num_steps=many', 'many'),
    ('num_steps=0', 'num_steps=0 must be at least 1.'),
    ('token_budget=-1', 'token_budget=-1 must be at least 0 (0: no limit).'),
    ('seed=-1', 'seed=-1 must lie in [0, 2**32).'),
    ('init_from=/nowhere', "init_from='/nowhere' must be the workdir of a training of the same model."),
    ('task.name=maze_smal', "name='maze_smal' must be one of maze_small"),
    ('task.budget=0', 'budget=0 must be at least 1.'),
    ('model.d_model=0', 'model.d_model=0 must be at least 1.'),
    ('model.num_kv_heads=3', 'model.num_heads=2 must be a multiple of model.num_kv_heads=3.'),
    ('experience.kind=luck', "experience.kind='luck' must be one of rollouts, demonstrations."),
    ('experience.num_answers=0', 'experience.prompts=4 and num_answers=0 must be at least 1.'),
    ('experience.rollouts=1', 'experience.rollouts=1 must be at least 2'),
    ('experience.temperature=0', 'experience.temperature=0.0 must be above 0 in training'),
    ('experience.advantage.name=vpoo', "name='vpoo' is no estimator. Did you mean vpo"),
    ('updates_per_batch=8', 'experience.prompts=4 must be at least updates_per_batch=8'),
    ('micro_batches=0', 'micro_batches=0 must be at least 1.'),
    ('loss.clip_low=2', 'loss.clip_low=2.0 must be at most 1'),
    ('loss.kl_kind=k9', "loss.kl_kind='k9' must be one of k1, k2, k3, low_var_kl."),
    ('optimizer.learning_rate=0', 'optimizer.learning_rate=0.0 must be above 0.'),
    ('mesh.data=3', "mesh sizes {'data': 3, 'fsdp': 1, 'tensor': 1} must multiply to the number of devices, 1."),
    ('mesh.tensor=0', 'mesh.tensor=0 must be at least 1, or -1 for what is left.'),
    ('checkpoints.every=0', 'every=0 must be at least 1.'),
    ('checkpoints.keep=0', 'keep=0 must be at least 1.')])
def test_a_mistake_is_one_line_before_training(monkeypatch, capsys, tmp_path, override, rule):
  with pytest.raises(SystemExit) as end:
    main(monkeypatch, *tiny_run.command(tmp_path, 'vpo', override))
  assert end.value.code == 2
  output, errors = capsys.readouterr()
  assert not output and len(errors.splitlines()) == 1 and errors.startswith('error: ') and rule in errors
  assert not (tmp_path / 'config.json').exists() and not (tmp_path / 'metrics.jsonl').exists()


def test_an_unknown_argument_and_a_missing_file_are_mistakes_too(monkeypatch, capsys, tmp_path):
  for arguments in (['--config', str(tiny_run.CONFIG) + ':vpo', '--workdir', str(tmp_path), '--wrkdir=x'],
                    ['--config', 'no_such.py', '--workdir', str(tmp_path)]):
    with pytest.raises(SystemExit) as end:
      main(monkeypatch, *arguments)
    assert end.value.code == 2
  assert 'no_such.py' in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
  def fault(workdir, settings):
    np.zeros((2, 3)).reshape(4)

  monkeypatch.setattr(train_lib, 'train', fault)
  with pytest.raises(ValueError, match='cannot reshape'):
    main(monkeypatch, *tiny_run.command('unused', 'vpo'))


@pytest.mark.parametrize('part,field', [
    ('task', 'name'), ('experience', 'kind'), ('experience', 'rollouts'), ('optimizer', 'b1'), ('loss', 'kl_kind'),
    ('model', 'd_ff'), ('checkpoints', 'keep'), (None, 'mesh')])
def test_a_missing_field_is_named(part, field):
  plain = config.plain(settings('vpo'))
  del (plain[part] if part else plain)[field]
  with pytest.raises(ValueError, match=f'{field}.* must be set|must have a name|experience.kind='):
    config.call(train_lib.make_run, plain, 'config')


def test_the_vocabulary_is_not_up_to_the_config():
  plain = config.plain(settings('vpo'))
  plain['model']['vocab_size'] = 7
  with pytest.raises(ValueError, match=r'model\.vocab_size=7 must be left out'):
    config.call(train_lib.make_run, plain, 'config')


def test_a_prompt_longer_than_the_budget_stops_before_training(monkeypatch, tmp_path):
  monkeypatch.setattr(tasks.TASKS['maze_small'], 'prompt_width', 3)
  with pytest.raises(ValueError, match=r'A prompt has 7 tokens, which must be 1 to task\.prompt_width=3'):
    train(tmp_path, settings('vpo'))
  assert not rows(tmp_path)


def test_a_stop_token_outside_the_vocabulary_stops_before_training(monkeypatch, tmp_path):
  monkeypatch.setattr(tasks.TASKS['maze_small'], 'stop_ids', (999,))
  with pytest.raises(ValueError, match=r'stop id 999 of .* must be a token of the vocabulary'):
    train(tmp_path, settings('vpo'))


def test_a_folder_that_cannot_be_written_or_is_too_full_is_named(monkeypatch, tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(ValueError, match=r'file/run.* must be writable'):
    train(tmp_path / 'file' / 'run', settings('vpo'))
  usage = shutil.disk_usage(tmp_path)._replace(free=1000)
  monkeypatch.setattr(shutil, 'disk_usage', lambda folder: usage)
  with pytest.raises(ValueError, match=r'must have 0\.00 GB free for checkpoints, but has 0\.00 GB'):
    train(tmp_path, settings('vpo'))
  assert not (tmp_path / 'config.json').exists()


def test_a_second_train_on_a_live_workdir_is_refused(tmp_path):
  with (logging.WorkdirLock(tmp_path), pytest.raises(ValueError, match=f'pid {os.getpid()}')):
    train(tmp_path, settings('vpo'))
