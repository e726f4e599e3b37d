"""Checkpoints of a training state: asynchronous, atomic, and strict about what they hold.

A folder holds one subfolder a step, written by Orbax under a temporary name and renamed when complete, so a killed
run leaves whole checkpoints and rubbish with a telling name, nothing between. Each has two items: `state`, an
arbitrary pytree of arrays, and `meta`, a JSON dict beside which the shape and dtype of every leaf is noted. A restore
compares that note with what the caller expects, because Orbax casts in silence (int32 16777217 read as float32 is
16777216).
"""

import hashlib
import shutil
import tempfile
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils
from orbax.checkpoint import checkpoint_managers

PyTree = Any


class Checkpoints:
  """The checkpoints of one run. Every process calls every method; Orbax decides who writes what."""

  def __init__(self, folder: str | epath.Path, *, every: int, keep: int):
    """Opens `folder`, makes it if it is missing, and clears what a killed run left half written.

    Args:
      folder: absolute or relative path, or an object store's address.
      every: steps between two saves, for `due`.
      keep: newest checkpoints kept. The one with the best score is kept besides.

    Raises:
      ValueError: `every` or `keep` is below 1.
    """
    if every < 1:
      raise ValueError(f'{every=} must be at least 1.')
    if keep < 1:
      raise ValueError(f'{keep=} must be at least 1.')
    self.folder = _absolute(folder)
    self.every = every
    self._manager = ocp.CheckpointManager(
        self.folder,
        options=ocp.CheckpointManagerOptions(
            preservation_policy=_NewestAndBest(keep),
            best_fn=lambda metrics: metrics['score'],  # Without it Orbax does not write the score.
            cleanup_tmp_directories=True,
        ),
    )

  def due(self, step: int) -> bool:
    """Whether the state after `step` updates should be saved."""
    return step > 0 and step % self.every == 0

  def save(self, step: int, state: PyTree, meta: dict, *, score: float | None = None) -> None:
    """Copies `state` to the host and writes it in the background; `state` may be donated after the call.

    Args:
      step: updates done so far; names the checkpoint.
      state: arrays, of any dtype and sharding; typed keys too.
      meta: JSON-able, handed back by `restore`.
      score: of these parameters, larger is better; the best scored checkpoint is never deleted.

    Raises:
      ValueError: the step is saved already.
      RuntimeError: an earlier save failed.
    """
    if step in self.steps():
      raise ValueError(f'{step=} must be new: {self.folder} has it already.')
    args = ocp.args.Composite(
        state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave({'leaves': _leaves(state), 'meta': meta}))
    self._raising(self._manager.save, step, args=args, metrics={'score': score}, force=True)

  def steps(self) -> list[int]:
    """Saved steps, ascending, those still being written included."""
    return sorted(self._manager.all_steps())

  def latest_step(self) -> int | None:
    """The newest saved step."""
    return self._manager.latest_step()

  def restore(self, abstract_state: PyTree, step: int | None = None) -> tuple[int, PyTree, dict]:
    """Reads a checkpoint into the shardings of `abstract_state`, on whatever mesh it was saved.

    Args:
      abstract_state: arrays or `jax.ShapeDtypeStruct`s; a leaf without sharding lands on the first local device.
      step: which; the newest by default.

    Returns:
      The step, the state, and the `meta` it was saved with.

    Raises:
      ValueError: there is no such checkpoint, it cannot be read, or a leaf differs in name, shape or dtype.
    """
    self.wait()
    step = _existing(self.folder, self.steps(), step)
    saved = _read_meta(self._manager, self.folder, step)
    _compare(saved['leaves'], _leaves(abstract_state), f'{self.folder}/{step}')
    target = jax.tree.map(_placed, abstract_state)
    state = _read(self._manager, self.folder, step, 'state', ocp.args.StandardRestore(target))
    return step, state, saved['meta']

  def wait(self) -> None:
    """Returns when everything is on disk; raises RuntimeError if a save failed."""
    self._raising(self._manager.wait_until_finished)

  def close(self) -> None:
    """Waits like `wait`, then ends the background threads."""
    self._raising(self._manager.close)

  def _raising(self, call, *args, **kwargs):
    try:
      return call(*args, **kwargs)
    except Exception as error:  # Tensorstore, Orbax and the system each have their own.
      raise RuntimeError(f'A checkpoint could not be saved in {self.folder}: {error}') from error

  def __enter__(self):
    return self

  def __exit__(self, *exc_info):
    self.close()


