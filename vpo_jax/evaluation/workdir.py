"""What training and evaluation left in a workdir, and whether several workdirs may be compared."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from vpo_jax.evaluation.pool import Pool


@dataclasses.dataclass(frozen=True)
class Evaluated:
  """One evaluation of one run.

  Attributes:
    name: path of the workdir.
    method: estimator the run was trained with.
    warm_start: hash of the parameters it was trained from, '' if from none.
    seed: of the training.
    step: step of the evaluated checkpoint.
    summary: content of `eval/<step>.json`.
    pool: content of `eval/<step>.npz`.
    history: rows of `metrics.jsonl` up to `step`.
  """
  name: str
  method: str
  warm_start: str
  seed: int
  step: int
  summary: Mapping
  pool: Pool
  history: Sequence[Mapping]


def steps(folder: epath.PathLike) -> list[int]:
  """The evaluated steps of the workdir `folder`, ascending; ValueError if there is none."""
  found = sorted(int(path.stem) for path in (epath.Path(folder) / 'eval').glob('*.json'))
  if not found:
    raise ValueError(f'{folder} must hold eval/<step>.json: evaluate it first.')
  return found


def read(folder: epath.PathLike, step: int | None = None) -> Evaluated:
  """Reads the workdir `folder` as evaluated at `step`, the last evaluated one by default."""
  evaluated = steps(folder)
  step = evaluated[-1] if step is None else step
  if step not in evaluated:
    raise ValueError(f'{step=} must be one of the evaluated steps of {folder}: {evaluated}.')
  path = epath.Path(folder)
  config = json.loads((path / 'config.json').read_text())
  metrics = path / 'metrics.jsonl'
  lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
  history = [json.loads(line) for line in lines if line.endswith('\n')]  # A live run may be writing the last one.
  settings = config['config']
  return Evaluated(
      str(folder), settings['experience']['advantage']['name'], config['warm_start'], settings['seed'], step,
      json.loads((path / 'eval' / f'{step}.json').read_text()), Pool.load(path / 'eval' / f'{step}.npz'),
      [row for row in history if row['step'] <= step])


def check_same_problems(oracles: Mapping[str, np.ndarray]) -> None:
  """Raises ValueError naming two runs whose test sets differ, given the `[problems]` oracles of each run by name."""
  (first, expected), *others = oracles.items()
  for name, oracle in others:
    if not np.array_equal(oracle, expected):
      raise ValueError(f'{first} and {name} must be evaluated on the same problems, but their oracles differ '
                       f'({len(expected)} and {len(oracle)} problems).')


def check_same_warm_starts(runs: Sequence) -> None:
  """Raises ValueError naming two runs of different methods, if one method starts from where another never does.

  Args:
    runs: anything with `name`, `method` and `warm_start`.
  """
  starts = {}
  for run in runs:
    starts.setdefault(run.method, {})[run.warm_start] = run
  (_, expected), *others = starts.items()
  for found in (table for _, table in others):
    for warm_start in sorted(expected.keys() ^ found.keys()):
      alone, facing = (expected, found) if warm_start in expected else (found, expected)
      other = next((run for start, run in facing.items() if start not in alone), next(iter(facing.values())))
      raise ValueError(f'{alone[warm_start].name} ({alone[warm_start].method}) and {other.name} ({other.method}) must '
                       f'start from the same parameters, but their warm starts are {warm_start[:12]!r} and '
                       f'{other.warm_start[:12]!r}.')
