r"""Small questions to the advantage kernels, answered in seconds each.

  python -m experiments.bandits                       all of them, about 5 minutes on one core
  python -m experiments.bandits --only three_answers

Writes results.json (every seed) and RESULTS.md (made from it) beside this file.
"""

import argparse
import importlib
import json
import time

import numpy as np
from etils import epath

from vpo_jax.evaluation import atomic

FOLDER = epath.Path(__file__).parent
QUESTIONS = (
    'three_answers', 'deceptive_valley', 'hidden_context', 'rare_behaviour', 'two_rewards', 'collinearity', 'subsets')


def cell(values) -> str:
  """Mean and spread over seeds; how many never came there, if some did not."""
  values = np.array(values, float)  # None becomes NaN.
  came = values[~np.isnan(values)]
  digits = 0 if len(came) and came.max() > 10 else 3
  if not len(came):
    return 'never'
  spread = f'{came.mean():.{digits}f} ± {came.std(ddof=min(1, len(came) - 1)):.{digits}f}'
  return spread if len(came) == len(values) else f'{spread}; {len(values) - len(came)} of {len(values)} never'


def table(rows) -> list[str]:
  """Lines of a Markdown table: label -> measure -> values."""
  measures = list(next(iter(rows.values())))
  lines = ['| | ' + ' | '.join(measures) + ' |', '|---' * (len(measures) + 1) + '|']
  return lines + ['| ' + ' | '.join([label, *(cell(row[m]) for m in measures)]) + ' |' for label, row in rows.items()]


def differences(rows, compared) -> list[str]:
  """One line for each pair of rows that both have the measure: the difference, paired by seed."""
  lines = []
  for one, other, measure in compared:
    if measure not in rows.get(one, {}) or measure not in rows.get(other, {}):
      continue
    gaps = np.array(rows[one][measure], float) - np.array(rows[other][measure], float)
    digits = 1 if np.abs(gaps).max() > 10 else 4
    error = gaps.std(ddof=1) / len(gaps) ** .5
    lines.append(
        f'- {one} − {other}, {measure}: {gaps.mean():+.{digits}f} ± {error:.{digits}f} (standard error); '
        f'larger in {(gaps > 0).sum()} of {len(gaps)} seeds.')
  return lines


def page(results) -> str:
  """RESULTS.md."""
  lines = [
      '# Bandit lab', '', 'Written by `python -m experiments.bandits` from results.json. Cells are mean ± standard '
      'deviation over seeds. best@n is the expected best of n answers of the policy at the end of training, by '
      'enumeration, for a fixed draw of users. Step sizes were not tuned for any method.', '']
  for name in QUESTIONS:
    if name not in results:
      continue
    question = importlib.import_module(f'experiments.bandits.{name}')
    result = results[name]
    lines += [
        f'## {name}', '', f'`python -m experiments.bandits --only {name}`: {result["seeds"]} seeds, '
        f'{result["cpu_seconds"]:.0f} CPU seconds, compiling included.', '', question.__doc__.strip(), '']
    for title, rows in result['tables'].items():
      lines += [*([f'### {title}', ''] if title else []), *table(rows), '']
      paired = differences(rows, question.COMPARED)
      lines += [*paired, ''] if paired else []
    lines += [question.READING.strip(), '']
  return '\n'.join(lines)


def main():
  parser = argparse.ArgumentParser(prog='python -m experiments.bandits', description=__doc__.splitlines()[0])
  parser.add_argument('--only', choices=QUESTIONS)
  only = parser.parse_args().only
  path = FOLDER / 'results.json'
  results = json.loads(path.read_text()) if path.exists() else {}
  for name in QUESTIONS if only is None else (only,):
    start = time.process_time()
    tables = importlib.import_module(f'experiments.bandits.{name}').run()
    seconds = time.process_time() - start
    values = next(iter(next(iter(next(iter(tables.values())).values())).values()))
    results[name] = {'seeds': len(values), 'cpu_seconds': round(seconds, 1), 'tables': tables}
    print(f'{name}: {seconds:.0f} CPU seconds', flush=True)
    atomic.write_atomically(path, (json.dumps(results, allow_nan=False) + '\n').encode())
    atomic.write_atomically(FOLDER / 'RESULTS.md', page(results).encode())
  print(f'Tables are in {FOLDER / "RESULTS.md"}.')


if __name__ == '__main__':
  main()
