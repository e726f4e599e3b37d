"""What a route through a grid maze earns: the rules that every maze task shares, in plain Python.

A maze is `cells` `[size * size]` int32, row-major, one kind per cell, and a budget of steps. A route is a list of
cells, the start not written. It runs until the exit, the budget, or its first illegal cell: one that is off the grid,
no neighbour of the last, or a wall (deadly lava counts as a wall that ends the route). What ran is the *executed
path*; two routes are the same answer exactly if their executed paths are. All components are zero unless the path
ends on the exit.

  cells    S . G      budget 4     size 3
           . L .
           . . E
  route    1 2 5 8    completion 1, gold 1, diamond 0 (there is none), avoid_lava 1
  route    1 4 5 8    completion 1, gold 0, diamond 0, avoid_lava 0
  route    1 5 8      5 is no neighbour of 1: all zero
"""

import functools

import numpy as np

EMPTY, WALL, START, EXIT, LAVA, BONUS, GOLD, DIAMOND, RUBY, PEARL = range(10)
KIND_NAMES = ('empty', 'wall', 'start', 'exit', 'lava', 'bonus', 'gold', 'diamond', 'ruby', 'pearl')
ITEMS = (GOLD, DIAMOND, RUBY, PEARL)
REWARD_MODES = ('linear', 'convex_bonus')
BONUS_FACTOR = 1.5
MAX_ENTITIES = 30  # The jitted reward keeps the visited lava, bonus and items as bits of one 32-bit word.


@functools.lru_cache(maxsize=64)
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
  """Neighbour cells of every cell: up, down, left, right, as far as they lie on the grid."""
  table = []
  for row in range(size):
    for col in range(size):
      around = ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1))
      table.append(tuple(r * size + c for r, c in around if 0 <= r < size and 0 <= c < size))
  return tuple(table)


def distances(size: int, closed: frozenset[int], source: int) -> list[int]:
  """Steps from `source` to each cell around the `closed` cells, -1 where there is no way."""
  steps = [-1] * (size * size)
  steps[source] = 0
  queue, table = [source], neighbours(size)
  for cell in queue:  # Grows while it is read: breadth first.
    for other in table[cell]:
      if steps[other] < 0 and other not in closed:
        steps[other] = steps[cell] + 1
        queue.append(other)
  return steps


@functools.lru_cache(maxsize=8192)
def downhill(size: int, closed: frozenset[int], target: int) -> tuple[tuple[int, ...], ...]:
  """For each cell the neighbours that lie one step nearer to `target` (none: no way, or already there)."""
  steps = distances(size, closed, target)
  return tuple(tuple(n for n in around if steps[cell] > 0 and n not in closed and steps[n] == steps[cell] - 1)
               for cell, around in enumerate(neighbours(size)))


def components(kinds: tuple[int, ...], fatal_lava: bool) -> tuple[str, ...]:
  """Names of the reward components of a maze with these item kinds; deadly lava needs no component."""
  return ('completion', *(KIND_NAMES[kind] for kind in kinds), *(() if fatal_lava else ('avoid_lava',)))


def executed_path(cells: np.ndarray, budget: int, route: list[int], *, size: int, fatal_lava: bool) -> list[int]:
  """The cells of `route` that are walked: up to the exit, the budget, or before the first illegal cell."""
  closed = (WALL, LAVA) if fatal_lava else (WALL,)
  position, path = int(np.argmax(cells == START)), []
  for cell in route[:budget]:
    if cell not in neighbours(size)[position] or cells[cell] in closed:
      break
    path.append(cell)
    position = cell
    if cells[cell] == EXIT:
      break
  return path


def path_reward(cells: np.ndarray, path: list[int], *, kinds: tuple[int, ...], reward_mode: str,
                fatal_lava: bool) -> np.ndarray:
  """Reward `[d]` float32 of an executed path: completion, a fraction per item kind, avoid_lava unless deadly."""
  visited = [int(cells[cell]) for cell in set(path)]
  reached = bool(path) and cells[path[-1]] == EXIT
  counts = {kind: visited.count(kind) for kind in (*kinds, LAVA, BONUS)}
  return reached * count_reward(cells, counts, kinds=kinds, reward_mode=reward_mode, fatal_lava=fatal_lava)


def count_reward(cells: np.ndarray, counts: dict[int, int], *, kinds: tuple[int, ...], reward_mode: str,
                 fatal_lava: bool) -> np.ndarray:
  """Reward `[d]` of a completed route that visited `counts[kind]` distinct cells of each kind."""
  totals = np.bincount(cells, minlength=len(KIND_NAMES))
  fractions = [counts[kind] / totals[kind] if totals[kind] else 0. for kind in kinds]
  if not fatal_lava:
    fractions.append(1 - counts[LAVA] / totals[LAVA] if totals[LAVA] else 1.)
  if reward_mode == 'convex_bonus':
    factor = BONUS_FACTOR if counts[BONUS] else 1.
    fractions = [min(1., factor * fraction**2) for fraction in fractions]
  return np.array([1., *fractions], np.float32)
