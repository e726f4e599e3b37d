"""Meshes, partition rules, and moving arrays between the learner's layout and the rollout's."""

import functools

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vpo_jax.models import transformer

AXES = ('data', 'fsdp', 'tensor')
BATCH = P(('data', 'fsdp'))  # Prompts are split over both; parameters over the second and third.

# The one table from a parameter's logical axes to mesh axes.
RULES = {
    'vocab': 'tensor',
    'embed': 'fsdp',
    'heads': 'tensor',
    'kv_heads': 'tensor',
    'head_dim': None,
    'mlp': 'tensor',
    'norm': None,
    'layers': None,
}


def make_mesh(*, data: int = -1, fsdp: int = 1, tensor: int = 1, devices=None) -> Mesh:
  """Arranges the devices as `data × fsdp × tensor`; one of the sizes may be -1 and takes what is left.

  Raises:
    ValueError: the sizes do not multiply to the number of devices, or processes cannot share out the prompts evenly.
  """
  devices = list(devices if devices is not None else jax.devices())
  sizes = {'data': data, 'fsdp': fsdp, 'tensor': tensor}
  for name, size in sizes.items():
    if size == 0 or size < -1:
      raise ValueError(f'mesh.{name}={size} must be at least 1, or -1 for what is left.')
  if list(sizes.values()).count(-1) > 1:
    raise ValueError(f'mesh={sizes} may leave one size open (-1), not several.')
  known = int(np.prod([s for s in sizes.values() if s > 0]))
  sizes = {k: len(devices) // known if s == -1 else s for k, s in sizes.items()}
  if int(np.prod(list(sizes.values()))) != len(devices):
    raise ValueError(f'mesh sizes {sizes} must multiply to the number of devices, {len(devices)}.')
  rows, processes = sizes['data'] * sizes['fsdp'], len({d.process_index for d in devices})
  if rows % processes and processes % rows:
    raise ValueError(f'mesh sizes {sizes} must let data × fsdp = {rows} divide {processes} processes or be a multiple.')
  return jax.make_mesh(tuple(sizes.values()), AXES, devices=devices, axis_types=(AxisType.Auto,) * 3)


def param_shardings(params, mesh: Mesh):
  """Shardings of a parameter tree, or of any tree that holds such trees under other names (an optimiser's state).

  A leaf is recognised by the last of its path that names a parameter and by its rank; everything else (counters) is
  replicated. An axis that a mesh axis does not divide stays whole.
  """
  names = _flat_axes(transformer.LOGICAL_AXES)

  def sharding(path, leaf):
    axes = names.get(_param_name(path))
    if axes is None or len(axes) != leaf.ndim:
      return NamedSharding(mesh, P())
    spec = [RULES[a] if RULES[a] and size % mesh.shape[RULES[a]] == 0 else None
            for a, size in zip(axes, leaf.shape, strict=True)]
    return NamedSharding(mesh, P(*spec))

  return jax.tree_util.tree_map_with_path(sharding, params)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Axis 0, the prompts, split over the mesh axes `data` and `fsdp`."""
  return NamedSharding(mesh, BATCH)


def to_mesh(tree, mesh: Mesh):
  """Places this process's rows `[U_local, ..]` of every array in the global batch, split by prompts.

  Every array of a tree gets its rows in the same order; on which process's devices a row lies is the mesh's matter.
  """
  sharding = batch_sharding(mesh)
  if all(len({d.process_index for d in sharers}) == 1 for sharers in mesh.devices.reshape(-1, mesh.shape['tensor'])):
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), tree)
  # Devices of several processes hold the same rows, so each process needs rows of the others.
  from jax.experimental import multihost_utils
  whole = multihost_utils.process_allgather(jax.tree.map(np.asarray, tree), tiled=True)
  return jax.tree.map(lambda x: jax.make_array_from_callback(x.shape, sharding, lambda index: x[index]), whole)


def replicate_local(params, mesh: Mesh, devices: list):
  """Copies of mesh-sharded parameters with a leading axis over this process's `devices`: the way into `pmap`."""
  copies = _replicate(mesh)(params)
  local = NamedSharding(Mesh(np.array(devices), ('device',)), P('device'))

  def on_local_devices(x):
    by_device = {s.device: s.data for s in x.addressable_shards}
    return jax.make_array_from_single_device_arrays(
        (len(devices), *x.shape[1:]), local, [by_device[d] for d in devices])

  return jax.tree.map(on_local_devices, copies)


def to_host(tree):
  """Numpy copies of global arrays on every process, whatever their sharding and the number of processes.

  A global array is one that all processes hold together, as `to_mesh` and the learner make them.
  """
  if jax.process_count() == 1:
    return jax.device_get(tree)
  from jax.experimental import multihost_utils
  return multihost_utils.process_allgather(tree, tiled=True)


@functools.cache
def _replicate(mesh):
  n = mesh.devices.size
  flat = NamedSharding(Mesh(mesh.devices.reshape(-1), ('device',)), P('device'))
  copy = lambda x: jax.numpy.broadcast_to(x[None], (n, *x.shape))
  return jax.jit(lambda tree: jax.tree.map(copy, tree), out_shardings=flat)


def _param_name(path):
  """`layers/q` of a path that ends in it, `embedding` of one that ends in that, or the last key."""
  keys = [str(getattr(k, 'key', getattr(k, 'name', getattr(k, 'idx', '')))) for k in path]
  return '/'.join(keys[-2:]) if len(keys) > 1 and keys[-2] == 'layers' else keys[-1] if keys else ''


def _flat_axes(tree):
  flat = {}
  for key, value in tree.items():
    flat.update({f'{key}/{k}': v for k, v in value.items()} if isinstance(value, dict) else {key: value})
  return flat
