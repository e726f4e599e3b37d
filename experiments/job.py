r"""One run of a comparison in its own process: trains, measures, leaves small files (its result, its pool of rewards).

  python -m experiments.job JSON --runs FOLDER --results FOLDER [--config.field=value ...]

JSON holds the fields of `plans.Job`. A finished training is not trained again, a stopped one goes on.
"""

import argparse
import base64
import dataclasses
import json
import time
from collections.abc import Sequence

import numpy as np
from etils import epath

from experiments import plans
from vpo_jax import checkpoint, config, partition, tasks
from vpo_jax.evaluate import sample_pool
from vpo_jax.evaluation import atomic, summary
from vpo_jax.evaluation.pool import Pool
from vpo_jax.train import make_model, make_run, train

# Pools for a choice between checkpoints or settings, and for a look at a way of decoding.
CHOICE_POOL = dict(num_candidates=60, num_problems=256)
SMALL_POOL = dict(num_candidates=30, num_problems=128)
TEMPERATURES = (.5, .7, 1., 1.2, 1.5)
DECODINGS = (*(dict(temperature=t) for t in TEMPERATURES), dict(top_p=.95), dict(min_p=.05))
CHOICE = 'best_at_k/30'
# Of each problem, for paired comparisons: enough for every table, small enough to commit.
PER_PROBLEM = ('first_answer', 'completion', 'diversity_l1', 'diversity_l1_valid', 'diversity_l1_within_rollout',
               'hypervolume', 'pareto_count', 'oracle')
PER_PROBLEM_CURVES = ('best_at_k', 'best_at_k_rollouts', 'pass_at_k')
PER_PROBLEM_KS = (10, 30)  # Of the preference families.
HISTORY = ('generated_tokens_total', 'reward/scalar', 'success', 'reward/completion', 'diversity_l1',
           'diversity_l1_valid', 'entropy')
HISTORY_POINTS = 30


def encode(values: np.ndarray) -> dict:
  """`[problems]` non-negative floats as text: 16 bits a problem, exact to 1 / 131,070 of the largest."""
  largest = float(values.max()) or 1.
  steps = np.round(np.asarray(values, np.float64) / largest * 65535).astype('<u2')
  return {'max': largest, 'uint16': base64.b64encode(steps.tobytes()).decode()}


def decode(text: dict) -> np.ndarray:
  """`[problems]` float64 of what `encode` wrote."""
  return np.frombuffer(base64.b64decode(text['uint16']), '<u2') / 65535 * text['max']


def kept(name: str) -> bool:
  """Whether the per-problem values of a metric are kept."""
  family, _, k = name.rpartition('/')
  return name in PER_PROBLEM or family in PER_PROBLEM_CURVES or (
      family.startswith('expected_best/') and int(k) in PER_PROBLEM_KS)


def rounded(content, digits: int = 5):
  """Nested dicts and lists with floats cut to so many digits, so that files stay small."""
  match content:
    case float():
      return float(f'{content:.{digits}g}')
    case dict():
      return {key: rounded(value, digits) for key, value in content.items()}
    case list() | tuple():
      return [rounded(value, digits) for value in content]
  return content


def history(workdir: epath.Path) -> dict[str, list[float]]:
  """Columns of `metrics.jsonl` at `HISTORY_POINTS` rows spread over the run."""
  rows = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
  picked = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, HISTORY_POINTS).round().astype(int))]
  return {name: [row[name] for row in picked] for name in HISTORY if name in rows[-1]}


def training_costs(settings: dict, workdir: epath.Path, step: int) -> dict:
  """What the run spent until `step`: generated tokens, and beside them what else could be called its budget."""
  rows = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
  row = next(row for row in rows if row['step'] == step)
  experience = settings['experience']
  if experience['kind'] != 'rollouts':
    return {'tokens': 0, 'cpu_seconds': row['cpu_seconds_total'], 'seconds': row['seconds_total']}
  rollouts = step * experience['prompts'] * experience['rollouts']
  return {
      'tokens': row['generated_tokens_total'],
      'prompt_tokens': rollouts * tasks.make(**settings['task']).prompt_width,
      'rollouts': rollouts,
      'answers': rollouts * experience['num_answers'],
      'cpu_seconds': row['cpu_seconds_total'],
      'seconds': row['seconds_total'],
  }


class Policy:
  """Checkpoints of a finished training, ready to be sampled."""

  def __init__(self, workdir: epath.Path, settings: dict):
    self.workdir, self.settings = workdir, settings
    self._run = config.call(make_run, settings, 'config')
    self.task = tasks.make(**settings['task'])
    self.steps = sorted(int(path.name) for path in (workdir / 'checkpoints').iterdir() if path.name.isdigit())
    self._params = {}

  def params(self, step: int):
    """Parameters of a checkpoint; those of the last call are kept."""
    if step not in self._params:
      self._params = {step: checkpoint.restore_params(
          self.workdir / 'checkpoints', self._run.learner.abstract_state.params, step)}
    return self._params[step]

  def local_params(self, step: int, devices: list):
    """Parameters of a checkpoint as the rollout loop takes them."""
    return partition.replicate_local(self.params(step), self._run.learner.mesh, devices)

  def params_hash(self, step: int) -> str:
    """By which runs name the warm start that they come from."""
    return checkpoint.params_hash(self.params(step))

  def pool(self, step: int, **changes) -> Pool:
    """Samples a pool by the config's `eval` part with changes; sizes are never raised above the config's."""
    settings = dict(self.settings['eval'])
    for name in ('num_candidates', 'num_problems'):
      changes[name] = min(settings[name], changes.get(name, settings[name]))
    if changes.get('num_answers', 1) > 1:
      changes.setdefault('segments', 2)
    return config.call(sample_pool, dict(
        task=self.task, model=make_model(self.task, self.settings['model']), params=self.params(step),
        mesh=self._run.learner.mesh) | settings | changes, 'eval')


