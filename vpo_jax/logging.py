"""What a run writes about itself: rows of metrics, a progress bar, and the lock that keeps two runs apart.

`metrics.jsonl` is the record; TensorBoard and the bar show the same numbers and may fail without harm.
Process 0 writes; in the others every call does nothing.
"""

import atexit
import contextlib
import datetime
import fcntl
import json
import math
import os
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

import jax
import numpy as np
import tqdm
from etils import epath


class MetricsLog:
  """Rows of `metrics.jsonl` in a workdir, and their copy in `tensorboard/`."""

  def __init__(self, workdir: str | epath.Path, *, restored_step: int | None = None):
    """Opens the log of a new run, or that of a resumed one without what came after its checkpoint.

    Args:
      workdir: a folder, or an object store's address; there the rows are kept locally until `sync`.
      restored_step: step of the restored checkpoint; rows of later steps are dropped. None drops all.

    Raises:
      ValueError: a line other than the last is not a JSON object with a step.
    """
    self._writes = jax.process_index() == 0
    if not self._writes:
      return
    workdir = epath.Path(workdir)
    self._path = workdir / 'metrics.jsonl'
    self._remote = is_remote(workdir)
    if self._remote:
      self._local = epath.Path(tempfile.mkdtemp(prefix='metrics-')) / 'metrics.jsonl'
    else:
      workdir.mkdir(parents=True, exist_ok=True)
      self._local = self._path
    kept = b''
    if restored_step is not None and self._path.exists():
      kept = _rows_until(self._path.read_bytes(), restored_step, self._path)
    write_bytes(self._local, kept)
    self._file = open(self._local, 'a')  # noqa: SIM115 (closed by `close`)
    self._tensorboard = _TensorBoard(workdir / 'tensorboard', restored_step)

  def write(self, step: int, row: Mapping[str, Any]) -> None:
    """Appends one row and flushes it.

    Args:
      step: updates done.
      row: numbers, strings, or lists of them, by name; NaN and infinities become null.
    """
    if not self._writes:
      return
    row = jsonable({'step': step, **row})
    self._file.write(json.dumps(row, allow_nan=False) + '\n')
    self._file.flush()
    self._tensorboard.write(step, row)

  def sync(self) -> None:
    """Makes the rows outlast a crash: flushes to disk, or uploads the whole file. Call it at each checkpoint."""
    if not self._writes:
      return
    os.fsync(self._file.fileno())
    if self._remote:
      write_bytes(self._path, self._local.read_bytes())

  def close(self) -> None:
    """Syncs and closes."""
    if not self._writes or self._file.closed:
      return
    self.sync()
    self._file.close()
    self._tensorboard.close()

  def __enter__(self):
    return self

  def __exit__(self, *exc_info):
    self.close()


class Progress:
  """A bar on a terminal, or a line now and then where nobody watches; both on stderr."""

  def __init__(self, num_steps: int, *, first_step: int = 0, seconds_between_lines: float = 30.,
               stream: TextIO | None = None):
    """Starts the clock.

    Args:
      num_steps: steps of the whole run.
      first_step: steps done before, by the run that is resumed.
      seconds_between_lines: for a stream that is no terminal.
      stream: stderr by default.
    """
    self._writes = jax.process_index() == 0
    self._stream = stream or sys.stderr
    self._num_steps, self._first_step, self._step = num_steps, first_step, first_step
    self._tokens = 0
    self._every = seconds_between_lines
    self._start = time.monotonic()
    self._last_line = -math.inf
    self._bar = None
    if self._writes and self._stream.isatty():
      self._bar = tqdm.tqdm(total=num_steps, initial=first_step, file=self._stream, unit='step', dynamic_ncols=True)

  def update(self, step: int, *, tokens: int, **shown: float) -> None:
    """Shows that `step` steps are done, the last of which took `tokens` tokens, and a few numbers by name."""
    if not self._writes:
      return
    self._tokens += tokens
    now = time.monotonic()
    shown_text = ' '.join(f'{name} {float(value):.4g}' for name, value in shown.items())
    per_second = self._tokens / max(now - self._start, 1e-9)
    if self._bar is not None:
      self._bar.set_postfix_str(f'{per_second:,.0f} tokens/s {shown_text}', refresh=False)
      self._bar.update(step - self._step)
    elif now - self._last_line >= self._every or step >= self._num_steps:
      left = (now - self._start) / max(step - self._first_step, 1) * (self._num_steps - step)
      print(f'step {step}/{self._num_steps} {per_second:,.0f} tokens/s, {datetime.timedelta(seconds=round(left))} left '
            f'{shown_text}', file=self._stream, flush=True)
      self._last_line = now
    self._step = step

  def close(self) -> None:
    """Leaves the terminal tidy."""
    if self._writes and self._bar is not None:
      self._bar.close()


