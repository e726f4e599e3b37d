r"""From result files to tables, differences, figures and a first paragraph; works on whatever runs there are.

  python -m experiments.results maze_small

Reads experiments/<group>/runs/*.json; writes results.json, RESULTS.md and figures/ beside that folder.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from experiments import job as jobs
from experiments import plans
from vpo_jax.evaluation import atomic, compare, plots

ROWS = ('warm_start', *plans.METHODS, *(method for extra in plans.ABLATIONS.values() for method in extra))
LABELS = {method: plots.style(method)[0] for method in ROWS}
NONLINEAR = ('tchebycheff', 'minimum', 'threshold_counts')
FAMILIES = ('dirichlet_1', 'dirichlet_0.3', 'lopsided', 'nonlinear')
PREFERENCE_K = 30


def read(folder: epath.PathLike) -> list[dict]:
  """All results in `folder`, by name."""
  return [json.loads(path.read_text()) for path in sorted(epath.Path(folder).glob('*.json'))]


def chosen(results: Sequence[Mapping], group: plans.Group) -> dict[str, dict[str, float]]:
  """Overrides of each method's best tuning run; methods whose tuning is not complete are left out."""
  by_name = {result['name']: result for result in results}
  best = {}
  for method in plans.METHODS:
    cells = [job for job in plans.tuning_jobs(group) if job.method == method]
    if all(job.name in by_name for job in cells):
      best[method] = max(cells, key=lambda job: max(by_name[job.name]['metrics']['choice'].values())).overrides
  return best


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


def signed(value: float) -> str:
  """Three digits with a sign."""
  return f'{value:+.3f}'


def interval(c: compare.Comparison) -> str:
  """Ends of the 95 % interval."""
  return f'[{signed(c.low)}, {signed(c.high)}]'


def preferences(result: Mapping) -> dict[str, float]:
  """Mean best of 30 (of all, in a smaller pool) by each family of `FAMILIES`."""
  best = result['metrics']['expected_best']
  at = lambda curve: curve.get(str(PREFERENCE_K), list(curve.values())[-1])
  return {
      'dirichlet_1': at(best['dirichlet_1']), 'dirichlet_0.3': at(best['dirichlet_0.3']),
      'lopsided': float(np.mean([at(curve) for name, curve in best.items() if name.startswith('lopsided_')])),
      'nonlinear': float(np.mean([at(best[name]) for name in NONLINEAR]))}


def _cell(values: Sequence[float], digits: int = 3) -> str:
  """Mean ± sample deviation over runs."""
  mean = f'{np.mean(values):,.{digits}f}'
  return mean if len(values) == 1 else f'{mean} ± {np.std(values, ddof=1):,.{digits}f}'


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """A table; the first column to the left, the others to the right."""
  lines = [heading, ['---', *['---:'] * (len(heading) - 1)], *rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines) + '\n'


def by_method(results: Sequence[Mapping]) -> dict[str, list[Mapping]]:
  """Results of each method, in the order of the plan, the warm start first."""
  found = {method: [r for r in results if r['method'] == method] for method in ROWS}
  return {method: runs for method, runs in found.items() if runs}


def _quality(runs: Sequence[Mapping]) -> dict[str, str]:
  """Columns of what answers are worth."""
  def curve(k):
    if str(k) not in runs[0]['metrics']['best_at_k']:
      return '–'
    best = [run['metrics']['best_at_k'][str(k)] for run in runs]
    return f'{_cell(best)} ({np.mean([run["metrics"]["oracle"] for run in runs]) - np.mean(best):.3f})'

  families = [preferences(run) for run in runs]
  of = lambda name: _cell([run['metrics'][name] for run in runs])
  return {'runs': str(len(runs))} | {f'best@{k} (regret)': curve(k) for k in (1, 3, 10, 30, 512)} | {
      'first answer': of('first_answer'), 'completion': of('completion'),
      'worst family': _cell([min(f.values()) for f in families]), 'lopsided': _cell([f['lopsided'] for f in families]),
      'Dirichlet(1), seen': _cell([f['dirichlet_1'] for f in families]), 'hypervolume': of('hypervolume')}


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


def metric_tables(results: Sequence[Mapping], base: Sequence[Mapping]) -> str:
  """The methods of one setting, a row each, under the rows of the warm starts: quality, then spread and cost."""
  groups = {f'Warm start, {m} a rollout': [run for run in base if run['num_answers'] == m]
            for m in sorted({run['num_answers'] for run in base})}
  groups |= {LABELS[method]: runs for method, runs in by_method(results).items()}
  tables = []
  for columns in (_quality, _spread_and_cost):
    rows = {label: columns(runs) for label, runs in groups.items()}
    heading = next(iter(rows.values()))
    tables.append(markdown(('method', *heading), [[label, *row.values()] for label, row in rows.items()]))
  return '\n'.join(tables)