def score(pool: Pool) -> float:
  """What checkpoints and settings are chosen by: best@30 by the fixed scalar (of the whole pool, if it is smaller)."""
  curve = summary.metrics.best_at_k(pool.scores, min(30, pool.scores.shape[1]))
  return float(curve.mean())


def decoding_row(pool: Pool, **how) -> dict:
  """What a small pool says about a way of decoding."""
  ks = [k for k in (1, 3, 10, 30) if k <= pool.scores.shape[1]]
  curve = summary.metrics.best_curve(pool.scores, ks).mean(axis=0)
  return how | {
      'best_at_k': dict(zip(map(str, ks), curve.tolist(), strict=True)),
      'completion': float(pool.success.mean()),
      'diversity_l1_valid': float(summary.metrics.diversity_l1(pool.rewards, pool.success).mean()),
      'tokens_per_answer': pool.generated_tokens / pool.answer_mask.size,
  }


def decodings(policy: Policy, step: int, split: str, num_answers: int, m: int) -> list[dict]:
  """Rows for every way of decoding; on the test split also greedy, the other kind of prompt, and shifted mazes."""
  rows = [decoding_row(policy.pool(step, split=split, num_answers=num_answers, **SMALL_POOL, **how),
                       split=split, num_answers=num_answers, **how) for how in DECODINGS]
  if split == 'tuning':
    return rows
  greedy = policy.pool(step, split=split, num_answers=num_answers, num_candidates=num_answers, temperature=0.)
  other = 1 if num_answers > 1 else m
  crossed = policy.pool(step, split=split, num_answers=other, **SMALL_POOL)
  shifted = policy.pool(step, split='shifted', num_answers=num_answers, **SMALL_POOL)
  return [*rows, decoding_row(shifted, split='shifted', num_answers=num_answers, temperature=1.),
          decoding_row(greedy, split=split, num_answers=num_answers, temperature=0.),
          decoding_row(crossed, split=split, num_answers=other, temperature=1.)]


def load_config(job: plans.Job, runs: epath.Path, overrides: Sequence[str] = ()):
  """The config of a job's training, all of whose workdirs lie in `runs`."""
  arguments = [f'--config.seed={job.seed}', '--config.checkpoints.keep=20']
  if job.method != 'warm_start':
    arguments.append(f'--config.init_from={runs / f"warm_start_{job.warm_start}"}')
  arguments += [f'--config.{name}={value}' for name, value in job.overrides.items()]
  return config.load(f'experiments/{job.group}/{job.method}.py', [*arguments, *overrides])


def run(job: plans.Job, runs: epath.PathLike, results: epath.PathLike | None, overrides: list[str]) -> dict | None:
  """Trains and measures `job`; returns what it writes to `results`/<name>.json. Without `results` it only trains."""
  runs = epath.Path(runs)
  workdir = runs / job.workdir
  settings = load_config(job, runs, overrides)
  train(workdir, settings)
  if results is None:
    (workdir / 'trained').touch()
    return None
  start = time.process_time()
  settings = config.plain(settings)
  record = json.loads((workdir / 'config.json').read_text())
  policy = Policy(workdir, settings)
  step = policy.steps[-1]
  m = job.num_answers or settings['experience']['num_answers']
  if job.setting in ('tuning', 'tuned'):
    choices = {s: score(policy.pool(s, split='tuning', num_answers=m, **CHOICE_POOL)) for s in policy.steps}
    step = max(choices, key=choices.get)
  if job.setting == 'tuning':
    measured = {'metrics': {'choice': {str(s): value for s, value in choices.items()}}}
  else:
    pool = policy.pool(step, split=job.split, num_answers=m)
    pool.save(epath.Path(results) / f'{job.name}.npz')
    values = summary.per_problem(pool)
    measured = {
        'metrics': summary.summary(pool, values),
        'per_problem': {name: encode(column) for name, column in values.items() if kept(name)},
    }
    if job.setting in ('tuned', 'base'):
      group_m = plans.GROUPS[job.group].num_answers
      measured['decoding'] = [
          row for split in ('tuning', job.split) for row in decodings(policy, step, split, m, group_m)]
  result = {
      'name': job.name, 'task': settings['task']['name'], 'method': job.method, 'setting': job.setting,
      'warm_start': record['warm_start'] or policy.params_hash(step), 'warm_start_seed': job.warm_start,
      'seed': job.seed, 'split': job.split, 'step': step, 'overrides': dict(job.overrides), 'num_answers': m,
      **training_costs(settings, workdir, step), 'eval_cpu_seconds': time.process_time() - start,
      'commit': record['git_commit'], 'dirty': record['git_dirty'], 'versions': record['versions'],
      'device': record['devices']['kind'], 'history': history(workdir), **measured}
  atomic.write_atomically(
      epath.Path(results) / f'{job.name}.json', (json.dumps(rounded(result), allow_nan=False) + '\n').encode())
  return result


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.job', description='Trains and measures one run.')
  parser.add_argument('job', help='JSON of the fields of plans.Job')
  parser.add_argument('--runs', required=True, help='folder of the workdirs')
  parser.add_argument('--results', help='folder of the result files; without it the training alone is done')
  arguments, overrides = parser.parse_known_args()
  job = plans.Job(**json.loads(arguments.job))
  run(job, arguments.runs, arguments.results, overrides)
  if arguments.results:
    print(f'The result is in {arguments.results}/{job.name}.json.')


def as_json(job: plans.Job) -> str:
  """What `main` reads."""
  return json.dumps(dataclasses.asdict(job))


if __name__ == '__main__':
  main()