class WorkdirLock:
  """Refuses a second live train on one workdir.

  `train.lock` names the holder's host, process and start. On one host the kernel frees the lock when its holder dies,
  however it dies. On another host, and on object stores, a holder counts as dead when it has not renewed its file for
  `STALE_SECONDS`: a preempted run may go on elsewhere, after that wait at most.
  """

  RENEW_SECONDS = 30.
  STALE_SECONDS = 180.

  def __init__(self, workdir: str | epath.Path):
    """Takes the lock, until `release` or the end of the process.

    Raises:
      ValueError: a live train holds it; names host and process.
    """
    self._held = False
    if jax.process_index() != 0:
      return
    self._path = epath.Path(workdir) / 'train.lock'
    self._path.parent.mkdir(parents=True, exist_ok=True)
    self._descriptor = None if is_remote(self._path) else self._kernel_lock()
    holder = self._holder()
    host = socket.gethostname()
    # A lock given to us by the kernel says that its last holder on this host is dead.
    kernel_knows = self._descriptor is not None and holder and holder['host'] == host
    if holder and not kernel_knows and time.time() - holder['renewed'] < self.STALE_SECONDS:
      self._let_go()
      self._refuse(holder)
    now = datetime.datetime.now().astimezone().isoformat(timespec='seconds')
    self._content = {'host': host, 'pid': os.getpid(), 'started': now}
    self._renew()
    self._held = True
    self._released = threading.Event()
    self._renewer = threading.Thread(target=self._renew_until_released, daemon=True)
    self._renewer.start()
    atexit.register(self.release)

  def release(self) -> None:
    """Gives the lock back; further calls do nothing."""
    if not self._held:
      return
    self._held = False
    atexit.unregister(self.release)
    self._released.set()
    self._renewer.join()
    self._path.unlink(missing_ok=True)
    self._let_go()

  def _let_go(self):
    if self._descriptor is not None:
      os.close(self._descriptor)

  def _kernel_lock(self) -> int | None:
    """A descriptor that holds the file locked; None where the file system has no locks; ValueError if held."""
    while True:
      descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except BlockingIOError:
        os.close(descriptor)
        self._refuse(self._holder())
      except OSError:
        os.close(descriptor)
        return None
      with contextlib.suppress(FileNotFoundError):
        if os.fstat(descriptor).st_ino == os.stat(self._path).st_ino:
          return descriptor
      os.close(descriptor)  # The holder deleted this file between our opening and locking it.

  def _holder(self) -> dict | None:
    """What the lock file says; None if it is missing or empty."""
    try:
      return json.loads(self._path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
      return None

  def _refuse(self, holder: dict | None):
    if holder is None:  # Taken a moment ago, its name not yet written.
      holder = {'host': 'an unknown host', 'pid': 'unknown', 'started': 'just now'}
    raise ValueError(
        f'workdir={str(self._path.parent)!r} must not be in use, but a train on {holder["host"]} '
        f'(pid {holder["pid"]}, started {holder["started"]}) holds it. If that one is dead, try again in '
        f'{self.STALE_SECONDS:.0f} s or delete {self._path}.')

  def _renew(self):
    content = json.dumps(self._content | {'renewed': time.time()}).encode()
    if self._descriptor is None:
      write_bytes(self._path, content)
    else:  # In place: a rename would leave the kernel's lock on a file without a name.
      os.pwrite(self._descriptor, content.ljust(400), 0)

  def _renew_until_released(self):
    while not self._released.wait(self.RENEW_SECONDS):
      try:
        self._renew()
      except OSError as error:
        warnings.warn(f'{self._path} could not be renewed: {error}', stacklevel=1)

  def __enter__(self):
    return self

  def __exit__(self, *exc_info):
    self.release()


def is_remote(path: str | epath.Path) -> bool:
  """Whether `path` lies on an object store, which knows no append and no rename."""
  return '://' in str(path)


def write_bytes(path: str | epath.Path, content: bytes) -> None:
  """Writes a file whole or not at all: by a rename, or, on object stores, whose writes are so, at once."""
  path = epath.Path(path)
  if is_remote(path):
    path.write_bytes(content)
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.parent / f'.{path.name}.{os.getpid()}.tmp'
  try:
    with open(temporary, 'wb') as file:
      file.write(content)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


def write_json(path: str | epath.Path, content: Any) -> None:
  """Writes `content` as `jsonable` makes it, like `write_bytes`. Only process 0 writes."""
  if jax.process_index() == 0:
    write_bytes(path, (json.dumps(jsonable(content), indent=2, allow_nan=False) + '\n').encode())


def jsonable(value: Any) -> Any:
  """`value` with arrays as lists, scalars as Python's, and NaN and infinities as None."""
  match value:
    case Mapping():
      return {str(key): jsonable(item) for key, item in value.items()}
    case list() | tuple():
      return [jsonable(item) for item in value]
    case bool() | int() | str() | None:
      return value
    case float():
      return value if math.isfinite(value) else None
    case os.PathLike():
      return os.fspath(value)
  array = np.asarray(value)
  # bfloat16 is no float to NumPy: its items would stay what they are.
  array = array.astype(np.float32) if array.dtype.kind == 'V' else array
  if array.dtype == object:
    raise ValueError(f'{value!r} must be made of numbers, strings, lists and dicts to be written as JSON.')
  return jsonable(array.tolist())


def _rows_until(content: bytes, step: int, path: epath.Path) -> bytes:
  """The lines of `content` whose step is at most `step`; a last line without end, half written, is left out."""
  kept = []
  *lines, _ = content.split(b'\n')
  for number, line in enumerate(lines, start=1):
    try:
      row_step = json.loads(line)['step']
    except (ValueError, KeyError, TypeError) as error:
      raise ValueError(f'{path} line {number} must be a JSON object with a step: {line[:80]!r}.') from error
    if row_step <= step:
      kept.append(line + b'\n')
  return b''.join(kept)


class _TensorBoard:
  """The copy of the rows for TensorBoard. Whatever fails here warns once and ends it; training goes on."""

  def __init__(self, folder: epath.Path, restored_step: int | None):
    self._writer = None
    with self._or_warn():
      import tensorboardX  # Here: a slow import, and one that may be missing.
      # Points from purge_step on, of a run that got further than its checkpoint, are hidden.
      self._writer = tensorboardX.SummaryWriter(
          str(folder), purge_step=0 if restored_step is None else restored_step + 1, flush_secs=10)

  def write(self, step: int, row: Mapping[str, Any]) -> None:
    """Adds every number of `row`; null, text and lists have no curve."""
    if self._writer is not None:
      with self._or_warn():
        for name, value in row.items():
          if name != 'step' and isinstance(value, int | float):
            self._writer.add_scalar(name, value, step)

  def close(self) -> None:
    """Flushes."""
    if self._writer is not None:
      with self._or_warn():
        self._writer.close()

  @contextlib.contextmanager
  def _or_warn(self):
    try:
      yield
    except Exception as error:
      self._writer = None
      warnings.warn(f'No TensorBoard from here on; metrics.jsonl is complete: {error!r}', stacklevel=4)
