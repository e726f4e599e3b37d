"""Tables and figures from evaluated workdirs.

  python -m vpo_jax.evaluation.report WORKDIR [WORKDIR ..] --out FOLDER

Workdirs of one method are its seeds. Methods stand side by side only if trained from the same warm starts and evaluated
on the same problems.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from etils import epath

from vpo_jax.evaluation import atomic, metrics, plots, workdir

COLUMNS = {  # heading: path in the summary
    'best@1': ('best_at_k', '1'),
    'best@3': ('best_at_k', '3'),
    'best@10': ('best_at_k', '10'),
    'best@30': ('best_at_k', '30'),
    'best@30, random weightings': ('expected_best', 'dirichlet_1', '30'),
    'first answer': ('first_answer',),
    'completion': ('completion',),
    'diversity': ('diversity_l1',),
    'diversity, successful': ('diversity_l1_valid',),
    'hypervolume': ('hypervolume',),
}
COSTS = {'training tokens': 'generated_tokens_total', 'CPU seconds': 'cpu_seconds_total'}


def _read_all(folders: Sequence[epath.PathLike], step: int | None) -> dict[str, list[workdir.Evaluated]]:
  """Reads the workdirs, by method, after checking that they may be compared."""
  if not folders:
    raise ValueError(f'{folders=} must name at least one workdir.')
  runs = [workdir.read(folder, step) for folder in folders]
  workdir.check_same_warm_starts(runs)
  workdir.check_same_problems({run.name: run.pool.oracle for run in runs})
  methods = {}
  for run in runs:
    methods.setdefault(run.method, []).append(run)
  return methods


def _warm_starts(folders: Sequence[epath.PathLike], oracle: np.ndarray) -> dict[int, list[workdir.Evaluated]]:
  """Evaluations before the first step on the problems of `oracle`, by answers per rollout, one a warm start."""
  found = {}
  for folder in folders:
    if 0 in workdir.steps(folder):
      run = workdir.read(folder, 0)
      if np.array_equal(run.pool.oracle, oracle):
        found.setdefault(run.pool.answers_per_rollout, {})[run.warm_start] = run
  return {m: list(runs.values()) for m, runs in sorted(found.items())}


def _value(content, path: Sequence[str]) -> float:
  """The number at `path` in nested dicts, NaN where the pool was too small to have it."""
  for name in path:
    content = content.get(name, {})
  return content if content != {} else np.nan


def _cell(values: Sequence[float], digits: int = 3) -> str:
  """Mean of the seeds ± their sample deviation."""
  if np.isnan(values).any():
    return '–'
  mean = f'{np.mean(values):,.{digits}f}'
  return mean if len(values) == 1 else f'{mean} ± {np.std(values, ddof=1):,.{digits}f}'


def _row(label: str, runs: Sequence[workdir.Evaluated], trained: bool) -> list[str]:
  costs = [[run.history[-1].get(name, np.nan) if trained and run.history else np.nan for run in runs]
           for name in COSTS.values()]
  return [label, str(len(runs)), *(_cell([_value(run.summary, path) for run in runs]) for path in COLUMNS.values()),
          *(_cell(values, 0) for values in costs)]


def table(folders: Sequence[epath.PathLike], step: int | None = None) -> str:
  """Markdown table, a method a row: mean over its runs ± sample deviation, from the evaluations at `step`.

  Args:
    folders: workdirs. Their evaluations at step 0, where they have them, become the rows of the warm start.
    step: evaluated step of every workdir; each one's last by default.

  Raises:
    ValueError: methods with different warm starts or test sets, naming two workdirs.
  """
  methods = _read_all(folders, step)
  example = next(iter(methods.values()))[0]
  rows = [['method', 'runs', *COLUMNS, *COSTS]]
  rows += [_row(f'Warm start, {m} a rollout', runs, False)
           for m, runs in _warm_starts(folders, example.pool.oracle).items()]
  rows += [_row(plots.style(method)[0], runs, True) for method, runs in methods.items()]
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = ['| ' + ' | '.join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in
                             enumerate(zip(row, widths, strict=True))) + ' |' for row in rows]
  lines.insert(1, '|' + '|'.join('-' * (w + 2) if i == 0 else '-' * (w + 1) + ':' for i, w in enumerate(widths)) + '|')
  sizes = (f'{example.summary["num_problems"]} problems; best possible scalar {example.summary["oracle"]:.3f}. '
           f'Answers a problem: ' + ', '.join(f'{plots.style(method)[0]} {runs[0].summary["num_candidates"]}'
                                              for method, runs in methods.items()) + '.')
  return '\n'.join([*lines, '', sizes, ''])


def write(folders: Sequence[epath.PathLike], out: epath.PathLike, step: int | None = None,
          suffix: str = 'png') -> list[epath.Path]:
  """Writes `table.md` and the figures `best_at_k`, `diversity` and `reward_vectors` of `folders` to `out`.

  `diversity` needs rows of `metrics.jsonl` that hold it, `reward_vectors` at least two components.

  Returns:
    Paths of the files written.
  """
  methods = _read_all(folders, step)
  first = next(iter(methods.values()))[0]
  written = [epath.Path(out) / 'table.md']
  atomic.write_atomically(written[0], table(folders, step).encode())

  def save(name, figure):
    written.append(epath.Path(out) / f'{name}.{suffix}')
    plots.save(figure, written[-1])

  untrained = list(_warm_starts(folders, first.pool.oracle).values())[:1]
  by_label = methods | ({'warm_start': untrained[0]} if untrained else {})
  save('best_at_k', plots.best_at_k(
      {method: [{int(k): v for k, v in run.summary['best_at_k'].items()} for run in runs]
       for method, runs in by_label.items()}, oracle=first.summary['oracle']))
  histories = {method: [run.history for run in runs] for method, runs in methods.items()}
  if any('diversity_l1_valid' in row for seeds in histories.values() for rows in seeds for row in rows):
    save('diversity', plots.diversity_over_training(histories))
  pools = {method: runs[0].pool for method, runs in methods.items()}
  if len(first.pool.components) > 1:
    rewards = np.concatenate([pool.rewards for pool in pools.values()], axis=1)
    success = np.concatenate([pool.success for pool in pools.values()], axis=1)
    problem = int(np.argmax(metrics.diversity_l1(rewards, success)))  # Where there is most to see.
    pair = plots.trade_off(rewards[success]) if success.sum() > 1 else (0, 1)
    save('reward_vectors', plots.reward_vectors(
        {method: pool.rewards[problem] for method, pool in pools.items()}, first.pool.components, pair))
  return written


def main() -> None:
  parser = argparse.ArgumentParser(description='Table and figures from evaluated workdirs.')
  parser.add_argument('workdirs', nargs='+')
  parser.add_argument('--out', required=True, help='folder for table.md and the figures')
  parser.add_argument('--step', type=int, help='evaluated step; the last one of each workdir by default')
  arguments = parser.parse_args()
  try:
    written = write(arguments.workdirs, arguments.out, arguments.step)
  except ValueError as error:
    parser.error(str(error))
  print(written[0].read_text())
  print('Written: ' + ' '.join(map(str, written)))


if __name__ == '__main__':
  main()
