"""Trainings that take seconds, in this process on one device or in processes of their own, for tests."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import jax
import pytest

from vpo_jax import config
from vpo_jax.train import make_run, train

ROOT = pathlib.Path(__file__).parents[1]
CONFIG = ROOT / 'tests' / 'tiny_config.py'


@contextlib.contextmanager
def devices(count):
  """What a training in this process sees: the first so many devices."""
  first = jax.local_devices()[:count]
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(jax, 'devices', lambda *backend: first)
    yield


def settings(kind, *overrides):
  """The config of a kind of `tiny_config`, with `field=value` overrides."""
  return config.load(f'{CONFIG}:{kind}', [f'--config.{override}' for override in overrides])


def run_of(kind, *overrides):
  """The parts of a training."""
  return make_run(**config.plain(settings(kind, *overrides)))


def warm_start(folder):
  """Trains the start of the other runs; returns its workdir as text."""
  with devices(1):
    train(folder, settings('warm_start'))
  return str(folder)


def command(workdir, kind, *overrides):
  """Arguments of `train`, and of Python to run it."""
  return ['--config', f'{CONFIG}:{kind}', '--workdir', str(workdir), *(f'--config.{field}' for field in overrides)]


def start_process(workdir, kind, *overrides):
  """A running `python -m vpo_jax.train`, on one device."""
  return subprocess.Popen(
      [sys.executable, '-m', 'vpo_jax.train', *command(workdir, kind, *overrides)], cwd=ROOT, text=True,
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {'PYTHONPATH': str(ROOT)})


def rows(workdir):
  """The lines of `metrics.jsonl`."""
  path = pathlib.Path(workdir) / 'metrics.jsonl'
  return [json.loads(line) for line in path.read_text().splitlines()]


def without_time(rows):
  """Rows without the fields that no second run repeats."""
  return [{name: value for name, value in row.items() if 'seconds' not in name} for row in rows]