DIFFERENCES = {
    'best@1': 'best_at_k/1', 'best@3': 'best_at_k/3', 'best@10': 'best_at_k/10', 'best@30': 'best_at_k/30',
    'best@512': 'best_at_k/512', 'lopsided, best of 30': 'preference/lopsided/30',
    'non-linear, best of 30': 'preference/nonlinear/30', 'Dirichlet(1), best of 30': 'preference/dirichlet_1/30',
    'hypervolume': 'hypervolume', 'diversity, successful': 'diversity_l1_valid'}


def difference_table(runs: Sequence[compare.Run], baseline: str) -> str:
  """Differences of every method to `baseline`: mean, 95 % interval, a star where Holm's p is below .05."""
  methods = [method for method in ROWS if method != baseline and any(run.method == method for run in runs)]
  rows, pairs = [], {}
  for label, metric in DIFFERENCES.items():
    if all(metric in run.values for run in runs):
      found = {c.method: c for c in differences(runs, metric, baseline)}
      pairs = {method: c.num_runs for method, c in found.items()}
      rows.append([label, *(f'{signed(found[m].difference)} {interval(found[m])}' + '*' * (found[m].p_holm < .05)
                            if m in found else '–' for m in methods)])
  rows.append(['pairs of runs', *(str(pairs.get(method, 0)) for method in methods)])
  return markdown((f'method - {LABELS[baseline]}', *(LABELS[method] for method in methods)), rows)


def two_by_two(results: Sequence[Mapping], m: int) -> str:
  """What several answers and what random weightings add, each alone and together: best@30 / lopsided, best of 30."""
  methods = by_method(results)

  def cell(method):
    if method not in methods or '30' not in methods[method][0]['metrics']['best_at_k']:
      return f'{LABELS[method]} –'
    best = np.mean([run['metrics']['best_at_k']['30'] for run in methods[method]])
    lopsided = np.mean([preferences(run)['lopsided'] for run in methods[method]])
    return f'{LABELS[method]} {best:.3f} / {lopsided:.3f}'

  return markdown(('best@30 / lopsided', 'fixed weighting', 'random weightings'), [
      ['one answer a rollout', cell('grpo'), cell('random_weights')],
      [f'{m} answers a rollout', cell('set_max'), cell('vpo')]])


def gap_table(runs: Sequence[compare.Run], baseline: str = 'grpo') -> str:
  """The gap to `baseline` in best@k at every k, and its slope: the change of the gap when k grows tenfold."""
  ks = sorted(int(name.split('/')[1]) for name in runs[0].values if name.startswith('best_at_k/'))
  gaps = {k: {c.method: c for c in differences(runs, f'best_at_k/{k}', baseline)} for k in ks}
  rows = []
  for method in gaps[ks[0]]:
    means = [gaps[k][method].difference for k in ks]
    rows.append([LABELS[method], *(f'{signed(gaps[k][method].difference)} {interval(gaps[k][method])}' for k in ks),
                 f'{np.polyfit(np.log10(ks), means, 1)[0]:+.4f}' if len(ks) > 1 else '–'])
  return markdown((f'- {LABELS[baseline]}', *(f'k = {k}' for k in ks), 'a tenfold k'), rows)


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
    rows.append([f'{LABELS[method]}, {m} a rollout', *cells])
  return markdown(('best@1 / best@30', 'greedy', *(f'T {t:g}' for t in jobs.TEMPERATURES), 'top-p 0.95', 'min-p 0.05',
                   'other prompt', 'shifted mazes', 'best T'), rows)


def at(run: Mapping, split: str, num_answers: int, **how) -> dict[str, float]:
  """Best@k of the small pool that was decoded like this; empty if there is none."""
  for row in run['decoding']:
    if row['split'] == split and row['num_answers'] == num_answers and (
        {name: row[name] for name in ('temperature', 'top_p', 'min_p') if name in row} == how):
      return row['best_at_k']
  return {}


def tuning_table(results: Sequence[Mapping], group: plans.Group) -> str:
  """Best@30 on `tuning` of every cell, the best checkpoint's, and its step."""
  by_name, picked, rows = {r['name']: r for r in results}, chosen(results, group), []
  for cell in plans.tuning_jobs(group):
    if cell.name in by_name:
      choice = by_name[cell.name]['metrics']['choice']
      step = max(choice, key=choice.get)
      of = lambda name, cell=cell: f'{cell.overrides[name]:g}' if name in cell.overrides else '–'
      rows.append([LABELS[cell.method], of(plans.RATE), of(plans.KL), of(plans.K), f'{choice[step]:.4f}', step,
                   'chosen' if picked.get(cell.method) == cell.overrides else ''])
  return markdown(('method', 'learning rate', 'KL', 'k', 'best@30, tuning', 'step', ''), rows)


