r"""Evolution with a trained policy as its proposal, beside as many independent answers, on problems that all fail.

  python -m experiments.programs.evolution --runs runs/programs/sweep

A problem is hard if none of the first 30 answers of any tuned policy's pool passes; what is scored here are other
samples. A chain has one problem, one policy and one seed. In each of 200 iterations it scores one program: with chance
1/4 of a fresh rollout, else of one that begins with the first words of a parent, cut at random, and goes on as the
policy likes. The parent is the best by the visible tests of 3 programs scored so far, each distinct structure once. The
answers of a rollout of m are scored in m consecutive iterations; only the first of them has the parent's words. Hidden
tests judge, and the search never sees them.

Policies that are not in --runs are trained first. Writes EVOLUTION.md, evolution.json and figures/evolution.png.
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence

import numpy as np
from etils import epath

from experiments import findings, plans
from experiments.job import Policy, load_config
from experiments.sweep import Sweep
from vpo_jax import config
from vpo_jax.evaluation import atomic, bootstrap, plots
from vpo_jax.evaluation.pool import Pool
from vpo_jax.rollout import RolloutLoop
from vpo_jax.sampling.logits import sampling_params
from vpo_jax.tasks import program_language as language
from vpo_jax.tasks.programs import VISIBLE
from vpo_jax.train import make_model

ITERATIONS, SEEDS, FAILED_AT, MOST_PROBLEMS = 200, 5, 30, 64
FRESH, TOURNAMENT = .25, 3
METHODS = ('grpo', 'max_at_k', 'vpo', 'vpo_subsets')
ARMS = {'evolution': True, 'independent': False}
SHOWN = (1, 10, 30, 100, 200)
# (prefixes as lists of words, one a chain; which rollout this is) -> the rest of each chain's answers.
Sampler = Callable[[Sequence[Sequence[str]], int], Sequence[Sequence[str | None]]]


class Chain:
  """The search for one problem: what was scored so far, and what to try next."""

  def __init__(self, task, example: dict, seed: int):
    self._task, self._example, self._rng = task, example, random.Random(seed)
    self._scored = {}  # Structure to the words and the share of visible tests.
    self.best, self.solved = [0.], [False]

  def prefix(self) -> list[str]:
    """The words that the next rollout begins with; none for a fresh one."""
    if not self._scored or self._rng.random() < FRESH:
      return []
    entrants = self._rng.choices(list(self._scored.values()), k=TOURNAMENT)
    words, _ = max(entrants, key=lambda entrant: entrant[1])
    return words[:self._rng.randrange(1, max(2, len(words)))]

  def tell(self, answer: str | None) -> None:
    """Scores a program."""
    rewards = self._task.reward(self._example, answer or '')
    hidden = rewards[self._task.evaluation_mask(self._example)]
    self.best.append(max(self.best[-1], float(hidden.mean())))
    self.solved.append(self.solved[-1] or bool(hidden.all()))
    words = (answer or '').split()
    if language.result_type(words):
      self._scored.setdefault(self._task.canonical(self._example, answer), (words, rewards[:VISIBLE].mean()))


def search(sampler: Sampler, chains: Sequence[Chain], *, m: int, iterations: int, evolve: bool) -> None:
  """Runs all chains side by side for so many scored programs each."""
  for rollout in range(-(-iterations // m)):
    prefixes = [chain.prefix() if evolve else [] for chain in chains]
    for chain, prefix, answers in zip(chains, prefixes, sampler(prefixes, rollout), strict=True):
      for position, answer in enumerate(answers[:iterations - rollout * m]):
        chain.tell(' '.join([*(prefix if position == 0 else []), *(answer or '').split()]))


def policy_sampler(policy: Policy, step: int, task, examples: Sequence[dict], *, m: int, seed: int) -> Sampler:
  """A rollout a chain and call, from checkpoint `step`; `examples` has one problem a chain."""
  loop = RolloutLoop(make_model(task, policy.settings['model']), max_new_tokens=task.response_width(m), segments=1)
  params = policy.local_params(step, loop.devices)
  sampling = sampling_params(vocab_size=task.vocab_size, stop_ids=task.stop_ids)
  prompts = np.stack([task.prompt_tokens(example, m) for example in examples])
  width = task.prompt_width
  requests = np.arange(len(examples))[:, None]

  def sample(prefixes, rollout):
    tokens = np.pad(prompts, ((0, 0), (0, language.MAX_WORDS)))
    for row, prefix in zip(tokens, prefixes, strict=True):
      row[width:width + len(prefix)] = [language.CODES[word] for word in prefix]
    lengths = width + np.array([len(prefix) for prefix in prefixes])
    responses = loop(params, tokens, lengths, requests, sampling, seed=seed, step=rollout)
    return [task.decode(example, row[0, :length[0]], m)
            for example, row, length in zip(examples, responses.tokens, responses.lengths, strict=True)]

  return sample


def hard_problems(pools: Sequence[Pool]) -> np.ndarray:
  """Indices of the problems that the first answers of no pool pass."""
  return np.flatnonzero(~np.any([pool.success[:, :FAILED_AT].any(axis=1) for pool in pools], axis=0))


def curves_of(chains: Sequence[Chain], num_problems: int) -> dict[str, list[list[float]]]:
  """`[mean, low, high]` after each iteration of what is solved and of the best so far; chains are seeds × problems."""
  curves = {}
  for name in ('solved', 'best'):
    of_chains = np.array([getattr(chain, name)[1:] for chain in chains], float)
    of_problems = of_chains.reshape(-1, num_problems, of_chains.shape[-1]).mean(axis=0)
    resampled = bootstrap.resample_shares(num_problems) @ of_problems
    curves[name] = [[float(mean), *bootstrap.interval(column)]
                    for mean, column in zip(of_problems.mean(axis=0), resampled.T, strict=True)]
  return curves


def page(found: dict) -> str:
  """EVOLUTION.md."""
  lines = ['# Evolution on programs', '', __doc__.split('\n\n')[2], '',
           f'{found["problems"]} hard problems of {found["tried"]} test problems, {found["seeds"]} seeds, one policy a '
           'method; in brackets 95 % intervals over problems. They were chosen because all policies failed at them, so '
           'this says nothing about other problems.', '']
  for measure, title in (('solved', 'Share of problems solved by the number of programs scored'),
                         ('best', 'Mean best share of hidden tests passed')):
    lines += [f'## {title}', '', '| | ' + ' | '.join(map(str, SHOWN)) + ' |', '|---' + '|---:' * len(SHOWN) + '|']
    for method, arms in found['curves'].items():
      for arm, curves in arms.items():
        cells = [f'{mean:.3f} [{low:.3f}, {high:.3f}]' for mean, low, high in (curves[measure][t - 1] for t in SHOWN)]
        lines.append(f'| {findings.LABELS[method]}, {arm} | ' + ' | '.join(cells) + ' |')
    lines.append('')
  return '\n'.join(lines)


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.programs.evolution', description=__doc__.splitlines()[0])
  parser.add_argument('--runs', default='runs/programs/sweep', help='folder of the trainings of the sweep')
  arguments = parser.parse_args()
  group, folder, trainings = plans.GROUPS['programs'], epath.Path('experiments/programs'), epath.Path(arguments.runs)
  results = findings.read(folder / 'runs')
  jobs = plans.table_jobs(group, 'tuned', findings.chosen(results, group))
  first = {job.method: job for job in jobs if (job.warm_start, job.seed) == (0, 0)}
  pools = [Pool.load(folder / 'runs' / f'{job.name}.npz') for job in first.values()]
  hard = hard_problems(pools)[:MOST_PROBLEMS]
  Sweep(group, trainings, folder / 'runs', []).train([first[method] for method in METHODS])
  found = {'problems': len(hard), 'tried': len(pools[0].rewards), 'seeds': SEEDS, 'curves': {}}
  for method in METHODS:
    job = first[method]
    settings = config.plain(load_config(job, trainings))
    policy = Policy(trainings / job.workdir, settings)
    measured, = (result['step'] for result in results if result['name'] == job.name)
    step = min(policy.steps, key=lambda step, to=measured: abs(step - to))  # The last one varies with the machine.
    m = settings['experience']['num_answers']
    task = policy.task
    problems = [task.examples('test')[int(i)] for i in hard]
    examples = problems * SEEDS
    found['curves'][method] = {}
    for arm, evolve in ARMS.items():
      chains = [Chain(task, example, seed) for seed, example in enumerate(examples)]
      sampler = policy_sampler(policy, step, task, examples, m=m, seed=int(evolve))
      search(sampler, chains, m=m, iterations=ITERATIONS, evolve=evolve)
      curves = found['curves'][method][arm] = curves_of(chains, len(hard))
      print(f'{method}, {arm}: {curves["solved"][-1][0]:.3f} of {len(hard)} problems solved.', flush=True)
  atomic.write_atomically(folder / 'evolution.json', json.dumps(found).encode())
  atomic.write_atomically(folder / 'EVOLUTION.md', page(found).encode())
  plots.save(plots.evolution(found['curves']), folder / 'figures' / 'evolution.png')
  print(f'The results are in {folder}/EVOLUTION.md.')


if __name__ == '__main__':
  main()
