r"""Runs a comparison: many trainings and evaluations side by side, resumable, each leaving one small result file.

  python -m experiments.sweep --core           GRPO, VPO and Multi-RLVR, 2 warm starts x 3 seeds, then the bars
  python -m experiments.sweep                  all methods: tuning, then the tables
  python -m experiments.sweep --group maze_hard

Result files lie in experiments/<group>/runs/ and are committed; a job that has one is skipped. --rerun does all of
them anew, into the workdir. Arguments --config.field=value go to every run, for a try, whose results stay in the
workdir as well.
"""

import argparse
import collections
import sys
import time

from etils import epath

from experiments import findings, plans, results, side_by_side
from experiments.job import as_json


class Sweep:
  """Where a sweep reads and writes, and how it runs jobs."""

  def __init__(self, group: plans.Group, runs: epath.PathLike, found: epath.PathLike, overrides: list[str]):
    self.group, self.runs, self.found, self.overrides = group, epath.Path(runs), epath.Path(found), overrides
    self._env = side_by_side.environment(self.runs / 'compiled')
    self._at_a_time = side_by_side.slots()

  def do(self, title: str, jobs: list[plans.Job]) -> None:
    """Runs those jobs that have no result yet, the warm starts they need first; exits if one fails."""
    missing = [job for job in jobs if not (self.found / f'{job.name}.json').exists()]
    print(f'{title}: {len(jobs)} runs, {len(jobs) - len(missing)} of them already in {self.found}.', flush=True)
    if not missing:
      return
    self._train(self._starts(missing))
    # Jobs that share a training never run at the same time: the first trains, the others find it done.
    rounds = collections.defaultdict(list)
    for job in missing:
      rounds[sum(other.workdir == job.workdir for other in missing[:missing.index(job)])].append(job)
    for _, part in sorted(rounds.items()):
      self._run(part)

  def train(self, jobs: list[plans.Job]) -> None:
    """Trains what `jobs` measure, where it is not there, the warm starts first; exits if a run fails."""
    self._train(self._starts(jobs))
    self._train(jobs)

  def _starts(self, jobs: list[plans.Job]) -> list[plans.Job]:
    return [plans.Job(self.group.name, 'start', 'warm_start', w, w) for w in sorted({job.warm_start for job in jobs})]

  def _train(self, jobs: list[plans.Job]) -> None:
    self._run([job for job in jobs if not (self.runs / job.workdir / 'trained').exists()], train_only=True)

  def _run(self, jobs: list[plans.Job], train_only: bool = False) -> None:
    results_argument = [] if train_only else [f'--results={self.found}']
    commands = {job.name: [sys.executable, '-m', 'experiments.job', as_json(job), f'--runs={self.runs}',
                           *results_argument, *self.overrides] for job in jobs}
    failed = side_by_side.run(commands, logs=self.runs / 'logs', env=self._env, at_a_time=self._at_a_time)
    for name in failed:
      print(f'\n{name}:\n{side_by_side.tail(self.runs / "logs" / f"{name}.log")}')
    if failed:
      raise SystemExit(f'{len(failed)} runs failed. After mending, the same command does the rest.')


def core(sweep: Sweep) -> bool:
  """The core runs and their bars; returns whether all bars hold."""
  sweep.do('Core', core_jobs(sweep.group))
  bars = findings.core_bars(findings.read(sweep.found))
  print(findings.bars_text(bars))
  return all(bar.holds for bar in bars)


def core_jobs(group: plans.Group) -> list[plans.Job]:
  """GRPO, VPO and Multi-RLVR at KL 0, three seeds from each warm start."""
  return plans.table_jobs(group, 'kl0', methods=plans.CORE_METHODS)


def whole(sweep: Sweep) -> None:
  """Tuning, then all tables, then the report."""
  group = sweep.group
  sweep.do('Tuning', plans.tuning_jobs(group))
  chosen = findings.chosen(findings.read(sweep.found), group)
  print('Chosen on the tuning split:')
  for method, overrides in chosen.items():
    print(f'  {method}: ' + ', '.join(f'{name} {value}' for name, value in overrides.items()))
  sweep.do('Warm starts', plans.base_jobs(group))
  for setting in group.seeds:
    sweep.do(f'Table {setting}', plans.table_jobs(group, setting, chosen))
  if plans.ABLATIONS.get(group.name):
    sweep.do('Ablations', plans.table_jobs(group, 'kl0', methods=plans.ABLATIONS[group.name]))
  if group.paid:
    sweep.do('Weak verifiers', plans.weak_jobs(group, chosen))


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.sweep', description='Runs a comparison.')
  parser.add_argument('--group', default='maze_small', choices=plans.GROUPS)
  parser.add_argument('--core', action='store_true', help='the core methods and their bars only')
  parser.add_argument('--rerun', action='store_true', help='do all runs anew, results into the workdir')
  parser.add_argument('--workdir', help='folder of the trainings; runs/<group>/sweep by default')
  arguments, overrides = parser.parse_known_args()
  if arguments.core and 'kl0' not in plans.GROUPS[arguments.group].seeds:
    parser.error(f'--core: {arguments.group} has no table kl0.')
  start = time.monotonic()
  if arguments.rerun or overrides:
    runs = epath.Path(arguments.workdir or f'runs/{arguments.group}/{"try" if overrides else "rerun"}')
    found = runs / 'results'
  else:
    runs = epath.Path(arguments.workdir or f'runs/{arguments.group}/sweep')
    found = epath.Path(f'experiments/{arguments.group}/runs')
  sweep = Sweep(plans.GROUPS[arguments.group], runs, found, overrides)
  if arguments.core:
    passed = core(sweep)
  else:
    whole(sweep)
    passed = True
  out = found.parent
  results.write(plans.GROUPS[arguments.group], found, out)
  print(f'{(time.monotonic() - start) / 60:.0f} minutes. The results are in {found}, the tables and figures in {out}.')
  sys.exit(0 if passed else 1)


if __name__ == '__main__':
  main()
