"""The exact optimum of one route against an enumeration of all routes of tiny mazes."""

import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.tasks import maze_oracle
from vpo_jax.tasks import maze_rules as rules

KINDS = (rules.GOLD, rules.DIAMOND)


def all_rewards(cells, budget, size, **settings):
  """Rewards `[n, d]` of all legal routes, walked one by one."""
  rewards, stack = set(), [[int(np.argmax(cells == rules.START))]]
  while stack:
    walk = stack.pop()
    if cells[walk[-1]] == rules.EXIT:
      rewards.add(tuple(rules.path_reward(cells, walk[1:], kinds=KINDS, **settings).tolist()))
    elif len(walk) <= budget:
      closed = (rules.WALL, rules.LAVA) if settings['fatal_lava'] else (rules.WALL,)
      stack += [[*walk, n] for n in rules.neighbours(size)[walk[-1]] if cells[n] not in closed]
  return rewards


def front(rewards):
  beats = lambda q, r: q != r and all(b >= a for a, b in zip(r, q, strict=True))
  return sorted(r for r in rewards if not any(beats(q, r) for q in rewards))


@pytest.mark.parametrize('reward_mode', rules.REWARD_MODES)
@pytest.mark.parametrize('fatal_lava', [False, True])
def test_the_front_is_that_of_all_routes(reward_mode, fatal_lava):
  settings = {'reward_mode': reward_mode, 'fatal_lava': fatal_lava}
  rng, sizes = np.random.default_rng(0), []
  for _ in range(30):
    cells = rng.choice([rules.EMPTY] * 5 + [rules.WALL] + [rules.LAVA] * 2 + [rules.GOLD, rules.DIAMOND] * 2, 16)
    cells[rng.choice(16, 3, replace=False)] = rules.START, rules.EXIT, rules.BONUS
    budget = int(rng.integers(1, 9))
    expected = front(all_rewards(cells, budget, 4, **settings))
    actual = maze_oracle.best_vectors(cells, budget, size=4, kinds=KINDS, **settings)
    assert sorted(map(tuple, actual.tolist())) == (expected or [(0.,) * (3 + (not fatal_lava))])
    sizes.append(len(expected))
  assert min(sizes) == 0 and max(sizes) >= 2  # Barred exits and true fronts were both among them.


def test_no_route_beats_the_oracle():
  task, rng = tasks.make('maze_small'), np.random.default_rng(0)
  for i in range(5):
    example = task.examples('test')[i]
    vectors, oracle = task.best_vectors(example), task.oracle(example)
    for _ in range(200):
      [answer] = task.decode(example, task.demonstration(example, 1, rng), 1)
      reward = task.reward(example, answer)
      assert (vectors >= reward - 1e-6).all(axis=1).any()
      assert reward @ task.scalar_weights <= oracle + 1e-6
