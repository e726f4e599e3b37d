r"""On which task, and at which k, do methods on the vector of rewards beat those on its fixed scalar, all tuned?

  python -m experiments.vectors_and_scalars

Reads the tuned runs in experiments/<group>/runs; writes experiments/VECTORS_AND_SCALARS.md and its figure.
"""

from collections.abc import Mapping, Sequence

from etils import epath

from experiments import findings, plans, tables
from vpo_jax.evaluation import atomic, compare, plots

VECTORS = ('random_weights', 'vpo', 'vpo_subsets')
FOLDER = epath.Path(__file__).parent
NOTES = """Written by `python -m experiments.vectors_and_scalars`. Every method is tuned. A cell is its difference to
the scalar method that is best in that row (of GRPO, Max@K, Multi-RLVR, set max and, on programs, the diversity bonus),
with its 95 % interval, by the analysis of the plans. The best of several is picked on the data that it is compared on,
in favour of the scalar methods.
"""


def lead(runs: Sequence[compare.Run], metric: str, method: str) -> compare.Comparison:
  """The method minus the scalar method that is best by this metric."""
  scalars = dict.fromkeys(run.method for run in runs if run.method not in VECTORS)
  gaps = [c for baseline in scalars for c in findings.differences(runs, metric, baseline) if c.method == method]
  return min(gaps, key=lambda c: c.difference)


def page(leads: Mapping[str, Mapping[str, Mapping[str, compare.Comparison]]]) -> str:
  """VECTORS_AND_SCALARS.md."""
  cell = lambda c: f'{findings.signed(c.difference)} {findings.interval(c)} to {findings.LABELS[c.baseline]}'
  parts = [f'# Vectors and scalars\n\n{NOTES}']
  for title, by_metric in leads.items():
    parts += [f'## {title}\n', tables.markdown(('', *(findings.LABELS[method] for method in VECTORS)), [
        [metric, *(cell(found[method]) for method in VECTORS)] for metric, found in by_metric.items()])]
  return '\n'.join([*parts, '![The same as a figure](figures/vectors_and_scalars.png)\n'])


def main() -> None:
  """Writes the page and the figure."""
  leads, panels = {}, {}
  for group in plans.GROUPS.values():
    results = findings.read(FOLDER / group.name / 'runs')
    runs = [findings.as_run(result) for result in results if result['setting'] == 'tuned']
    if not runs:
      continue
    curve = 'pass_at_k' if group.pass_at_k else 'best_at_k'
    name = curve.replace('_at_', '@')
    ks = sorted(int(metric.split('/')[1]) for metric in runs[0].values if metric.startswith(f'{curve}/'))
    of = lambda metric, runs=runs: {method: lead(runs, metric, method) for method in VECTORS}
    by_k = {k: of(f'{curve}/{k}') for k in ks}
    title = f'{group.name}, {name}'
    leads[title] = {f'k = {k}': found for k, found in by_k.items()} | {
        'lopsided weightings, best of 30': of('preference/lopsided/30')}
    panels[title] = {method: {k: (found[method].difference, found[method].low, found[method].high)
                              for k, found in by_k.items()} for method in VECTORS}
  atomic.write_atomically(FOLDER / 'VECTORS_AND_SCALARS.md', page(leads).encode())
  plots.save(plots.gaps(panels), FOLDER / 'figures' / 'vectors_and_scalars.png')
  print(f'Written: {FOLDER}/VECTORS_AND_SCALARS.md and its figure.')


if __name__ == '__main__':
  main()
