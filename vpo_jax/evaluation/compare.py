"""Paired comparisons of methods: same problems, same warm start, same seed.

  difference[run, problem] = metric of the method - metric of the baseline

averaged over both axes; the 95 % interval resamples both. Holm's correction covers the methods compared in one call.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from vpo_jax.evaluation import bootstrap, summary, workdir


@dataclasses.dataclass(frozen=True)
class Run:
  """One trained policy, evaluated.

  Attributes:
    name: what error messages call it, such as its workdir.
    method: estimator it was trained with.
    warm_start: hash of the parameters it was trained from.
    seed: seed of its training.
    oracle: `[problems]` best scalar of each test problem; tells test sets apart.
    values: flat metric name to `[problems]`, as of `summary.per_problem`.
  """
  name: str
  method: str
  warm_start: str
  seed: int
  oracle: np.ndarray
  values: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Mean paired difference of `method` to `baseline`, positive where the method's metric is larger.

  Attributes:
    low: lower end of the 95 % interval.
    high: upper end.
    p_value: two-sided, by bootstrap; at least 1 / (resamples + 1).
    p_holm: `p_value` after Holm's correction over the methods compared.
    num_runs: pairs of runs; with one, the interval covers problems only.
  """
  method: str
  baseline: str
  metric: str
  difference: float
  low: float
  high: float
  p_value: float
  p_holm: float
  num_runs: int
  num_problems: int


def read_run(folder: epath.PathLike, step: int | None = None) -> Run:
  """Reads the evaluation of the workdir `folder` at `step` (the last one by default) and computes its metrics."""
  found = workdir.read(folder, step)
  return Run(found.name, found.method, found.warm_start, found.seed, found.pool.oracle,
             summary.per_problem(found.pool))


def pairs(runs: Sequence[Run], method: str, baseline: str) -> list[tuple[Run, Run]]:
  """Pairs the runs of two methods by (warm start, seed); ValueError names a run that has no partner, or two."""
  tables = []
  for name in (method, baseline):
    table = {}
    for run in (run for run in runs if run.method == name):
      if (run.warm_start, run.seed) in table:
        raise ValueError(f'{table[run.warm_start, run.seed].name} and {run.name} must be different runs, but both are '
                         f'{run.method} with seed {run.seed}, warm start {run.warm_start[:12]!r}.')
      table[run.warm_start, run.seed] = run
    if not table:
      raise ValueError(f'No run of {name!r} among {sorted({run.method for run in runs})}.')
    tables.append(table)
  ours, theirs = tables
  for (table, other, name) in ((ours, theirs, baseline), (theirs, ours, method)):
    for warm_start, seed in sorted(table.keys() - other.keys()):
      near = next((run for run in other.values() if run.seed == seed), next(iter(other.values())))
      raise ValueError(f'{table[warm_start, seed].name} (warm start {warm_start[:12]!r}, seed {seed}) must have a '
                       f'partner of {name}, but {near.name} has warm start {near.warm_start[:12]!r}, seed {near.seed}.')
  return [(ours[key], theirs[key]) for key in sorted(ours)]


def holm(p_values: Sequence[float]) -> np.ndarray:
  """Holm's step-down correction of `[n]` p-values, in their order."""
  p_values = np.asarray(p_values, np.float64)
  order = np.argsort(p_values, kind='stable')
  corrected = np.empty_like(p_values)
  corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1)), 1)
  return corrected


def compare(runs: Sequence[Run], metric: str, *, baseline: str, resamples: int = 10_000,
            seed: int = 0) -> list[Comparison]:
  """Compares every other method among `runs` with `baseline`.

  Args:
    runs: evaluated runs; every method has the same (warm start, seed) pairs.
    metric: flat name in `Run.values`, such as 'best_at_k/30'.
    baseline: method that the others are compared with.
    resamples: bootstrap resamples of runs and problems.
    seed: of the resampling.

  Returns:
    One comparison a method, in order of first appearance.

  Raises:
    ValueError: runs of different test sets, warm starts or seeds, naming two of them; or an unknown metric.
  """
  for run in runs:
    if metric not in run.values:
      raise ValueError(f'{metric=} must be one of {sorted(run.values)} ({run.name}).')
  workdir.check_same_problems({run.name: run.oracle for run in runs})
  workdir.check_same_warm_starts(runs)
  results = []
  for method in dict.fromkeys(run.method for run in runs if run.method != baseline):
    paired = pairs(runs, method, baseline)
    differences = np.stack([ours.values[metric] - theirs.values[metric] for ours, theirs in paired])
    by_run = bootstrap.resample_shares(differences.shape[0], resamples, seed)
    by_problem = bootstrap.resample_shares(differences.shape[1], resamples, seed + 1)
    resampled = (by_run @ differences * by_problem).sum(axis=1)
    tail = min((resampled <= 0).sum(), (resampled >= 0).sum())
    results.append(Comparison(method, baseline, metric, float(differences.mean()), *bootstrap.interval(resampled),
                              min(1., 2 * (tail + 1) / (resamples + 1)), 1., *differences.shape))
  corrected = holm([result.p_value for result in results])
  return [dataclasses.replace(result, p_holm=float(p)) for result, p in zip(results, corrected, strict=True)]
