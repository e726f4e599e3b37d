"""Configs: loaded from a file, overridden by arguments, written down whole, and compared before a resume.

A config file defines `get_config() -> ml_collections.ConfigDict`; `--config.field=value` overrides a field, of the
type it has. So every field has one: a number that may be missing is `config_dict.placeholder(float)`, several values
are a tuple. None and lists are refused, since ml_collections cannot override them.
"""

import difflib
import importlib.util
import inspect
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jaxlib
import ml_collections
import numpy as np
from absl import flags
from ml_collections import config_dict, config_flags

import vpo_jax


def load(source: str | Mapping, overrides: Sequence[str] = ()) -> ml_collections.ConfigDict:
  """Returns the config of a file, or of `config.json`, with `--config.field=value` arguments applied, locked.

  Args:
    source: path of a config file (`file.py:text` calls `get_config(text)`), or the nested dict of an earlier run.
    overrides: arguments as they stand on a command line. `--config.field=None` empties a placeholder.

  Raises:
    ValueError: there is no such file or field, a value is not of its field's type, or an argument is no override.
  """
  config = _from_file(source) if isinstance(source, str | os.PathLike) else _from_dict(source)
  names = list(_leaves(config))
  kept = []
  for name, value, argument in _split(overrides):
    _require_known(name, names)
    if value != 'None':
      kept.append(argument)
      continue
    *groups, leaf = name.split('.')
    group = config
    for part in groups:
      group = group[part]
    if not isinstance(dict(group.items(preserve_field_references=True))[leaf], config_dict.FieldReference):
      raise ValueError(f'config.{name}=None must be of type {group.get_type(leaf).__name__}: it is not optional.')
    group[leaf] = None
  values = flags.FlagValues()
  argv = ['', *kept]
  try:
    config_flags.DEFINE_config_dict('config', config, flag_values=values, sys_argv=argv)
    values(argv)
  except (flags.Error, TypeError, ValueError) as error:
    raise ValueError(str(error).removeprefix('flag ')) from error
  config.lock()
  return config


def plain(config: ml_collections.ConfigDict) -> dict[str, Any]:
  """The config as nested dicts of numbers, strings, tuples and None, for `train(**plain(config))` and for JSON."""
  return config.to_dict()


def record(config: ml_collections.ConfigDict, *, warm_start: str = '') -> dict[str, Any]:
  """What `config.json` says of a run: its config, and all else that its numbers depend on.

  Args:
    config: resolved.
    warm_start: `checkpoint.params_hash` of the parameters it starts from; '' for a fresh start.
  """
  commit, dirty = _git_state()
  device = jax.devices()[0]
  return {
      'config': plain(config),
      'versions': {
          'vpo_jax': vpo_jax.__version__, 'jax': jax.__version__, 'jaxlib': jaxlib.__version__,
          'numpy': np.__version__, 'python': platform.python_version()},
      'git_commit': commit,
      'git_dirty': dirty,
      'devices': {
          'platform': device.platform, 'kind': device.device_kind, 'count': jax.device_count(),
          'processes': jax.process_count()},
      'threads': _num_threads(),
      'xla_flags': os.environ.get('XLA_FLAGS', ''),
      'warm_start': warm_start,
      'command': sys.argv,
  }


def require_same_run(saved: Mapping, current: Mapping, *, may_change: Sequence[str] = ()) -> list[str]:
  """Checks before a resume that `current`, a `record`, continues the run that wrote `saved`.

  Args:
    saved: content of the workdir's `config.json`.
    current: `record` of this process.
    may_change: fields of the config that do not change what a step computes, such as `num_steps`.

  Returns:
    A sentence for each difference (devices, threads, versions, code) that ends the promise of bit-identical results.

  Raises:
    ValueError: the config or the warm start differs; names up to five fields with both values.
  """
  differing = [(name, old, new) for name, old, new in _differences(saved['config'], current['config'])
               if name not in may_change]
  differing += _differences({'warm_start': saved['warm_start']}, {'warm_start': current['warm_start']})
  if differing:
    listed = '\n'.join(f'  {name}: {old!r} in the workdir, {new!r} now' for name, old, new in differing[:5])
    more = f'\n  and {len(differing) - 5} more' if len(differing) > 5 else ''
    raise ValueError(f'The workdir must belong to the same config; these fields differ:\n{listed}{more}\n'
                     'Take another workdir, or the old values.')
  surroundings = ('devices', 'threads', 'xla_flags', 'versions', 'git_commit', 'git_dirty')
  return [
      f'Resuming with {name} {new!r} instead of {old!r}: the results will not be bit-identical.'
      for name, old, new in _differences(
          {key: saved.get(key) for key in surroundings}, {key: current[key] for key in surroundings})]