def first_paragraph(tables: Mapping[str, Sequence[Mapping]]) -> str:
  """What came out, in sentences made from the figures."""
  sentences = []
  name = {'tuned': 'tuned for each method', 'kl0': 'at KL 0', 'paper': 'at the papers\' settings'}
  for setting in ('tuned', 'paper', 'kl0'):
    runs = [as_run(result) for result in tables.get(setting, ())]
    methods = {run.method for run in runs}

    def found(method, baseline, metric='best_at_k/30', runs=runs, methods=methods):
      if not {method, baseline} <= methods:
        return None
      return next((c for c in differences(runs, metric, baseline) if c.method == method), None)

    def words(c):
      sense = 'ahead of' if c.low > 0 else 'behind' if c.high < 0 else 'level with'
      return f'{sense} {LABELS[c.baseline]} ({signed(c.difference)}, 95 % {interval(c)})'

    vpo = [words(c) for c in (found('vpo', 'grpo'), found('vpo', 'max_at_k'), found('vpo', 'multi_rlvr')) if c]
    if vpo:
      sentences.append(f'In best@30 by the fixed scalar, {name[setting]}, VPO is ' + ', '.join(vpo) + '.')
    first = found('vpo', 'grpo', 'best_at_k/1')
    if first:
      sentences.append(f'In best@1 it is {words(first)}.')
    lopsided = found('vpo', 'grpo', 'preference/lopsided/30')
    if lopsided:
      sentences.append(f'Under lopsided preferences (best of 30) it is {words(lopsided)}.')
    subsets = [words(c) for c in (found('vpo_subsets', b) for b in ('vpo', 'grpo', 'max_at_k')) if c]
    if subsets:
      sentences.append('`vpo_subsets` is ' + ', '.join(subsets) + '.')
    gain, part = found('vpo', 'grpo'), found('set_max', 'grpo')
    rest = found('vpo', 'set_max')
    if gain and part and rest:
      if gain.difference > 0:
        sentences.append(f'Set-max alone makes {part.difference / gain.difference:.0%} of VPO\'s gain over GRPO '
                         f'({signed(part.difference)} of {signed(gain.difference)}); VPO is {words(rest)}.')
      else:
        sentences.append(f'VPO gains nothing over GRPO here; set-max gains {signed(part.difference)}.')
  return ' '.join(sentences) or 'No comparison is complete yet.'


def missing(results: Sequence[Mapping], group: plans.Group) -> list[str]:
  """What the plan asks for and is not there, a line a table."""
  names, lines = {result['name'] for result in results}, []
  picked = chosen(results, group)
  planned = {'tuning': plans.tuning_jobs(group), 'warm starts': plans.base_jobs(group)}
  for setting in group.seeds:
    ready = [method for method in plans.METHODS if setting != 'tuned' or method in picked]
    planned[setting] = plans.table_jobs(group, setting, picked, methods=ready)
    if setting == 'kl0':
      planned['ablations'] = plans.table_jobs(group, setting, methods=plans.ABLATIONS.get(group.name, ()))
    if len(ready) < len(plans.METHODS):
      lines.append(f'{setting}: waits for the tuning of ' + ', '.join(m for m in plans.METHODS if m not in ready) + '.')
  for title, planned_jobs in planned.items():
    absent = [job.name for job in planned_jobs if job.name not in names]
    if absent:
      lines.append(f'{title}: {len(absent)} of {len(planned_jobs)} runs, such as {absent[0]}.')
  return lines


NOTES = f"""Written by `python -m experiments.results` from `runs/*.json`; the plan is in `PLAN.md`. Test split, 512
answers a problem at temperature 1, best@k exact over k-subsets, ± sample deviation over runs, in parentheses the regret
to the exact optimum. Intervals: 95 %, bootstrap over problems and over pairs of runs with one warm start and seed; a
star: below .05 after Holm's correction over the methods. Worst family: the lowest best of 30 over the preference
families {", ".join(FAMILIES)}. Diversity: mean L1 distance of reward vectors. Position information: mutual
information, in nats, between a weighting and the position of the answer that is best by it.
"""
DECODING_NOTES = """Small pools: 30 answers, 128 problems. Other prompt: one answer for the methods trained on several,
and the other way round. Shifted mazes: items anywhere. Best T: by best@30 on the tuning split.
"""