def latest_step(folder: str | epath.Path) -> int | None:
  """The newest complete checkpoint's step in `folder`; None if it holds none or does not exist."""
  folder = _absolute(folder)
  if not folder.exists():
    return None
  with _reader(folder) as manager:
    return manager.latest_step()


def restore_params(folder: str | epath.Path, abstract_params: PyTree, step: int | None = None) -> PyTree:
  """Reads only the parameters of a training checkpoint: no optimizer moments pass through memory.

  Args:
    folder: that of `Checkpoints`, whose states had `params` at their top.
    abstract_params: as `abstract_state` of `Checkpoints.restore`.
    step: which; the newest by default.

  Raises:
    ValueError: as `Checkpoints.restore`.
  """
  folder = _absolute(folder)
  with _reader(folder) as manager:
    step = _existing(folder, sorted(manager.all_steps()), step)
    saved = _read_meta(manager, folder, step)
    target = {'params': jax.tree.map(_placed, abstract_params)}
    of_params = {name: leaf for name, leaf in saved['leaves'].items() if name.split('/')[0] == 'params'}
    _compare(of_params, _leaves(target), f'{folder}/{step}')
    args = ocp.args.PyTreeRestore(
        target, restore_args=ocp.checkpoint_utils.construct_restore_args(target), partial_restore=True)
    return _read(manager, folder, step, 'state', args)['params']


def restore_meta(folder: str | epath.Path, step: int | None = None) -> tuple[int, dict]:
  """The step and the `meta` of a checkpoint, the newest by default; errors as `Checkpoints.restore`."""
  folder = _absolute(folder)
  with _reader(folder) as manager:
    step = _existing(folder, sorted(manager.all_steps()), step)
    return step, _read_meta(manager, folder, step)['meta']


def params_hash(params: PyTree) -> str:
  """SHA-256 over the names, dtypes, shapes and bytes of `params`; the same for every sharding and host count."""
  digest = hashlib.sha256()
  for name, leaf in _named(params):
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
      leaf = multihost_utils.process_allgather(leaf, tiled=True)
    value = np.ascontiguousarray(leaf)
    digest.update(f'{name} {value.dtype} {np.shape(leaf)}\n'.encode())
    digest.update(value.view(np.uint8))
  return digest.hexdigest()


def estimated_bytes(state: PyTree) -> int:
  """Bytes a checkpoint of `state`, concrete or abstract, takes before compression."""
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def require_space(folder: str | epath.Path, needed: int) -> None:
  """Makes `folder` and checks that it can take `needed` bytes; object stores are trusted.

  Raises:
    ValueError: the folder cannot be written, or its disk has less free space.
  """
  folder = _absolute(folder)
  if '://' in str(folder):
    return
  try:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder):
      pass
  except OSError as error:
    raise ValueError(f'folder={str(folder)!r} must be writable: {error}.') from error
  free = shutil.disk_usage(folder).free
  if free < needed:
    raise ValueError(f'folder={str(folder)!r} must have {needed / 1e9:.2f} GB free for checkpoints, '
                     f'but has {free / 1e9:.2f} GB.')


