"""The published 9x9 treasure mazes: drawn from an integer seed, draw by draw in the published order.

A random spanning tree of open cells is opened further by extra cells, start and exit go to opposite corners, gold and
diamonds around the two others, a bonus on the centre, lava into the interior. A maze is rejected if a corner cannot be
reached or if one route could visit both treasure corners within the budget.

`published(42, 1000)` are the published training mazes and `published(4242, 100)` the test mazes. Their seeds run into
each other as soon as more are drawn, so the task splits by content instead (see `maze_task`).

Other sizes are ours; at 9 every number is the published one. Zone radius and margin around the lava area: 2/9 of the
side, rounded, at least 1. Extra openings: in proportion to the cells. Slack of the budget: 7/9 of the side, rounded.
Longest admitted detour: 10 times the side.
"""

import itertools
import random

import numpy as np

from vpo_jax.tasks import maze_rules as rules

OPENINGS = (18, 28)  # Extra cells opened in a 9x9 maze.


def draw(rng: random.Random, size: int = 9, openings: tuple[int, int] = OPENINGS) -> dict[str, np.ndarray] | None:
  """Draws one maze, None if it is rejected.

  Args:
    rng: source of all draws.
    size: side, odd and at least 5.
    openings: fewest and most extra cells opened, for a 9x9 maze.

  Returns:
    `cells` `[size * size]` int32 kinds and `budget` `[]` int32.
  """
  n, around, reach = size**2, rules.neighbours(size), max(1, round(2 * size / 9))
  walls = _spanning_walls(rng, size)

  count = rng.randint(*(round(bound * n / 81) for bound in openings))
  candidates = [cell for cell in range(n) if cell in walls and sum(c not in walls for c in around[cell]) >= 2]
  rng.shuffle(candidates)
  walls.difference_update(candidates[:count])

  corners = [0, size - 1, n - size, n - 1]
  start, goal = rng.choice([(0, n - 1), (size - 1, n - size)])
  treasure = [corner for corner in corners if corner not in (start, goal)]
  rng.shuffle(treasure)
  gold, diamond = treasure
  centre = n // 2
  walls.difference_update((start, goal, gold, diamond, centre))

  closed, longest = frozenset(walls), 10 * size
  from_start, from_gold, from_goal = (rules.distances(size, closed, cell) for cell in (start, gold, goal))
  if from_start[goal] < 0:
    return None
  leg = lambda steps, cell: steps[cell] if steps[cell] >= 0 else longest + 8
  via_gold = leg(from_start, gold) + leg(from_goal, gold)
  via_diamond = leg(from_start, diamond) + leg(from_goal, diamond)
  via_centre = leg(from_start, centre) + leg(from_goal, centre)
  if max(via_gold, via_diamond, via_centre) > longest:
    return None
  budget = max(via_gold, via_diamond) + round(7 * size / 9)
  if from_start[gold] + from_gold[diamond] + from_goal[diamond] <= budget:
    return None

  cells = [rules.WALL if cell in walls else rules.EMPTY for cell in range(n)]
  cells[start], cells[goal], cells[centre] = rules.START, rules.EXIT, rules.BONUS
  far = lambda a, b: abs(a // size - b // size) + abs(a % size - b % size)
  zones = [[cell for cell in range(n) if cells[cell] == rules.EMPTY and far(cell, corner) <= reach]
           for corner in (gold, diamond)]
  if min(map(len, zones)) < 3:
    return None
  counts = [rng.randint(3, min(5, len(zone))) for zone in zones]
  for kind, zone, count in zip((rules.GOLD, rules.DIAMOND), zones, counts, strict=True):
    for cell in rng.sample(zone, count):
      cells[cell] = kind
  inner = range(reach, size - reach)
  interior = [row * size + col for row, col in itertools.product(inner, inner)
              if cells[row * size + col] == rules.EMPTY]
  for cell in rng.sample(interior, min(rng.randint(3, 5), len(interior))):
    cells[cell] = rules.LAVA
  hazards = frozenset(cell for cell in range(n) if cells[cell] in (rules.WALL, rules.LAVA))
  if not 0 <= rules.distances(size, hazards, start)[goal] <= budget:
    return None
  return {'cells': np.array(cells, np.int32), 'budget': np.array(budget, np.int32)}


def _spanning_walls(rng: random.Random, size: int) -> set[int]:
  """The walls left by Prim's algorithm on single cells: a cell is opened if exactly one neighbour is open."""
  around, walls = rules.neighbours(size), set(range(size**2))
  first = rng.randrange(size) * size + rng.randrange(size)
  walls.remove(first)
  frontier = list(around[first])
  while frontier:
    cell = frontier.pop(rng.randrange(len(frontier)))
    if cell in walls and sum(c not in walls for c in around[cell]) == 1:
      walls.remove(cell)
      frontier.extend(c for c in around[cell] if c in walls)
  return walls


def published(base_seed: int, count: int) -> list[tuple[int, dict[str, np.ndarray]]]:
  """The first `count` accepted 9x9 mazes of the seeds `base_seed`, `base_seed + 1`, .. as (seed, example)."""
  drawn = ((seed, draw(random.Random(seed))) for seed in itertools.count(base_seed))
  return list(itertools.islice(((seed, example) for seed, example in drawn if example is not None), count))