def call(function: Callable, settings: Mapping, where: str) -> Any:
  """`function(**settings)`; a keyword that is unknown or missing is a ValueError that names the field of the config.

  Args:
    function: whose signature is the schema.
    settings: plain.
    where: dotted place of the settings in the config, for the message.
  """
  parameters = inspect.signature(function).parameters
  for name, value in settings.items():
    if name not in parameters:
      near = difflib.get_close_matches(name, parameters, n=1)
      hint = f'did you mean {near[0]}?' if near else f'the fields are {", ".join(parameters)}.'
      raise ValueError(f'{where}.{name}={value!r} must be a field; {hint}')
  missing = [name for name, p in parameters.items() if p.default is p.empty and name not in settings]
  if missing:
    raise ValueError(f'{where}.{missing[0]} must be set; the fields are {", ".join(parameters)}.')
  return function(**settings)


def _from_file(path: str | os.PathLike) -> ml_collections.ConfigDict:
  """The config a file defines, every field of which has a type."""
  file, colon, text = os.fspath(path).partition('.py:')
  file = f'{file}.py' if colon else file
  if not os.path.isfile(file):
    raise ValueError(f'config={os.fspath(path)!r} must be a Python file that defines get_config(); there is no {file}.')
  # Not by config_flags, whose way of importing a file ends with Python 3.15.
  spec = importlib.util.spec_from_file_location('config_file', file)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  config = module.get_config(text) if colon else module.get_config()
  for name, type_ in _leaves(config).items():
    if type_ is type(None):
      raise ValueError(f'config.{name}=None must have a type: write config_dict.placeholder(float) for a number that '
                       'may be missing.')
    if type_ is list:
      raise ValueError(f'config.{name} must be a tuple, not a list, so that an argument can override it.')
  return config


def _from_dict(content: Mapping) -> ml_collections.ConfigDict:
  """The config of a `config.json`, where tuples became lists and placeholders None."""
  def typed(value):
    match value:
      case None:
        return config_dict.placeholder(object)
      case Mapping():
        return ml_collections.ConfigDict({key: typed(item) for key, item in value.items()})
      case list():
        return tuple(value)
      case _:
        return value
  return typed(content)


def _leaves(config: ml_collections.ConfigDict, prefix: str = '') -> dict[str, type]:
  """The type of each field, by its dotted name."""
  types = {}
  for key, value in config.items():
    if isinstance(value, ml_collections.ConfigDict) and len(value):
      types |= _leaves(value, f'{prefix}{key}.')
    else:
      types[prefix + key] = config.get_type(key)
  return types


def _split(overrides: Sequence[str]) -> list[tuple[str, str | None, str]]:
  """`(field, value, argument)` of each override; joins `--config.field value` into one argument."""
  arguments = list(overrides)
  result = []
  while arguments:
    argument = arguments.pop(0)
    if '=' not in argument and arguments and not arguments[0].startswith('--'):
      argument += '=' + arguments.pop(0)
    name, _, value = argument.partition('=')
    for start in ('--config.', '--noconfig.'):
      if name.startswith(start):
        result.append((name.removeprefix(start), value, argument))
        break
    else:
      raise ValueError(f'argument={argument!r} must look like --config.field=value.')
  return result


def _require_known(name: str, names: list[str]) -> None:
  """Raises ValueError with the nearest field if `name` is none of them."""
  if name in names:
    return
  inside = [known for known in names if known.startswith(name + '.')]
  if inside:
    raise ValueError(f'config.{name} must be set field by field: {", ".join(inside)}.')
  near = difflib.get_close_matches(name, names, n=1)
  near = near or [known for known in names if known.split('.')[-1] == name.split('.')[-1]][:1]
  hint = f'did you mean config.{near[0]}?' if near else f'the fields are {", ".join(names)}.'
  raise ValueError(f'config.{name} must be a field of the config; {hint}')


def _differences(old: Any, new: Any, name: str = '') -> list[tuple[str, Any, Any]]:
  """`(field, old, new)` where two nested dicts differ; a tuple equals the list JSON makes of it."""
  if isinstance(old, Mapping) and isinstance(new, Mapping):
    keys = [*old, *(key for key in new if key not in old)]
    return [difference for key in keys for difference in _differences(
        old.get(key, 'absent'), new.get(key, 'absent'), f'{name}.{key}' if name else str(key))]
  old, new = (list(value) if isinstance(value, tuple) else value for value in (old, new))
  return [] if old == new and type(old) is type(new) else [(name, old, new)]


def _num_threads() -> int:
  """Cores this process may use: XLA splits CPU work, and so its sums, by them."""
  return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()


def _git_state() -> tuple[str | None, bool | None]:
  """The commit this package is checked out at, and whether tracked files differ; None for an installed package."""
  source = os.path.abspath(vpo_jax.__file__)

  def git(*arguments):
    done = subprocess.run(['git', '-C', os.path.dirname(source), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None

  try:
    if git('ls-files', '--error-unmatch', source) is None:  # In site-packages inside somebody else's checkout.
      return None, None
    return git('rev-parse', 'HEAD'), bool(git('status', '--porcelain', '--untracked-files=no'))
  except OSError:  # No git here.
    return None, None
