"""What one of two processes of two devices each does in `two_processes_test.py`: `python -m tests.two_processes ..`.

Arguments: the coordinator's port, this process's index, and the file that the results go to.
"""

import dataclasses
import sys

import jax
import numpy as np

from tests.tiny_model import CONFIG, random_params
from vpo_jax import partition
from vpo_jax.rollout import RolloutLoop
from vpo_jax.sampling.logits import sampling_params

CONFIG = dataclasses.replace(CONFIG, num_layers=1)
SAMPLING = sampling_params(vocab_size=13, stop_ids=(0, 5, 8))
SEED, STEP = 3, 2
MESHES = {'data': dict(data=4), 'fsdp': dict(data=2, fsdp=2), 'tensor': dict(data=2, tensor=2),
          'crossing': dict(data=1, tensor=4)}  # The last splits heads over both processes, so they share all rows.


def batch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The prompts, lengths and requests of a whole step."""
  rng = np.random.default_rng(0)
  return rng.integers(13, size=(8, 5)).astype(np.int32), rng.integers(1, 6, 8), np.arange(24).reshape(8, 3)


def on_mesh(params, devices: list) -> tuple[dict, dict]:
  """The parameters split over a mesh of all devices, and copied whole to each of this process's `devices`."""
  mesh = partition.make_mesh(data=-1, fsdp=2, devices=devices if jax.process_count() == 1 else None)
  place = lambda x, sharding: jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
  sharded = jax.tree.map(place, params, partition.param_shardings(params, mesh))
  return sharded, partition.replicate_local(sharded, mesh, devices)


def sample(local, devices: list, rows: slice):
  """Rollouts of some of the prompts, two prompts a device."""
  loop = RolloutLoop(CONFIG, max_new_tokens=6, segments=2, devices=devices)
  prompts, lengths, requests = (x[rows] for x in batch())
  return loop(local, prompts, lengths, requests, SAMPLING, seed=SEED, step=STEP)


def main(port: str, index: str, path: str) -> None:
  """Writes everything that the test looks at."""
  jax.distributed.initialize(f'127.0.0.1:{port}', num_processes=2, process_id=int(index))
  assert (jax.process_count(), jax.local_device_count(), jax.device_count()) == (2, 2, 4)
  first, found = 4 * int(index), {}
  for name, sizes in MESHES.items():
    rows = {'number': np.arange(first, first + 4, dtype=np.int32), 'even': np.arange(first, first + 4) % 2 == 0,
            'square': np.arange(first, first + 4, dtype=np.float32)[:, None] ** 2 + np.zeros(3, np.float32)}
    placed = partition.to_mesh(rows, partition.make_mesh(**sizes))
    found |= {f'{name}/{field}': x for field, x in partition.to_host(placed).items()}
    found[f'{name}/sum'] = jax.device_get(jax.jit(lambda x: (x**2).sum())(placed['number']))
    found[f'{name}/rows_a_device'] = [len(s.data) for s in placed['number'].addressable_shards]
  params, devices = random_params(CONFIG), jax.local_devices()
  sharded, local = on_mesh(params, devices)
  found['gathered'] = jax.tree.leaves(jax.tree.map(np.array_equal, params, partition.to_host(sharded)))
  found['copied'] = jax.tree.leaves(jax.tree.map(
      lambda x, copies: [np.array_equal(s.data, x[None]) for s in copies.addressable_shards], params, local))
  # Last, since Gloo gives up when one process comes 30 seconds after the other, and these compile longest.
  rollouts = sample(local, devices, slice(first, first + 4))
  np.savez(path, **found, **{f'rollouts/{name}': x for name, x in vars(rollouts).items()})


if __name__ == '__main__':
  main(*sys.argv[1:])
