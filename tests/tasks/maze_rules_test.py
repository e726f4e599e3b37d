"""Rules of a walk: the worked example, the corners of the rules, and rewards counted by hand."""

import numpy as np
import pytest

from vpo_jax.tasks import maze_rules as rules

S, E, G, D, L, W = rules.START, rules.EXIT, rules.GOLD, rules.DIAMOND, rules.LAVA, rules.WALL
CELLS = np.array([S, 0, G, 0, L, 0, 0, 0, E], np.int32)
KINDS = (rules.GOLD, rules.DIAMOND)


def reward(cells, route, budget=4, fatal_lava=False, reward_mode='linear'):
  path = rules.executed_path(cells, budget, route, size=3, fatal_lava=fatal_lava)
  return rules.path_reward(cells, path, kinds=KINDS, reward_mode=reward_mode, fatal_lava=fatal_lava).tolist()


def test_the_example_of_the_docstring():
  assert reward(CELLS, [1, 2, 5, 8]) == [1, 1, 0, 1]
  assert reward(CELLS, [1, 4, 5, 8]) == [1, 0, 0, 0]
  assert reward(CELLS, [1, 5, 8]) == [0, 0, 0, 0]


@pytest.mark.parametrize('route, path', [
    ([], []), ([0], []), ([3, 2], [3]), ([1, 2, 3], [1, 2]), ([1, -1], [1]), ([1, 10**9], [1]),
    ([1, 2, 5, 8, 7, 6], [1, 2, 5, 8]), ([1, 0, 1, 0, 1], [1, 0, 1, 0]), ([3, 6, 7, 8] * 2500, [3, 6, 7, 8])])
def test_executed_path(route, path):
  assert rules.executed_path(CELLS, 4, route, size=3, fatal_lava=False) == path


def test_a_wall_cannot_be_walked_and_deadly_lava_neither():
  walled = np.where(CELLS == L, W, CELLS)
  assert reward(walled, [1, 4, 5, 8]) == [0, 0, 0, 0]
  assert reward(walled, [1, 2, 5, 8]) == [1, 1, 0, 1]  # No lava: it is avoided.
  assert reward(CELLS, [1, 4, 5, 8], fatal_lava=True) == [0, 0, 0]
  assert reward(CELLS, [1, 2, 5, 8], fatal_lava=True) == [1, 1, 0]
  assert rules.components(KINDS, True) == ('completion', 'gold', 'diamond')


def test_convex_bonus_squares_and_multiplies_up_to_one():
  cells = np.array([S, G, rules.BONUS, D, L, 0, D, L, E], np.int32)
  assert reward(cells, [3, 4, 5, 8], reward_mode='convex_bonus') == [1, 0, .25, .25]
  assert reward(cells, [1, 2, 5, 8], reward_mode='convex_bonus') == [1, 1, 0, 1]
  assert reward(cells, [3, 4, 1, 2, 5, 8], 6, reward_mode='convex_bonus') == [1, 1, .375, .375]


def test_downhill_leads_to_the_target_around_walls():
  closed = frozenset([1, 4])
  assert rules.distances(3, closed, 2) == [6, -1, 0, 5, -1, 1, 4, 3, 2]
  assert rules.downhill(3, closed, 2) == ((3,), (), (), (6,), (), (2,), (7,), (8,), (5,))
