r"""GRPO, VPO and VPO over subsets on a small task: from nothing to a table and figures, in minutes on two cores.

  python -m experiments.quickstart [--task programs] [--workdir runs/quickstart/maze_small] [--config.field=value ...]

One warm start, one seed: a look, no proof (that is `experiments.sweep`). A second call goes on where the first stopped.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from experiments import side_by_side
from experiments.job import SMALL_POOL, Policy
from vpo_jax import config, tasks
from vpo_jax.evaluate import evaluate
from vpo_jax.evaluation import atomic, metrics, plots, report, workdir
from vpo_jax.evaluation.pool import Pool
from vpo_jax.experience import stack_prompts
from vpo_jax.rollout import RolloutLoop
from vpo_jax.sampling.logits import sampling_params
from vpo_jax.train import make_model, train

# Name of the run: config file and what overrides it. The KL term of `grpo_kl` is what tuning chose for GRPO on mazes.
RUNS = {
    'vpo': ('vpo', ()),
    'grpo': ('grpo', ()),
    'grpo_kl': ('grpo', ('--config.loss.kl_coef=0.3', '--config.loss.kl_kind=k2')),
    'vpo_subsets': ('vpo_subsets', ()),
}
SHOWN = ('grpo', 'grpo_kl', 'vpo', 'vpo_subsets')
POOL = ('--config.eval.num_candidates=120',)
TEMPERATURES = (.5, .7, 1., 1.3)
PROBLEM = 0  # The tuning problem whose answers are shown: the first, not the prettiest.
SHOWN_ANSWERS = 3
Answers = Mapping[str, Sequence[str | None]]  # Of each run, as text; None where one is missing.


def settings_of(task: str, root: epath.Path, label: str, overrides: Sequence[str]):
  """Config of a run on `task`, or of the warm start."""
  if label == 'warm_start':
    return config.load(f'experiments/{task}/warm_start.py', [*POOL, *overrides])
  name, own = RUNS[label]
  return config.load(
      f'experiments/{task}/{name}.py', [f'--config.init_from={root / "warm_start"}', *own, *POOL, *overrides])


def do_run(task: str, root: epath.Path, label: str, overrides: Sequence[str]) -> None:
  """Trains a run and measures it, as far as that is not done."""
  folder, settings = root / label, settings_of(task, root, label, overrides)
  train(folder, settings)
  if label == 'warm_start':
    return
  policy = Policy(folder, config.plain(settings))
  step = policy.steps[-1]
  wanted = [step] + [0] * (label in ('grpo', 'vpo'))  # The warm start's own rows, asked for one answer and for three.
  for at in wanted:
    if not (folder / 'eval' / f'{at}.json').exists():
      evaluate(folder, step=at)
  for name, look in (('temperatures', temperature_points), ('answers', some_answers)):
    if not (folder / f'{name}.json').exists():
      atomic.write_atomically(folder / f'{name}.json', json.dumps(look(policy, step)).encode())


def temperature_points(policy: Policy, step: int) -> list[list[float]]:
  """`[temperature, best@1, best@30]` by small pools."""
  points = []
  for temperature in TEMPERATURES:
    scores = policy.pool(step, temperature=temperature, **SMALL_POOL).scores
    curve = metrics.best_curve(scores, (1, min(30, scores.shape[1]))).mean(axis=0)
    points.append([temperature, *curve.tolist()])
  return points


def some_answers(policy: Policy, step: int) -> list[str | None]:
  """`SHOWN_ANSWERS` answers to tuning problem `PROBLEM`, from one rollout where the policy can."""
  settings, task = policy.settings, policy.task
  m = settings['experience']['num_answers']
  example = task.examples('tuning')[PROBLEM]
  loop = RolloutLoop(make_model(task, settings['model']), max_new_tokens=task.response_width(m), segments=1)
  prompts = stack_prompts(task, [example], m)
  rollouts = SHOWN_ANSWERS // m
  sampling = sampling_params(vocab_size=task.vocab_size, stop_ids=task.stop_ids)
  responses = loop(policy.local_params(step, loop.devices), prompts.tokens, prompts.lengths,
                   np.arange(rollouts).reshape(1, rollouts), sampling, seed=settings['eval']['seed'], step=1)
  return [answer for tokens, length in zip(responses.tokens[0], responses.lengths[0], strict=True)
          for answer in task.decode(example, tokens[:length], m)]


def table(found: Mapping[str, workdir.Evaluated], starts: Mapping[str, workdir.Evaluated]) -> str:
  """Markdown table: the warm start asked in both ways, then the runs.

  Args:
    found: label to evaluation.
    starts: likewise, before training.
  """
  columns = {name: path for name, path in report.COLUMNS.items() if name != 'first answer'}
  rows = [['method', *columns, *report.COSTS]]
  for label, run in {**starts, **found}.items():
    values = []
    for path in columns.values():
      value = run.summary
      for part in path:
        value = value.get(part, {})
      values.append(f'{value:.3f}' if value != {} else '–')
    costs = [f'{run.history[-1][name]:,.0f}' if label in found else '–' for name in report.COSTS.values()]
    rows.append([plots.style(label)[0], *values, *costs])
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  rows.insert(1, ['-' * width for width in widths])
  return '\n'.join('| ' + ' | '.join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(
      row[1:], widths[1:], strict=True))]) + ' |' for row in rows) + '\n'


def best_at_k_figure(found: Mapping[str, workdir.Evaluated]):
  """Best@k of each run in the band of its 95 % interval over problems, and the exact optimum."""
  curves = {label: [{int(k): v for k, v in run.summary['best_at_k'].items()}] for label, run in found.items()}
  figure = plots.best_at_k(curves, oracle=next(iter(found.values())).summary['oracle'])
  for label, run in found.items():
    ks = sorted(map(int, run.summary['best_at_k']))
    low, high = np.transpose([run.summary['confidence'][f'best_at_k/{k}'] for k in ks])
    figure.axes[0].fill_between(ks, low, high, color=plots.style(label)[1], alpha=.15, linewidth=0)
  return figure


def draw_mazes(task, answers: Answers, pools: Mapping[str, Pool], out: epath.Path) -> None:
  """Draws problem `PROBLEM` with the routes of each run, and two components of the rewards of its pools."""
  example = task.examples('tuning')[PROBLEM]
  path = lambda answer: [int(cell) for cell in task.answer_path(example, answer)] if answer else []
  routes = {label: list(map(path, given)) for label, given in answers.items()}
  plots.save(plots.maze(example['cells'], task.size, routes), out / 'maze.png')
  success = np.concatenate([pool.rewards[pool.success] for pool in pools.values()])
  pair = plots.trade_off(success) if len(success) > 1 else (0, 1)
  plots.save(plots.reward_vectors({label: pool.rewards[PROBLEM] for label, pool in pools.items()},
                                  task.components, pair), out / 'reward_vectors.png')


def list_programs(task, answers: Answers, pools: Mapping[str, Pool], out: epath.Path) -> None:
  """Lists problem `PROBLEM` with the programs of each run, and draws which tests the answers of its pools pass."""
  example = task.examples('tuning')[PROBLEM]
  lines = [f'The visible pairs of a tuning problem; behind it is `{" ".join(task.program(example))}`.\n',
           *(f'    {pair}' for pair in task.visible_pairs(example)), '']
  rows = [(plots.style(label)[0], answer, task.reward(example, answer or '').sum())
          for label, given in answers.items() for answer in given]
  lines += ['| method | program | tests passed |', '|---|---|--:|']
  lines += [f'| {label} | `{answer or "none"}` | {passed:.0f} of {example["tests"].sum()} |'
            for label, answer, passed in rows]
  atomic.write_atomically(out / 'programs.md', ('\n'.join(lines) + '\n').encode())
  hidden = task.evaluation_mask(example)
  names = [name for name, counts in zip(task.components, hidden, strict=True) if counts]
  plots.save(plots.passed_tests({label: pool.rewards[PROBLEM][:, hidden] for label, pool in pools.items()}, names),
             out / 'tests.png')


LOOKS = {'maze_small': draw_mazes, 'programs': list_programs}


def write(root: epath.Path) -> epath.Path:
  """Writes the table and the figures from what the runs left; returns their folder."""
  folders = {label: root / label for label in SHOWN}
  last = {label: max(workdir.steps(folder)) for label, folder in folders.items()}
  found = {label: workdir.read(folder, last[label]) for label, folder in folders.items()}
  workdir.check_same_problems({run.name: run.pool.oracle for run in found.values()})
  starts = {f'Warm start, {run.pool.answers_per_rollout} a rollout': run
            for run in (workdir.read(folders[label], 0) for label in ('grpo', 'vpo'))}
  out = root / 'figures'
  atomic.write_atomically(out / 'table.md', table(found, starts).encode())
  print('\n' + table(found, starts))
  first = next(iter(found.values()))
  print(f'{first.summary["num_problems"]} tuning problems, {first.summary["num_candidates"]} answers each, one warm '
        f'start, one seed; the best possible scalar is {first.summary["oracle"]:.3f}.')

  plots.save(best_at_k_figure({'warm_start': workdir.read(folders['grpo'], 0)} | found), out / 'best_at_k.png')
  points = {label: {t: [(one, thirty)] for t, one, thirty in json.loads((folder / 'temperatures.json').read_text())}
            for label, folder in folders.items()}
  plots.save(plots.temperatures(points), out / 'temperature.png')
  plots.save(plots.diversity_over_training({label: [run.history] for label, run in found.items()}),
             out / 'diversity.png')
  task = tasks.make(**json.loads((folders['vpo'] / 'config.json').read_text())['config']['task'])
  answers = {label: json.loads((folder / 'answers.json').read_text()) for label, folder in folders.items()}
  LOOKS[task.name](task, answers, {label: found[label].pool for label in ('grpo', 'vpo')}, out)
  return out


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.quickstart', description='A first look, in minutes.')
  parser.add_argument('--task', default='maze_small', choices=LOOKS)
  parser.add_argument('--workdir', help='runs/quickstart/<task> by default')
  parser.add_argument('--run', help='do this part only, in this process')
  arguments, overrides = parser.parse_known_args()
  root = epath.Path(arguments.workdir or f'runs/quickstart/{arguments.task}')
  if arguments.run:
    do_run(arguments.task, root, arguments.run, overrides)
    return
  start = time.monotonic()
  settings_of(arguments.task, root, 'warm_start', overrides)  # A mistake in an override shows here, not in a log.
  env, at_a_time = side_by_side.environment(root / 'compiled'), side_by_side.slots()
  command = lambda label: [sys.executable, '-m', 'experiments.quickstart', f'--task={arguments.task}',
                           f'--workdir={root}', f'--run={label}', *overrides]
  for title, labels in (('Warm start', ('warm_start',)), ('Methods', tuple(RUNS))):
    names = ', '.join(plots.style(label)[0] for label in labels)
    print(f'{title}: {names}; at most {at_a_time} at a time.', flush=True)
    failed = side_by_side.run({label: command(label) for label in labels}, logs=root / 'logs',
                              env=env, at_a_time=at_a_time)
    if failed:
      raise SystemExit('\n'.join(f'{name}: {side_by_side.tail(root / "logs" / f"{name}.log")}' for name in failed))
  out = write(root)
  print(f'{(time.monotonic() - start) / 60:.1f} minutes. The table and figures are in {out}.')


if __name__ == '__main__':
  main()
