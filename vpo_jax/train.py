r"""Trains a policy, by reinforcement or from demonstrations; a second run on the same workdir goes on where it stopped.

  python -m vpo_jax.train --config experiments/maze_small/vpo.py --workdir runs/vpo --config.seed=1

What a step learns from is in `experience.py`, the update in `learner.py`; here is the loop that joins them.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
from etils import epath
from jax.experimental import multihost_utils

from vpo_jax import checkpoint, config, logging, partition, tasks
from vpo_jax.experience import Demonstrations, SampledAnswers
from vpo_jax.learner import Learner, LossSettings, TrainState, adamw
from vpo_jax.models.config import ModelConfig

EXPERIENCES = {'rollouts': SampledAnswers, 'demonstrations': Demonstrations}

# A finished or stopped run may be prolonged, and evaluated otherwise: these do not change what a step computes.
MAY_CHANGE = ('num_steps', 'token_budget', 'checkpoints.every', 'checkpoints.keep', 'eval')

# Beside the bar.
SHOWN = ('loss', 'reward/scalar', 'success', 'diversity_l1_valid', 'entropy')


def train(workdir: epath.PathLike, settings) -> TrainState:
  """Runs the training that `settings` describe, from the last complete checkpoint of `workdir` if it has one.

  Args:
    workdir: folder of `config.json`, `metrics.jsonl` and `checkpoints/`.
    settings: locked config, from `config.load`.

  Returns:
    The final state.

  Raises:
    ValueError: a setting is out of its range, or the workdir belongs to another config; nothing was trained.
    FloatingPointError: a loss was not finite; the last checkpoint is kept and the batch saved beside it.
    RuntimeError: a checkpoint could not be written; the last complete one is kept.
  """
  workdir = epath.Path(workdir)
  run = config.call(make_run, config.plain(settings), 'config')
  checkpoint.require_space(workdir, (run.keep + 1) * checkpoint.estimated_bytes(run.learner.abstract_state))
  with contextlib.ExitStack() as stack:
    stack.enter_context(logging.WorkdirLock(workdir))
    saved = stack.enter_context(checkpoint.Checkpoints(workdir / 'checkpoints', every=run.every, keep=run.keep))
    start_params, warm_start = starting_params(run)
    _write_or_compare_config(workdir, config.record(settings, warm_start=warm_start))
    reference = run.learner.start(start_params).params if run.learner.loss.kl_coef else None
    if saved.latest_step() is None:
      done, state, totals = 0, run.learner.start(start_params), {}
    else:
      done, state, totals = saved.restore(run.learner.abstract_state)
    del start_params
    log = stack.enter_context(logging.MetricsLog(workdir, restored_step=done or None))
    progress = stack.enter_context(contextlib.closing(logging.Progress(run.num_steps, first_step=done)))
    stop = stack.enter_context(_StopSignals())
    if run.unfinished(done, totals):
      run.experience.warm_up(state.params)
    clock, stopped_by = _Clock(), 0

    while run.unfinished(done, totals):
      batch, measured = run.experience(state.params, done)
      state, metrics = run.learner.learn(state, reference, batch, run.temperature)
      row = jax.device_get(measured | metrics)
      if not row.pop('finite'):
        path = _save_batch(workdir, batch, done)
        raise FloatingPointError(f'The loss or gradient of step {done + 1} is not finite: {row["loss"]=}, '
                                 f'{row["grad_norm"]=}. Its batch is in {path}; the last checkpoint is of step '
                                 f'{saved.latest_step()}.')
      done += 1
      totals = {f'{name}_total': totals.get(f'{name}_total', 0) + value
                for name, value in {'generated_tokens': int(row.get('generated_tokens', 0)), **clock.lap()}.items()}
      log.write(done, row | totals)
      progress.update(done, tokens=int(row['tokens']), **{k: row[k] for k in SHOWN if k in row})
      if saved.due(done):
        saved.save(done, state, totals)
        log.sync()
      stopped_by = stop.agreed()
      if stopped_by:
        break

    if done and saved.latest_step() != done:
      saved.save(done, state, totals)
    saved.wait()
  if stopped_by:
    print(f'Stopped by {signal.Signals(stopped_by).name} after step {done}; the same command goes on from there. The '
          f'results so far are in {workdir}.')
    raise SystemExit(128 + stopped_by)
  print(f'Trained to step {done}. The results are in {workdir}.')
  return state


@dataclasses.dataclass(frozen=True)
class Run:
  """The parts of a training, made from a config and checked, before anything is compiled.

  Attributes:
    learner: state and update.
    experience: `(params, step) -> (batch, what to log)`.
    seed: of the parameters, where none are given.
    init_from: workdir whose last checkpoint gives the first parameters; '' for fresh ones.
    temperature: of the sampler and of the learner's log-probs.
    num_steps: the run ends after as many steps,
    token_budget: or as many generated tokens, whichever comes first; 0 for no limit.
    every: steps between two checkpoints.
    keep: newest checkpoints kept.
  """

  learner: Learner
  experience: Callable
  seed: int
  init_from: str
  temperature: float
  num_steps: int
  token_budget: int
  every: int
  keep: int

  def unfinished(self, done: int, totals: dict) -> bool:
    """Whether another step follows `done` ones."""
    spent = self.token_budget and totals.get('generated_tokens_total', 0) >= self.token_budget
    return done < self.num_steps and not spent


def make_run(*, seed, task, model, init_from, num_steps, token_budget, experience, loss, optimizer, mesh, micro_batches,
             updates_per_batch, checkpoints, eval) -> Run:
  """Makes and checks the parts; every field of a training config is a keyword here or in what this calls."""
  del eval  # Of `evaluate`.
  if num_steps < 1:
    raise ValueError(f'{num_steps=} must be at least 1.')
  if token_budget < 0:
    raise ValueError(f'{token_budget=} must be at least 0 (0: no limit).')
  if not 0 <= seed < 2**32:
    raise ValueError(f'{seed=} must lie in [0, 2**32).')
  task = make_task(task)
  learner = Learner(
      make_model(task, model), config.call(adamw, optimizer, 'optimizer'), config.call(LossSettings, loss, 'loss'),
      config.call(partition.make_mesh, mesh, 'mesh'), micro_batches=micro_batches, updates_per_batch=updates_per_batch)
  experience = dict(experience)
  kind = experience.pop('kind', '')
  if kind not in EXPERIENCES:
    raise ValueError(f'experience.{kind=} must be one of {", ".join(EXPERIENCES)}.')
  fixed = dict(task=task, learner=learner, seed=seed)
  return Run(
      learner=learner, experience=config.call(EXPERIENCES[kind], fixed | experience, 'experience'), seed=seed,
      init_from=init_from, temperature=experience.get('temperature', 1.0), num_steps=num_steps,
      token_budget=token_budget, **config.call(_checkpoint_fields, checkpoints, 'checkpoints'))


def _checkpoint_fields(*, every: int, keep: int) -> dict[str, int]:
  return {'every': every, 'keep': keep}


def make_task(settings: dict):
  """The task of a config's `task` part."""
  if 'name' not in settings:
    raise ValueError(f'task={settings} must have a name, one of {", ".join(tasks.TASKS)}.')
  return tasks.make(**settings)


