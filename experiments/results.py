r"""From result files to tables, differences, figures and what came out in words; works on whatever runs there are.

  python -m experiments.results maze_small

Reads experiments/<group>/runs/*.json; writes results.json, RESULTS.md and figures/ beside that folder.
"""

import argparse
import json
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from experiments import findings, plans, tables
from experiments import job as jobs
from vpo_jax.evaluation import atomic, plots


def first_paragraphs(by_setting: Mapping[str, Sequence[Mapping]]) -> str:
  """What came out, in sentences made from the figures, a paragraph a table."""
  paragraphs = []
  name = {'tuned': 'tuned for each method', 'kl0': 'at KL 0', 'paper': 'at the papers\' settings'}
  for setting in ('tuned', 'paper', 'kl0'):
    runs = [findings.as_run(result) for result in by_setting.get(setting, ())]
    methods, sentences = {run.method for run in runs}, []

    def found(method, baseline, metric='best_at_k/30', runs=runs, methods=methods):
      if not {method, baseline} <= methods:
        return None
      return next((c for c in findings.differences(runs, metric, baseline)
                   if c.method == method and c.num_runs >= findings.MIN_PAIRS), None)

    def words(c):
      sense = 'ahead of' if c.low > 0 else 'behind' if c.high < 0 else 'level with'
      return f'{sense} {findings.LABELS[c.baseline]} ({findings.signed(c.difference)}, 95 % {findings.interval(c)})'

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
      if gain.low > 0:
        share, of = part.difference / gain.difference, findings.signed(gain.difference)
        sentences.append(f'Set-max alone makes {share:.0%} of VPO\'s gain over GRPO '
                         f'({findings.signed(part.difference)} of {of}); VPO is {words(rest)}.')
      else:
        sentences.append(f'VPO gains nothing over GRPO here; set-max minus GRPO is {findings.signed(part.difference)}.')
    paragraphs += [' '.join(sentences)] if sentences else []
  return '\n\n'.join(paragraphs) or 'No comparison is complete yet.'


def against_the_start(runs: Sequence[Mapping], base: Sequence[Mapping]) -> str:
  """What the warm start's best@30 is, and which methods end above it, each in its number of answers a rollout."""
  best = lambda results: float(np.mean([result['metrics']['best_at_k']['30'] for result in results]))
  starts = {n: best([r for r in base if r['num_answers'] == n]) for n in sorted({r['num_answers'] for r in base})}
  methods = {method: found for method, found in findings.by_method(runs).items() if found[0]['num_answers'] in starts}
  if not methods:
    return ''
  above = [findings.LABELS[method] for method, found in methods.items()
           if best(found) > starts[found[0]['num_answers']]]
  of = ', '.join(f'{value:.3f} ({n} a rollout)' for n, value in starts.items())
  who = 'all' if len(above) == len(methods) else ', '.join(above) or 'none'
  return f'Best@30 of the warm start is {of}. Above it, of {len(methods)} methods tuned from it: {who}.'


def missing(results: Sequence[Mapping], group: plans.Group) -> list[str]:
  """What the plan asks for and is not there, a line a table."""
  names, lines = {result['name'] for result in results}, []
  picked = findings.chosen(results, group)
  planned = {'tuning': plans.tuning_jobs(group), 'warm starts': plans.base_jobs(group)}
  for setting in group.seeds:
    ready = [method for method in group.methods if setting != 'tuned' or method in picked]
    planned[setting] = plans.table_jobs(group, setting, picked, methods=ready)
    if setting == 'tuned' and set(plans.WEAKLY_PAID) <= set(picked):
      planned['weak verifiers'] = plans.weak_jobs(group, picked)
    if setting == 'kl0':
      planned['ablations'] = plans.table_jobs(group, setting, methods=plans.ABLATIONS.get(group.name, ()))
    if len(ready) < len(group.methods):
      lines.append(f'{setting}: waits for the tuning of ' + ', '.join(m for m in group.methods if m not in ready) + '.')
  for title, planned_jobs in planned.items():
    absent = [job.name for job in planned_jobs if job.name not in names]
    if absent:
      lines.append(f'{title}: {len(absent)} of {len(planned_jobs)} runs, such as {absent[0]}.')
  return lines


NOTES = f"""Written by `python -m experiments.results` from `runs/*.json`; the plan is in `PLAN.md`. Test split, 512
answers a problem at temperature 1, best@k exact over k-subsets, ± sample deviation over runs, in parentheses the regret
to the exact optimum. Intervals: 95 %, bootstrap over problems and over pairs of runs with one warm start and seed; a
star: below .05 after Holm's correction over the methods. Both from {findings.MIN_PAIRS} pairs of runs on. Worst family:
the lowest best of 30 over the preference families {", ".join(findings.FAMILIES)}. Diversity:
mean L1 distance of reward vectors. Position information: mutual information, in nats, between a weighting and the
position of the answer that is best by it.
"""
OVERVIEW = ('warm_start', 'grpo', 'multi_rlvr', 'max_at_k', 'vpo', 'vpo_subsets')
DECODING_NOTES = """Small pools: 30 answers, 128 problems. Other prompt: one answer for the methods trained on several,
and the other way round. Shifted: mazes with items anywhere, programs with larger inputs. Best T: by best@30 on the
tuning split.
"""


