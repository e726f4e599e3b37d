"""Two processes over loopback do together what one process of as many devices does."""

import os
import pathlib
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests import two_processes
from tests.replay import assert_replays
from tests.tiny_model import random_params


@pytest.fixture(scope='module')
def found(tmp_path_factory):
  """What each of the two processes wrote."""
  folder = tmp_path_factory.mktemp('processes')
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    port = probe.getsockname()[1]
  paths = [folder / f'{i}.npz' for i in range(2)]
  env = os.environ | {'JAX_NUM_CPU_DEVICES': '2', 'JAX_NUMPY_RANK_PROMOTION': 'raise'}
  running = [
      subprocess.Popen(
          [sys.executable, '-m', 'tests.two_processes', str(port), str(i), str(path)], env=env,
          cwd=pathlib.Path(__file__).parents[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
      for i, path in enumerate(paths)]
  try:
    for process in running:
      output, _ = process.communicate(timeout=500)
      assert process.returncode == 0, output[-3000:]
  finally:
    for process in running:
      process.kill()
      process.communicate()
  return [dict(np.load(path)) for path in paths]


def test_rollouts_of_both_are_those_of_one_process(found):
  params, devices = random_params(two_processes.CONFIG), jax.local_devices()[:4]
  expected = two_processes.sample(two_processes.on_mesh(params, devices)[1], devices, slice(0, 8))
  actual = expected.replace(**{
      name: np.concatenate([process[f'rollouts/{name}'] for process in found]) for name in vars(expected)})
  assert_replays(actual, params, two_processes.CONFIG, *two_processes.batch(), two_processes.SAMPLING,
                 seed=two_processes.SEED, step=two_processes.STEP)
  assert (actual.tokens == expected.tokens).all(-1).mean() > .9  # Both right where two tokens are nearly tied.


def test_sharded_parameters_reach_every_device_and_host(found):
  for process in found:
    assert process['gathered'].all() and process['copied'].all()
    assert len(process['copied']) == 2 * len(process['gathered'])  # On two devices.


@pytest.mark.parametrize('mesh', two_processes.MESHES)
def test_batch_holds_the_rows_of_both(found, mesh):
  for process in found:
    numbers = process[f'{mesh}/number']
    np.testing.assert_array_equal(np.sort(numbers), np.arange(8))
    np.testing.assert_array_equal(process[f'{mesh}/even'], numbers % 2 == 0)  # All arrays in one order.
    np.testing.assert_array_equal(process[f'{mesh}/square'], np.tile(numbers[:, None] ** 2, (1, 3)))
    assert process[f'{mesh}/sum'] == 140  # 0 + 1 + 4 + .. + 49
    sizes = two_processes.MESHES[mesh]
    rows = 8 // (sizes['data'] * sizes.get('fsdp', 1))
    np.testing.assert_array_equal(process[f'{mesh}/rows_a_device'], [rows, rows])
