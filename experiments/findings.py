"""What a comparison found: result files as runs, the settings that tuning chose, paired differences, and the bars."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from experiments import job as jobs
from experiments import plans
from vpo_jax.evaluation import compare, plots

ROWS = ('warm_start', *dict.fromkeys(method for group in plans.GROUPS.values() for method in group.methods),
        *(method for extra in plans.ABLATIONS.values() for method in extra))
LABELS = {method: plots.style(method)[0] for method in ROWS}
NONLINEAR = ('tchebycheff', 'minimum', 'threshold_counts')
FAMILIES = ('dirichlet_1', 'dirichlet_0.3', 'lopsided', 'nonlinear')
PREFERENCE_K = 30
# With fewer pairs of runs an interval says next to nothing about other runs: it is not shown, and nothing is concluded.
MIN_PAIRS = 3


def read(folder: epath.PathLike) -> list[dict]:
  """All results in `folder`, by name."""
  return [json.loads(path.read_text()) for path in sorted(epath.Path(folder).glob('*.json'))]


def chosen(results: Sequence[Mapping], group: plans.Group) -> dict[str, dict[str, float]]:
  """Overrides of each method's best tuning run; methods whose tuning is not complete are left out."""
  by_name = {result['name']: result for result in results}
  best = {}
  for method in group.methods:
    cells = [job for job in plans.tuning_jobs(group) if job.method == method]
    if all(job.name in by_name for job in cells):
      best[method] = max(cells, key=lambda job: max(by_name[job.name]['metrics']['choice'].values())).overrides
  return best


def by_method(results: Sequence[Mapping]) -> dict[str, list[Mapping]]:
  """Results of each method, in the order of the plan, the warm start first."""
  found = {method: [r for r in results if r['method'] == method] for method in ROWS}
  return {method: runs for method, runs in found.items() if runs}


def as_run(result: Mapping) -> compare.Run:
  """A result as `compare` takes it; adds regret, and best of 30 by family and over the lopsided weightings."""
  values = {name: jobs.decode(text) for name, text in result['per_problem'].items()}
  for name in [name for name in values if name.startswith('best_at_k/')]:
    values[name.replace('best_at_k', 'regret')] = values['oracle'] - values[name]
  for k in jobs.PER_PROBLEM_KS:
    of_k = {name.split('/')[1]: column for name, column in values.items()
            if name.startswith('expected_best/') and name.endswith(f'/{k}')}
    if of_k:
      lopsided = [column for name, column in of_k.items() if name.startswith('lopsided_')]
      values[f'preference/lopsided/{k}'] = np.mean(lopsided, axis=0)
      values[f'preference/nonlinear/{k}'] = np.mean([of_k[name] for name in NONLINEAR], axis=0)
      for name in ('dirichlet_1', 'dirichlet_0.3'):
        values[f'preference/{name}/{k}'] = of_k[name]
  return compare.Run(result['name'], result['method'], result['warm_start'], result['seed'], values['oracle'], values)


def preferences(result: Mapping) -> dict[str, float]:
  """Mean best of 30 (of all, in a smaller pool) by each family of `FAMILIES`."""
  best = result['metrics']['expected_best']
  at = lambda curve: curve.get(str(PREFERENCE_K), list(curve.values())[-1])
  return {
      'dirichlet_1': at(best['dirichlet_1']), 'dirichlet_0.3': at(best['dirichlet_0.3']),
      'lopsided': float(np.mean([at(curve) for name, curve in best.items() if name.startswith('lopsided_')])),
      'nonlinear': float(np.mean([at(best[name]) for name in NONLINEAR]))}


def differences(runs: Sequence[compare.Run], metric: str, baseline: str) -> list[compare.Comparison]:
  """As `compare.compare`, over the (warm start, seed) pairs that a method and the baseline both have."""
  key = lambda run: (run.warm_start, run.seed)
  theirs = {key(run): run for run in runs if run.method == baseline}
  found = []
  for method in dict.fromkeys(run.method for run in runs if run.method != baseline):
    ours = [run for run in runs if run.method == method and key(run) in theirs]
    if ours:
      found += compare.compare([*ours, *(theirs[key(run)] for run in ours)], metric, baseline=baseline)
  corrected = compare.holm([result.p_value for result in found])
  return [dataclasses.replace(result, p_holm=float(p)) for result, p in zip(found, corrected, strict=True)]


def signed(value: float) -> str:
  """Three digits with a sign."""
  return f'{value:+.3f}'


def interval(c: compare.Comparison) -> str:
  """Ends of the 95 % interval."""
  return f'[{signed(c.low)}, {signed(c.high)}]'


@dataclasses.dataclass(frozen=True)
class Bar:
  """One bar of the plan: what was asked, what came out, and whether it holds (None: runs are missing)."""
  asked: str
  found: str
  holds: bool | None


def core_bars(results: Sequence[Mapping]) -> list[Bar]:
  """The bars of PLAN.md, on the core methods at KL 0."""
  core = [result for result in results if result['setting'] == 'kl0' and result['method'] in plans.CORE_METHODS]
  runs = [as_run(result) for result in core]

  def gap(baseline, least, strict):
    asked = f'best@30, VPO - {LABELS[baseline]}: at least +{least:g}' + (', interval above 0' if strict else '')
    found = [c for c in differences(runs, 'best_at_k/30', baseline) if c.method == 'vpo'] if any(
        run.method == baseline for run in runs) else []
    if not found:
      return Bar(asked, 'no pair of runs', None)
    c = found[0]
    return Bar(asked, f'{signed(c.difference)} {interval(c)}, {c.num_runs} pairs of runs',
               c.difference >= least and (not strict or c.low > 0))

  def spread(method, asked, holds):
    values = [result['metrics']['diversity_l1_valid'] for result in core if result['method'] == method]
    text = f'diversity of successful answers, {LABELS[method]}: {asked}'
    return Bar(text, f'{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})', holds(np.mean(values))
               ) if values else Bar(text, 'no runs', None)

  return [gap('grpo', .015, True), gap('multi_rlvr', .03, False), spread('vpo', 'at least 0.7', lambda x: x >= .7),
          spread('grpo', 'at most 0.2', lambda x: x <= .2)]


def bars_text(bars: Sequence[Bar]) -> str:
  """The bars, a line each."""
  word = {True: 'PASS', False: 'FAIL', None: 'OPEN'}
  return '\n'.join(f'{word[bar.holds]}  {bar.asked}. Found: {bar.found}.' for bar in bars)