WEAK_NOTES = """The tuned settings, but the first tests alone pay in training: 1, 2 or 4 of those shown in the prompt.
Measured at the last checkpoint (the others: at the one that tuning chose), on the hidden tests as ever.
"""


def report(results: Sequence[Mapping], group: plans.Group, figures: Sequence[str] = ()) -> str:
  """RESULTS.md; `figures` are the names of those beside it."""
  base = [r for r in results if r['setting'] == 'base']
  by_setting = {s: [r for r in results if r['setting'] == s] for s in group.seeds}
  parts = [f'# Results on `{group.name}`\n', first_paragraphs(by_setting) + '\n']
  start = against_the_start(by_setting.get('tuned', ()), base)
  parts += [f'{start}\n'] if start else []
  parts.append(NOTES)
  lines = missing(results, group)
  if lines:
    parts.append('## Missing\n\n' + '\n'.join(f'- {line}' for line in lines) + '\n')
  if 'kl0' in group.seeds:
    bars = findings.core_bars(results)
    word = {True: 'holds', False: '**fails**', None: 'open'}
    parts.append('## Bars of the plan\n\n' + tables.markdown(
        ('bar', 'found', 'verdict'), [[bar.asked, bar.found, word[bar.holds]] for bar in bars]))
  titles = {'tuned': 'Each method tuned', 'paper': 'The papers\' settings (KL 1e-3)', 'kl0': 'KL 0'}
  for setting, found in by_setting.items():
    if not found:
      continue
    runs = [findings.as_run(result) for result in found]
    parts.append(f'## {titles[setting]}\n\n' + tables.metric_tables(found, base, group.pass_at_k))
    parts.append(tables.two_by_two(found, group.num_answers))
    for baseline in ('grpo', 'max_at_k'):
      if len({run.method for run in runs}) > 1 and any(run.method == baseline for run in runs):
        parts.append(f'### Differences to {findings.LABELS[baseline]}\n\n' + tables.difference_table(runs, baseline))
    if len({run.method for run in runs}) > 1 and any(run.method == 'grpo' for run in runs):
      parts.append('### Gap to GRPO in best@k\n\n' + tables.gap_table(runs))
      if group.pass_at_k:
        parts.append('### Gap to GRPO in pass@k\n\n' + tables.gap_table(runs, curve='pass_at_k'))
        parts.append('### What equal pass rates cost\n\n' + tables.economics_table(found, base))
    if setting == 'tuned':
      parts.append(f'### Decoding\n\n{DECODING_NOTES}\n{tables.decoding_table([*base, *found])}')
  if any(r['setting'].startswith('paid_') for r in results):
    parts.append('## Weak verifiers\n\n' + WEAK_NOTES + '\n' + tables.weak_table(results, group))
  tuning = [r for r in results if r['setting'] == 'tuning']
  if tuning:
    parts.append('## Tuning\n\n' + tables.tuning_table(results, group))
  if figures:
    parts.append('Figures: ' + ', '.join(f'`figures/{name}.png`' for name in figures) + '.\n')
  return '\n'.join(parts)


def drawn(results: Sequence[Mapping], group: plans.Group) -> dict:
  """Figures by name, of the tables that have runs; ablations stand in the tables alone."""
  figures, panels, oracle = {}, {}, None
  base = [r for r in results if r['setting'] == 'base' and r['num_answers'] == 1]
  curves = lambda runs: [{int(k): v for k, v in run['metrics']['best_at_k'].items()} for run in runs]
  for setting in group.seeds:
    methods = findings.by_method([r for r in results if r['setting'] == setting and r['method'] in group.methods])
    if not methods:
      continue
    shown = ({'warm_start': base} if base else {}) | methods
    oracle = next(iter(methods.values()))[0]['metrics']['oracle']
    panels[setting] = {method: curves(runs) for method, runs in shown.items()}
    figures[f'best_at_k_{setting}'] = plots.best_at_k(panels[setting], oracle)
    points = {} if setting != 'tuned' else {method: {t: [(curve['1'], curve['30']) for run in runs
                           if '30' in (curve := tables.at(run, 'test', run['num_answers'], temperature=t))]
                       for t in jobs.TEMPERATURES} for method, runs in shown.items()}
    points = {method: by_t for method, by_t in points.items() if all(by_t.values())}
    if points:
      figures[f'temperature_{setting}'] = plots.temperatures(points)
    figures[f'diversity_{setting}'] = plots.diversity_over_training(
        {method: [_rows(run['history']) for run in runs] for method, runs in methods.items()})
  if {'kl0', 'tuned'} <= set(panels):
    titles = {setting: f'{title}, {len(panels[setting]["vpo"])} runs a method'
              for setting, title in (('kl0', 'No KL term'), ('tuned', 'Each method tuned')) if 'vpo' in panels[setting]}
    figures['overview'] = plots.best_at_k_panels(
        {title: {method: panels[setting][method] for method in OVERVIEW if method in panels[setting]}
         for setting, title in titles.items()}, oracle)
  return figures


def _rows(columns: Mapping[str, Sequence[float]]) -> list[dict]:
  return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write(group: plans.Group, folder: epath.PathLike, out: epath.PathLike) -> list[epath.Path]:
  """Writes `results.json`, `RESULTS.md` and `figures/` in `out` from the result files in `folder`.

  `results.json` holds the runs of the tables; tuning runs and warm starts stay in the result files.

  Returns:
    Paths of the files written.
  """
  results, out = findings.read(folder), epath.Path(out)
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
