"""Markdown tables of a comparison: quality, cost, differences, gaps by k, ways of decoding, tuning."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments import findings, plans
from experiments import job as jobs
from vpo_jax.evaluation import compare

DIFFERENCES = {
    'best@1': 'best_at_k/1', 'best@3': 'best_at_k/3', 'best@10': 'best_at_k/10', 'best@30': 'best_at_k/30',
    'best@512': 'best_at_k/512', 'pass@1': 'pass_at_k/1', 'pass@30': 'pass_at_k/30', 'pass@512': 'pass_at_k/512',
    'lopsided, best of 30': 'preference/lopsided/30',
    'non-linear, best of 30': 'preference/nonlinear/30', 'Dirichlet(1), best of 30': 'preference/dirichlet_1/30',
    'hypervolume': 'hypervolume', 'diversity, successful': 'diversity_l1_valid'}


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """A table; the first column to the left, the others to the right."""
  lines = [heading, ['---', *['---:'] * (len(heading) - 1)], *rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines) + '\n'


def _cell(values: Sequence[float], digits: int = 3) -> str:
  """Mean ± sample deviation over runs."""
  mean = f'{np.mean(values):,.{digits}f}'
  return mean if len(values) == 1 else f'{mean} ± {np.std(values, ddof=1):,.{digits}f}'


def _quality(runs: Sequence[Mapping]) -> dict[str, str]:
  """Columns of what answers are worth."""
  def curve(k):
    if str(k) not in runs[0]['metrics']['best_at_k']:
      return '–'
    best = [run['metrics']['best_at_k'][str(k)] for run in runs]
    return f'{_cell(best)} ({np.mean([run["metrics"]["oracle"] for run in runs]) - np.mean(best):.3f})'

  families = [findings.preferences(run) for run in runs]
  of = lambda name: _cell([run['metrics'][name] for run in runs])
  return {'runs': str(len(runs))} | {f'best@{k} (regret)': curve(k) for k in (1, 3, 10, 30, 512)} | {
      'first answer': of('first_answer'), 'completion': of('completion'),
      'worst family': _cell([min(f.values()) for f in families]), 'lopsided': _cell([f['lopsided'] for f in families]),
      'Dirichlet(1), seen': _cell([f['dirichlet_1'] for f in families]), 'hypervolume': of('hypervolume')}


def _passes(runs: Sequence[Mapping]) -> dict[str, str]:
  """Columns of how often one of k answers passes all tests."""
  return {f'pass@{k}': _cell([run['metrics']['pass_at_k'][k] for run in runs])
          for k in map(str, (1, 3, 10, 30, 100, 512)) if k in runs[0]['metrics']['pass_at_k']}


def _spread_and_cost(runs: Sequence[Mapping]) -> dict[str, str]:
  """Columns of how answers differ, and of what training spent (means)."""
  of = lambda name, digits=3: _cell([run['metrics'][name] for run in runs], digits)
  cost = lambda name: f'{np.mean([run.get(name, 0) for run in runs]):,.0f}'
  pools = [run['metrics'] for run in runs]
  return {
      'diversity': of('diversity_l1'), 'diversity, successful': of('diversity_l1_valid'),
      'distinct non-dominated': of('pareto_count', 1), 'position information': of('position_information'),
      'tokens an answer': _cell([p['generated_tokens'] / (p['num_problems'] * p['num_candidates']) for p in pools], 1),
      'training tokens': cost('tokens'), 'of prompts besides': cost('prompt_tokens'), 'rollouts': cost('rollouts'),
      'answers': cost('answers'), 'CPU s': cost('cpu_seconds')}


def metric_tables(results: Sequence[Mapping], base: Sequence[Mapping], pass_at_k: bool = False) -> str:
  """The methods of one setting, a row each, under the rows of the warm starts: quality, pass@k, spread and cost."""
  groups = {f'Warm start, {m} a rollout': [run for run in base if run['num_answers'] == m]
            for m in sorted({run['num_answers'] for run in base})}
  groups |= {findings.LABELS[method]: runs for method, runs in findings.by_method(results).items()}
  tables = []
  for columns in (_quality, *([_passes] if pass_at_k else []), _spread_and_cost):
    rows = {label: columns(runs) for label, runs in groups.items()}
    heading = next(iter(rows.values()))
    tables.append(markdown(('method', *heading), [[label, *row.values()] for label, row in rows.items()]))
  return '\n'.join(tables)


def gap(c: compare.Comparison) -> str:
  """A difference, with its 95 % interval and a star (Holm's p below .05) where there are runs enough."""
  if c.num_runs < findings.MIN_PAIRS:
    return findings.signed(c.difference)
  return f'{findings.signed(c.difference)} {findings.interval(c)}' + '*' * (c.p_holm < .05)


def difference_table(runs: Sequence[compare.Run], baseline: str) -> str:
  """Differences of every method to `baseline`: mean, 95 % interval, a star where Holm's p is below .05."""
  methods = [method for method in findings.ROWS if method != baseline and any(run.method == method for run in runs)]
  rows, pairs = [], {}
  for label, metric in DIFFERENCES.items():
    if all(metric in run.values for run in runs):
      found = {c.method: c for c in findings.differences(runs, metric, baseline)}
      pairs = {method: c.num_runs for method, c in found.items()}
      rows.append([label, *(gap(found[m]) if m in found else '–' for m in methods)])
  rows.append(['pairs of runs', *(str(pairs.get(method, 0)) for method in methods)])
  return markdown((f'method - {findings.LABELS[baseline]}', *(findings.LABELS[method] for method in methods)), rows)


def two_by_two(results: Sequence[Mapping], m: int) -> str:
  """What several answers and what random weightings add, each alone and together: best@30 / lopsided, best of 30."""
  methods = findings.by_method(results)

  def cell(method):
    if method not in methods or '30' not in methods[method][0]['metrics']['best_at_k']:
      return f'{findings.LABELS[method]} –'
    best = np.mean([run['metrics']['best_at_k']['30'] for run in methods[method]])
    lopsided = np.mean([findings.preferences(run)['lopsided'] for run in methods[method]])
    return f'{findings.LABELS[method]} {best:.3f} / {lopsided:.3f}'

  return markdown(('best@30 / lopsided', 'fixed weighting', 'random weightings'), [
      ['one answer a rollout', cell('grpo'), cell('random_weights')],
      [f'{m} answers a rollout', cell('set_max'), cell('vpo')]])


def gap_table(runs: Sequence[compare.Run], baseline: str = 'grpo', curve: str = 'best_at_k') -> str:
  """The gap to `baseline` in a curve at every k, and its slope: the change of the gap when k grows tenfold."""
  ks = sorted(int(name.split('/')[1]) for name in runs[0].values if name.startswith(f'{curve}/'))
  gaps = {k: {c.method: c for c in findings.differences(runs, f'{curve}/{k}', baseline)} for k in ks}
  rows = []
  for method in gaps[ks[0]]:
    means = [gaps[k][method].difference for k in ks]
    rows.append([findings.LABELS[method], *(gap(gaps[k][method]) for k in ks),
                 f'{np.polyfit(np.log10(ks), means, 1)[0]:+.4f}' if len(ks) > 1 else '–'])
  return markdown((f'- {findings.LABELS[baseline]}', *(f'k = {k}' for k in ks), 'a tenfold k'), rows)


def answers_to_reach(curve: Mapping[str, float], level: float) -> float | None:
  """The k at which a pass@k `curve` reaches `level`, between its points by log k; None if it never does."""
  ks = sorted(map(int, curve))
  values = [curve[str(k)] for k in ks]
  at = next((i for i, value in enumerate(values) if value >= level), None)
  if not at:
    return None if at is None else float(ks[0])
  share = (level - values[at - 1]) / (values[at] - values[at - 1])
  return float(ks[at - 1] * (ks[at] / ks[at - 1]) ** share)


def economics_table(results: Sequence[Mapping], base: Sequence[Mapping], baseline: str = 'grpo') -> str:
  """Answers, and generated tokens, that each method draws a problem to pass as many as the baseline with 10, 30, 100.

  By the means over runs.
  """
  mean = lambda runs: {k: float(np.mean([run['metrics']['pass_at_k'][k] for run in runs]))
                       for k in runs[0]['metrics']['pass_at_k']}
  groups = {f'Warm start, {m} a rollout': [run for run in base if run['num_answers'] == m]
            for m in sorted({run['num_answers'] for run in base})}
  methods = findings.by_method(results)
  groups |= {findings.LABELS[method]: runs for method, runs in methods.items()}
  levels = {k: value for k, value in mean(methods[baseline]).items() if k in ('10', '30', '100')}
  rows = []
  for label, runs in groups.items():
    pools = [run['metrics'] for run in runs]
    tokens = np.mean([p['generated_tokens'] / (p['num_problems'] * p['num_candidates']) for p in pools])
    reached = [answers_to_reach(mean(runs), level) for level in levels.values()]
    rows.append([label, *('never' if k is None else f'{k:,.0f} ({k * tokens:,.0f})' for k in reached)])
  return markdown(('answers (tokens) until', *(f'pass rate {level:.3f}' for level in levels.values())), rows)


def weak_table(results: Sequence[Mapping], group: plans.Group) -> str:
  """Pass@1 / pass@30 / pass@512 on the hidden tests by how many tests paid in training."""
  rows = []
  for method in plans.WEAKLY_PAID:
    cells = []
    for setting in (*(f'paid_{number}' for number in group.paid), 'tuned'):
      runs = [run for run in results if run['method'] == method and run['setting'] == setting]
      of = lambda k, runs=runs: np.mean([run['metrics']['pass_at_k'][k] for run in runs])
      cells.append(' / '.join(f'{of(k):.3f}' for k in ('1', '30', '512')) if runs else '–')
    rows.append([findings.LABELS[method], *cells])
  return markdown(('pass@1 / @30 / @512', *(f'{number} paid' for number in group.paid), 'all paid'), rows)


def decoding_table(results: Sequence[Mapping]) -> str:
  """Best@1 / best@30 on `test` by way of decoding; the last one at the T that has the best best@30 on `tuning`."""
  kinds = {}
  for result in results:
    kinds.setdefault((result['method'], result['num_answers']), []).append(result)
  rows = []
  for (method, m), runs in kinds.items():
    heats = {t: np.mean([at(run, 'tuning', m, temperature=t)['30'] for run in runs]) for t in jobs.TEMPERATURES
             if all('30' in at(run, 'tuning', m, temperature=t) for run in runs)}
    best = max(heats, key=heats.get) if heats else 1.
    other = next((row['num_answers'] for row in runs[0]['decoding'] if row['num_answers'] != m), m)
    ways = [*(('test', m, dict(temperature=t)) for t in (0., *jobs.TEMPERATURES)), ('test', m, dict(top_p=.95)),
            ('test', m, dict(min_p=.05)), ('test', other, dict(temperature=1.)), ('shifted', m, dict(temperature=1.)),
            ('test', m, dict(temperature=best))]
    cells = []
    for split, asked, how in ways:
      curves = [at(run, split, asked, **how) for run in runs]
      cells.append(' / '.join(f'{np.mean([curve[k] for curve in curves]):.3f}' if all(k in c for c in curves) else '–'
                              for k in ('1', '30')))
    cells[-1] += f' (T {best:g})'
    rows.append([f'{findings.LABELS[method]}, {m} a rollout', *cells])
  return markdown(('best@1 / best@30', 'greedy', *(f'T {t:g}' for t in jobs.TEMPERATURES), 'top-p 0.95', 'min-p 0.05',
                   'other prompt', 'shifted', 'best T'), rows)


def at(run: Mapping, split: str, num_answers: int, **how) -> dict[str, float]:
  """Best@k of the small pool that was decoded like this; empty if there is none."""
  for row in run['decoding']:
    if row['split'] == split and row['num_answers'] == num_answers and (
        {name: row[name] for name in ('temperature', 'top_p', 'min_p') if name in row} == how):
      return row['best_at_k']
  return {}


def tuning_table(results: Sequence[Mapping], group: plans.Group) -> str:
  """Best@30 on `tuning` of every cell, the best checkpoint's, and its step."""
  by_name, picked, rows = {r['name']: r for r in results}, findings.chosen(results, group), []
  for cell in plans.tuning_jobs(group):
    if cell.name in by_name:
      choice = by_name[cell.name]['metrics']['choice']
      step = max(choice, key=choice.get)
      own = plans.COEFFICIENT if plans.COEFFICIENT in cell.overrides else plans.K
      of = lambda name, cell=cell: f'{cell.overrides[name]:g}' if name in cell.overrides else '–'
      rows.append([findings.LABELS[cell.method], of(plans.RATE), of(plans.KL), of(own), f'{choice[step]:.4f}', step,
                   'chosen' if picked.get(cell.method) == cell.overrides else ''])
  return markdown(('method', 'learning rate', 'KL', 'k or λ', 'best@30, tuning', 'step', ''), rows)
