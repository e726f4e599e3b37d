"""Runs commands side by side, one thread each, and says how they go.

On a CPU two single-threaded processes beat one with two threads, so there are as many slots as cores. On an accelerator
commands run one after the other.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from etils import epath

SECONDS_BETWEEN_LINES = 30.


def environment(cache: epath.PathLike) -> dict[str, str]:
  """Environment of a child: one thread, huge pages (20 % of CPU time otherwise goes to page faults), shared programs.

  Args:
    cache: folder of compiled programs, so that only the first of many like runs compiles.
  """
  flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_cpu_multi_thread_eigen=false'.strip()
  return os.environ | {
      'XLA_FLAGS': flags, 'NPROC': '1', 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1',
      'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1', 'JAX_COMPILATION_CACHE_DIR': os.path.abspath(cache),
      'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.3', 'TF_CPP_MIN_LOG_LEVEL': '2', 'PYTHONUNBUFFERED': '1'}


def slots() -> int:
  """How many commands to run at a time: cores of this process, or 1 where JAX finds an accelerator."""
  # Asked of a child, since a process that has looked at an accelerator may keep it from others.
  found = subprocess.run(
      [sys.executable, '-c', 'import jax; print(jax.default_backend())'], capture_output=True, text=True)
  if found.returncode or found.stdout.strip() != 'cpu':
    return 1
  return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()


def run(commands: Mapping[str, Sequence[str]], *, logs: epath.PathLike, env: Mapping[str, str],
        at_a_time: int) -> list[str]:
  """Runs commands in order, `at_a_time` side by side; prints what each is at now and then, and when one ends.

  Ctrl-C or SIGTERM stops the children once, so that a training saves first, and waits for them.

  Args:
    commands: name to command.
    logs: folder for what they print, a file each.
    env: of the children.
    at_a_time: slots.

  Returns:
    Names of those that failed; the others ran nevertheless.
  """
  logs = epath.Path(logs)
  logs.mkdir(parents=True, exist_ok=True)
  waiting, running, failed, ended, start = list(commands), {}, [], 0, time.monotonic()
  said = start
  previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
  try:
    while waiting or running:
      while waiting and len(running) < at_a_time:
        name = waiting.pop(0)
        with open(logs / f'{name}.log', 'ab') as log:
          # In a session of its own, so that a Ctrl-C reaches it once, through us.
          running[name] = time.monotonic(), subprocess.Popen(
              commands[name], stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)
      time.sleep(.2)
      if time.monotonic() - said > SECONDS_BETWEEN_LINES:
        said = time.monotonic()
        for name in running:
          print(f'      {name}: {tail(logs / f"{name}.log", 1) or "starting"}', flush=True)
      for name, (started, process) in list(running.items()):
        if process.poll() is None:
          continue
        del running[name]
        ended += 1
        now = time.monotonic()
        left = (now - start) / ended * (len(commands) - ended)
        outcome = 'done' if process.returncode == 0 else f'FAILED (see {logs / f"{name}.log"})'
        if process.returncode:
          failed.append(name)
        print(f'[{ended}/{len(commands)}] {name} {outcome} after {now - started:.0f} s'
              + (f'; about {left / 60:.0f} min left' if ended < len(commands) else ''), flush=True)
  except KeyboardInterrupt:
    for _, process in running.values():
      process.terminate()
    print(f'Stopping; waiting for {", ".join(running) or "nothing"} to save. The same command goes on from there.')
    for _, process in running.values():
      process.wait()
    raise SystemExit(130) from None
  finally:
    signal.signal(signal.SIGTERM, previous)
  return failed


def tail(path: epath.PathLike, lines: int = 5) -> str:
  """The last lines of a log."""
  return '\n'.join(epath.Path(path).read_text().splitlines()[-lines:])
