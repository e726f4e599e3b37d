"""Evolution on programs: what a chain tries, what it learns from, and what is counted."""

import numpy as np
import pytest

from experiments.programs import evolution
from vpo_jax import tasks
from vpo_jax.evaluation.pool import Pool


@pytest.fixture(scope='module')
def problem():
  task = tasks.make('programs')
  return task, task.examples('test')[0]


def test_a_chain_goes_on_from_the_words_of_the_best_by_the_visible_tests(problem):
  task, example = problem
  right = task.program(example)
  chain = evolution.Chain(task, example, seed=0)
  assert chain.prefix() == []  # Nothing is scored yet.
  for answer in (None, 'sum sum', ' '.join(right)):
    chain.tell(answer)
  prefixes = [chain.prefix() for _ in range(200)]
  # Invalid programs are no parents. The only one is cut before its last word, or not taken in a quarter of the tries.
  assert {tuple(p) for p in prefixes} == {tuple(right[:i]) for i in range(max(2, len(right)))}
  assert 20 <= sum(p == [] for p in prefixes) <= 85
  assert chain.solved == [False, False, False, True] and chain.best == [0, 0, 0, 1]


def test_answers_of_a_rollout_are_scored_one_by_one_and_the_first_has_the_parents_words(problem):
  task, example = problem
  seen = []

  class Recorded(evolution.Chain):
    def tell(self, answer):
      seen.append(answer)
      super().tell(answer)

  chain = Recorded(task, example, seed=0)
  chain.tell('x sort 1 take')
  chain.prefix = lambda: ['x', 'sort']
  evolution.search(lambda prefixes, rollout: [['reverse', None, 'x sum']], [chain], m=3, iterations=4, evolve=True)
  assert seen == ['x sort 1 take', 'x sort reverse', '', 'x sum', 'x sort reverse']  # Cut at 4 programs.
  assert len(chain.best) == len(chain.solved) == 6


def test_independent_answers_have_no_parents(problem):
  task, example = problem
  asked = []

  def sampler(prefixes, rollout):
    asked.append(list(prefixes))
    return [['x sum']] * len(prefixes)

  chains = [evolution.Chain(task, example, seed) for seed in range(2)]
  evolution.search(sampler, chains, m=1, iterations=5, evolve=False)
  assert asked == [[[], []]] * 5


def test_hard_problems_are_those_that_all_fail_within_thirty_answers():
  def pool(first_success):
    rewards = np.zeros((3, 40, 1), np.float32)
    for problem, at in enumerate(first_success):
      rewards[problem, at:] = 1
    candidate = np.broadcast_to(np.arange(40), (3, 40))
    return Pool(rewards, np.ones((3, 40), bool), candidate, np.zeros((3, 40), int), np.ones(3, np.float32), 0,
                ('test',), np.ones(1, np.float32))

  np.testing.assert_array_equal(evolution.hard_problems([pool([0, 30, 35]), pool([40, 29, 30])]), [2])


def test_curves_are_means_over_seeds_and_then_problems(problem):
  task, example = problem
  chains = [evolution.Chain(task, example, seed) for seed in range(4)]  # Two seeds of two problems.
  for chain, solved in zip(chains, (True, False, False, False), strict=True):
    chain.tell(' '.join(task.program(example)) if solved else None)
  curves = evolution.curves_of(chains, 2)
  (mean, low, high), = curves['solved']
  assert (mean, low, high) == (.25, 0, .5)  # A half of the seeds in one problem, none in the other.
