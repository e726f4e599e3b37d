"""The published generator: its seeds, counts and guarantees."""

import random

import numpy as np
import pytest

from vpo_jax.tasks import maze_generator
from vpo_jax.tasks import maze_rules as rules


def test_the_published_test_seeds():
  mazes = maze_generator.published(4242, 100)
  # 100 of the 104 seeds 4242 .. 4345 are accepted: 96 %.
  assert (mazes[0][0], mazes[-1][0], len(mazes)) == (4242, 4345, 100)
  budgets = [int(example['budget']) for _, example in mazes]
  assert set(budgets) <= {23, 25, 27, 29, 31, 33} and 25 < np.mean(budgets) < 26.2
  open_cells = [(example['cells'] != rules.WALL).sum() for _, example in mazes]
  assert min(open_cells) >= 68 and 75 < np.mean(open_cells) < 76.5


@pytest.mark.slow
def test_the_published_training_seeds():
  assert maze_generator.published(42, 1000)[-1][0] == 1119


@pytest.mark.parametrize('size', [5, 7, 9, 11])
def test_what_every_maze_keeps(size):
  mazes = [maze_generator.draw(random.Random(seed), size) for seed in range(60)]
  accepted = [example for example in mazes if example is not None]
  assert len(accepted) > 40
  reach = max(1, round(2 * size / 9))
  for example in accepted:
    cells, budget = example['cells'], int(example['budget'])
    at = lambda kind, cells=cells: [divmod(int(cell), size) for cell in np.flatnonzero(cells == kind)]
    [start], [goal], [bonus] = at(rules.START), at(rules.EXIT), at(rules.BONUS)
    assert start[0] == 0 and goal == (size - 1, size - 1 - start[1]) and bonus == (size // 2, size // 2)
    corners = {(0, size - 1 - start[1]), (size - 1, start[1])}
    near = {kind: {corner for corner in corners if all(abs(r - corner[0]) + abs(c - corner[1]) <= reach
                                                       for r, c in at(kind))} for kind in (rules.GOLD, rules.DIAMOND)}
    assert near[rules.GOLD] | near[rules.DIAMOND] == corners
    assert all(3 <= len(at(kind)) <= 5 for kind in near)
    assert all(reach <= r < size - reach and reach <= c < size - reach for r, c in at(rules.LAVA))
    hazards = frozenset(np.flatnonzero(np.isin(cells, (rules.WALL, rules.LAVA))).tolist())
    start_cell, goal_cell = start[0] * size + start[1], goal[0] * size + goal[1]
    assert 0 < rules.distances(size, hazards, start_cell)[goal_cell] <= budget


def test_the_same_seed_gives_the_same_maze():
  first, second = (maze_generator.draw(random.Random(42)) for _ in range(2))
  np.testing.assert_array_equal(first['cells'], second['cells'])
