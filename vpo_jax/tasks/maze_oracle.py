"""The best that one route through a maze can earn: exact, by dynamic programming over subsets of cells worth visiting.

For every set of lava cells that may be stepped on, breadth-first search gives the steps between start, items and exit
around the other lava; a Held-Karp recursion over subsets of items then gives the fewest steps that collect a subset.
Passing over a further item or less lava only helps, so the non-dominated vectors of the feasible pairs (subset, lava)
are the exact Pareto front.
"""

import itertools

import numpy as np

from vpo_jax.tasks import maze_rules as rules

FAR = 8000  # More steps than any route has; three of them fit into int16.

def steps_between(cells: np.ndarray, sources: list[int], open_lava: np.ndarray, limit: int, size: int) -> np.ndarray:
  """Steps `[L, sources, size * size]` int16 from each source under each lava set; `limit + 1` where it is farther.

  Args:
    cells: `[size * size]` kinds.
    sources: cells to start from.
    open_lava: `[L, size * size]` bool, lava that may be stepped on.
    limit: steps after which the search stops.
    size: side of the grid.
  """
  passable = (((cells != rules.WALL) & (cells != rules.LAVA)) | open_lava).reshape(-1, 1, size, size)
  frontier = np.zeros((len(open_lava), len(sources), size * size), bool)
  frontier[:, np.arange(len(sources)), sources] = True
  steps = np.where(frontier, 0, limit + 1).astype(np.int16)
  leaves = cells != rules.EXIT  # Whoever reaches the exit stops there.
  for step in range(1, limit + 1):
    grid = (frontier & leaves).reshape(*frontier.shape[:2], size, size)
    spread = np.zeros_like(grid)
    spread[..., 1:, :] |= grid[..., :-1, :]
    spread[..., :-1, :] |= grid[..., 1:, :]
    spread[..., 1:] |= grid[..., :-1]
    spread[..., :-1] |= grid[..., 1:]
    frontier = (spread & passable).reshape(frontier.shape) & (steps > limit)
    if not frontier.any():
      break
    steps[frontier] = step
  return steps


def fewest_steps(between: np.ndarray, first: np.ndarray, last: np.ndarray, direct: np.ndarray) -> np.ndarray:
  """Fewest steps `[2^n, L]` from start to exit that visit each subset of n points (Held-Karp, one popcount at a time).

  Args:
    between: `[n, n, L]` steps between points.
    first: `[n, L]` steps from the start.
    last: `[n, L]` steps to the exit.
    direct: `[L]` steps from start to exit.
  """
  n, num_sets = first.shape
  masks = np.arange(2**n)
  size = np.array([int(mask).bit_count() for mask in masks])
  # Steps that visit a subset and end on a point; the axis of the lava sets comes last, where minima run fast.
  ending = np.full((2**n, n, num_sets), FAR, np.int16)
  for point in range(n):
    ending[1 << point, point] = first[point]
  for level, point in itertools.product(range(2, n + 1), range(n)):
    subsets = masks[(size == level) & (masks >> point & 1 == 1)]
    ending[subsets, point] = (ending[subsets ^ (1 << point)] + between[:, point]).min(axis=1)
  total = (ending + last).min(axis=1, initial=2 * FAR)
  total[0] = direct
  return total


def best_vectors(cells: np.ndarray, budget: int, *, size: int, kinds: tuple[int, ...], reward_mode: str,
                 fatal_lava: bool) -> np.ndarray:
  """Exact Pareto front `[n, d]` float32 of the rewards of one route; `[1, d]` zeros if no route completes."""
  worth = (*kinds, rules.BONUS) if reward_mode == 'convex_bonus' else kinds
  points = [int(cell) for cell in np.flatnonzero(np.isin(cells, worth))]
  lava = [] if fatal_lava else [int(cell) for cell in np.flatnonzero(cells == rules.LAVA)]
  open_lava = np.zeros((2**len(lava), size * size), bool)
  for bit, cell in enumerate(lava):
    open_lava[:, cell] = np.arange(2**len(lava)) >> bit & 1
  start, exit_cell = int(np.argmax(cells == rules.START)), int(np.argmax(cells == rules.EXIT))
  steps = steps_between(cells, [start, *points], open_lava, budget, size)
  steps = np.ascontiguousarray(np.moveaxis(steps, 0, -1))
  total = fewest_steps(steps[1:, points], steps[0, points], steps[1:, exit_cell], steps[0, exit_cell])
  subsets, lava_sets = np.nonzero(total <= budget)
  columns = {kind: np.zeros(len(subsets), int) for kind in (*kinds, rules.BONUS)}
  for bit, cell in enumerate(points):
    columns[int(cells[cell])] += subsets >> bit & 1
  columns[rules.LAVA] = open_lava[lava_sets].sum(axis=1)
  counts = np.unique(np.stack(list(columns.values()), axis=1), axis=0)
  rewards = [rules.count_reward(cells, dict(zip(columns, row, strict=True)), kinds=kinds, reward_mode=reward_mode,
                                fatal_lava=fatal_lava) for row in counts]
  if not rewards:
    return np.zeros((1, 1 + len(kinds) + (not fatal_lava)), np.float32)
  rewards = np.unique(np.stack(rewards), axis=0)[::-1]
  beaten = (rewards[None] >= rewards[:, None]).all(-1) & (rewards[None] > rewards[:, None]).any(-1)
  return rewards[~beaten.any(axis=1)]