def make_model(task, settings: dict) -> ModelConfig:
  """The model's sizes, with the vocabulary of the task."""
  if 'vocab_size' in settings:
    raise ValueError(f'model.vocab_size={settings["vocab_size"]} must be left out: it is that of the task, '
                     f'{task.vocab_size}.')
  return config.call(ModelConfig, dict(settings) | {'vocab_size': task.vocab_size}, 'model')


def starting_params(run: Run) -> tuple[dict, str]:
  """Parameters that a run starts from, and their hash; fresh ones have the hash ''."""
  if not run.init_from:
    return run.learner.init(run.seed).params, ''
  try:
    params = checkpoint.restore_params(
        epath.Path(run.init_from) / 'checkpoints', run.learner.abstract_state.params)
  except ValueError as error:
    raise ValueError(f'init_from={run.init_from!r} must be the workdir of a training of the same model. {error}'
                     ) from error
  return params, checkpoint.params_hash(params)


def _write_or_compare_config(workdir, record):
  path = workdir / 'config.json'
  if not path.exists():
    logging.write_json(path, record)
    return
  for warning in config.require_same_run(json.loads(path.read_text()), record, may_change=MAY_CHANGE):
    print(warning)


def _save_batch(workdir, batch, step):
  path = workdir / f'not_finite_{step + 1}.npz'
  arrays = {name: value for name, value in vars(partition.to_host(batch)).items() if value is not None}
  buffer = io.BytesIO()
  np.savez_compressed(buffer, **arrays)
  logging.write_bytes(path, buffer.getvalue())
  return path


class _StopSignals(contextlib.AbstractContextManager):
  """Notes Ctrl-C and SIGTERM so that the loop can save after its step; a second one ends at once."""

  def __init__(self):
    self.received = 0

  def agreed(self) -> int:
    """The signal that any process got, 0 for none. All ask after the same step, so that all stop after the same one."""
    if jax.process_count() == 1:
      return self.received
    return int(multihost_utils.process_allgather(np.int32(self.received)).max())

  def __enter__(self):
    self._old = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
    return self

  def __exit__(self, *exc_info):
    for number, handler in self._old.items():
      signal.signal(number, handler)

  def _note(self, number, frame):
    if self.received:
      self.__exit__()
      os.kill(os.getpid(), number)
    self.received = number


class _Clock:
  """Seconds since the last lap, by the wall and of this process's CPU."""

  def __init__(self):
    self._last = time.monotonic(), time.process_time()

  def lap(self) -> dict[str, float]:
    now = time.monotonic(), time.process_time()
    seconds, cpu_seconds = now[0] - self._last[0], now[1] - self._last[1]
    self._last = now
    return {'seconds': seconds, 'cpu_seconds': cpu_seconds}


@contextlib.contextmanager
def mistakes_in_one_line():
  """Ends the command with status 2 and one line where a setting is wrong; anything else keeps its traceback."""
  try:
    yield
  except ValueError as error:
    frame = error.__traceback__
    while frame.tb_next:
      frame = frame.tb_next
    # This package refuses settings by name; a ValueError from deeper down is a fault of ours, told by its frames.
    if not frame.tb_frame.f_globals['__name__'].startswith(('vpo_jax', '__main__')):
      raise
    print(f'error: {error}', file=sys.stderr)
    raise SystemExit(2) from error


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m vpo_jax.train', description='Trains a policy.')
  parser.add_argument('--config', required=True, help='a Python file that defines get_config()')
  parser.add_argument('--workdir', required=True, help='folder of the results; an existing run goes on')
  arguments, overrides = parser.parse_known_args()
  with mistakes_in_one_line():
    train(arguments.workdir, config.load(arguments.config, overrides))


if __name__ == '__main__':
  main()