def report(results: Sequence[Mapping], group: plans.Group, figures: Sequence[str] = ()) -> str:
  """RESULTS.md; `figures` are the names of those beside it."""
  base = [r for r in results if r['setting'] == 'base']
  tables = {s: [r for r in results if r['setting'] == s] for s in group.seeds}
  parts = [f'# Results on `{group.name}`\n', first_paragraph(tables) + '\n']
  parts.append(NOTES)
  lines = missing(results, group)
  if lines:
    parts.append('## Missing\n\n' + '\n'.join(f'- {line}' for line in lines) + '\n')
  if 'kl0' in group.seeds:
    bars = core_bars(results)
    word = {True: 'holds', False: '**fails**', None: 'open'}
    parts.append('## Bars of the plan\n\n' + markdown(
        ('bar', 'found', 'verdict'), [[bar.asked, bar.found, word[bar.holds]] for bar in bars]))
  titles = {'tuned': 'Each method tuned', 'paper': 'The papers\' settings (KL 1e-3)', 'kl0': 'KL 0'}
  for setting, found in tables.items():
    if not found:
      continue
    runs = [as_run(result) for result in found]
    parts.append(f'## {titles[setting]}\n\n' + metric_tables(found, base))
    parts.append(two_by_two(found, group.num_answers))
    for baseline in ('grpo', 'max_at_k'):
      if len({run.method for run in runs}) > 1 and any(run.method == baseline for run in runs):
        parts.append(f'### Differences to {LABELS[baseline]}\n\n' + difference_table(runs, baseline))
    if len({run.method for run in runs}) > 1 and any(run.method == 'grpo' for run in runs):
      parts.append('### Gap to GRPO in best@k\n\n' + gap_table(runs))
    if setting == 'tuned':
      parts.append(f'### Decoding\n\n{DECODING_NOTES}\n{decoding_table([*base, *found])}')
  tuning = [r for r in results if r['setting'] == 'tuning']
  if tuning:
    parts.append('## Tuning\n\n' + tuning_table(results, group))
  if figures:
    parts.append('Figures: ' + ', '.join(f'`figures/{name}.png`' for name in figures) + '.\n')
  return '\n'.join(parts)


def drawn(results: Sequence[Mapping], group: plans.Group) -> dict:
  """Figures by name, of the tables that have runs."""
  figures = {}
  base = [r for r in results if r['setting'] == 'base' and r['num_answers'] == 1]
  for setting in group.seeds:
    methods = by_method([r for r in results if r['setting'] == setting])
    if not methods:
      continue
    shown = ({'warm_start': base} if base else {}) | methods
    oracle = next(iter(methods.values()))[0]['metrics']['oracle']
    figures[f'best_at_k_{setting}'] = plots.best_at_k(
        {method: [{int(k): v for k, v in run['metrics']['best_at_k'].items()} for run in runs]
         for method, runs in shown.items()}, oracle=oracle)
    points = {} if setting != 'tuned' else {method: {t: [(curve['1'], curve['30']) for run in runs
                           if '30' in (curve := at(run, 'test', run['num_answers'], temperature=t))]
                       for t in jobs.TEMPERATURES} for method, runs in shown.items()}
    points = {method: by_t for method, by_t in points.items() if all(by_t.values())}
    if points:
      figures[f'temperature_{setting}'] = plots.temperatures(points)
    figures[f'diversity_{setting}'] = plots.diversity_over_training(
        {method: [_rows(run['history']) for run in runs] for method, runs in methods.items()})
  return figures


def _rows(columns: Mapping[str, Sequence[float]]) -> list[dict]:
  return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write(group: plans.Group, folder: epath.PathLike, out: epath.PathLike) -> list[epath.Path]:
  """Writes `results.json`, `RESULTS.md` and `figures/` in `out` from the result files in `folder`.

  `results.json` holds the runs of the tables; tuning runs and warm starts stay in the result files.

  Returns:
    Paths of the files written.
  """
  results, out = read(folder), epath.Path(out)
  slim = [{name: value for name, value in result.items() if name not in ('per_problem', 'history', 'decoding')}
          for result in results if result['setting'] in group.seeds]
  for result in slim:
    result['metrics'] = {name: value for name, value in result['metrics'].items() if name != 'confidence'}
  written = [out / 'results.json', out / 'RESULTS.md']
  rows = ',\n'.join(json.dumps(result, allow_nan=False) for result in slim)
  atomic.write_atomically(written[0], f'[\n{rows}\n]\n'.encode())
  figures = drawn(results, group)
  atomic.write_atomically(written[1], report(results, group, list(figures)).encode())
  for name, figure in figures.items():
    written.append(out / 'figures' / f'{name}.png')
    plots.save(figure, written[-1])
  return written


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.results', description='Tables and figures of a sweep.')
  parser.add_argument('group', choices=plans.GROUPS)
  parser.add_argument('--results', help='folder of result files; experiments/<group>/runs by default')
  parser.add_argument('--out', help='folder of what is written; the parent of --results by default')
  arguments = parser.parse_args()
  folder = epath.Path(arguments.results or f'experiments/{arguments.group}/runs')
  written = write(plans.GROUPS[arguments.group], folder, arguments.out or folder.parent)
  print('Written: ' + ' '.join(map(str, written)))


if __name__ == '__main__':
  main()