class _NewestAndBest(checkpoint_managers.PreservationPolicy):
  """Preserves the newest `keep` checkpoints and the best scored one.

  Orbax's own way of keeping the best deletes the newest when the score falls, and with it the way to resume.
  """

  def __init__(self, keep: int):
    self.keep = keep

  def should_preserve(self, checkpoints, *, context):
    del context
    preserved = [position >= len(checkpoints) - self.keep for position in range(len(checkpoints))]
    scores = [(info.metrics or {}).get('score') for info in checkpoints]
    scored = [position for position, score in enumerate(scores) if score is not None and score == score]
    if scored:
      preserved[max(scored, key=lambda position: scores[position])] = True
    return preserved


def _absolute(folder: str | epath.Path) -> epath.Path:
  """`folder` as Orbax wants it."""
  folder = epath.Path(folder)
  return folder if '://' in str(folder) else folder.expanduser().absolute()


def _reader(folder: epath.Path) -> ocp.CheckpointManager:
  """A manager that changes nothing in `folder`; ValueError if it is not there."""
  if not folder.exists():
    raise ValueError(f'folder={str(folder)!r} must hold checkpoints, but does not exist.')
  for attempt in range(10):
    try:
      return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(create=False))
    except (FileNotFoundError, NotADirectoryError):  # A live run deleted an old checkpoint while Orbax listed them.
      if attempt == 9:
        raise


def _named(tree: PyTree) -> list[tuple[str, Any]]:
  """`(name, leaf)` of every leaf, named like `params/layers/query`."""
  flat, _ = jax.tree.flatten_with_path(tree)
  return [(jax.tree_util.keystr(path, simple=True, separator='/'), leaf) for path, leaf in flat]


def _leaves(tree: PyTree) -> dict[str, str]:
  """The note on every leaf, such as `float32[4,3]`, by name."""
  return {name: f'{leaf.dtype}[{",".join(map(str, leaf.shape))}]' for name, leaf in _named(tree)}


def _compare(saved: dict[str, str], wanted: dict[str, str], where: str) -> None:
  """Raises ValueError naming the first leaf that was saved otherwise than it is wanted."""
  for name in [*wanted, *saved]:
    if saved.get(name) != wanted.get(name):
      raise ValueError(f'Checkpoint {where} does not fit: leaf {name!r} is {saved.get(name, "absent")} there '
                       f'and must be {wanted.get(name, "absent")}.')


def _placed(leaf) -> jax.ShapeDtypeStruct:
  """`leaf` with a sharding, so that Orbax does not fall back on the mesh it was saved from."""
  sharding = getattr(leaf, 'sharding', None) or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _existing(folder: epath.Path, steps: list[int], step: int | None) -> int:
  """`step`, or the newest; ValueError if `folder` lacks it."""
  if not steps:
    raise ValueError(f'folder={str(folder)!r} must hold a complete checkpoint, but holds none.')
  if step is not None and step not in steps:
    raise ValueError(f'{step=} must be one of the steps saved in {folder}: {steps}.')
  return steps[-1] if step is None else step


def _read(manager: ocp.CheckpointManager, folder: epath.Path, step: int, item: str, args) -> Any:
  """One item of a checkpoint; ValueError if it cannot be read."""
  try:
    return manager.restore(step, args=ocp.args.Composite(**{item: args}))[item]
  except Exception as error:  # A broken file shows as any of a dozen types, by where it is broken.
    raise ValueError(f'Checkpoint {folder}/{step} cannot be read ({item}): {error}\n'
                     f'Delete that folder to go on from an older one.') from error


def _read_meta(manager: ocp.CheckpointManager, folder: epath.Path, step: int) -> dict:
  """The meta item with its note on the leaves; ValueError if another program wrote the checkpoint."""
  saved = _read(manager, folder, step, 'meta', ocp.args.JsonRestore())
  if not isinstance(saved, dict) or set(saved) != {'leaves', 'meta'}:
    raise ValueError(f'Checkpoint {folder}/{step} was not written by vpo_jax: its meta lacks the list of leaves.')
  return saved
