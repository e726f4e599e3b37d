"""The small maze: two treasure corners that no route can clear both, so that a set of answers is worth more than one.

  S . . . G . G     S is cell 0, the exit E 48, numbered row by row. A route has at most 16 steps, the shortest 12.
  . . L . . . G     Gold lies in one of the two other 3x3 corners (without its innermost cell), diamonds in the other.
  . . . . . G G     All of one corner fits into the budget. A route that passes both takes at most 4 of the 10 items
  . . . . L L .     (measured), so the best route by any near-equal weighting clears one corner.
  D D . . . L .
  . . . . . L .
  D D D . . . E

  prompt   gold on 4, 6, 13, 19, 20, diamond on 28, .. lava on 9, .. one answer       (16 tokens)
  answer   1 2 3 4 5 6 13 20 27 34 41 48 END
  reward   completion 1, gold 4/5, diamond 0, avoid_lava 1

`maze_hard` is the same class with other defaults; see `MazeHard`.
"""

import dataclasses
import random
import re

import numpy as np

from vpo_jax.tasks import maze_rules as rules
from vpo_jax.tasks import maze_task


@dataclasses.dataclass(frozen=True)
class MazeSmall(maze_task.MazeTask):
  """Item kinds that exclude each other, each in a zone of its own; which kind gets which zone is drawn per maze.

  `shifted` examples have the same counts (so prompts keep their shape), but items as well as lava lie anywhere.

  Attributes:
    items: how many items of each kind (gold, diamond).
    lava: lava cells, anywhere that is free.
    walls: wall cells, anywhere that is free; a maze in which they (or deadly lava) bar the exit or a kind is redrawn.
    budget: steps of a route.
    zone: side of the zones' squares.
    fatal_lava: whether stepping on lava ends the route, unrewarded (there is then no avoid_lava component).
  """
  items: tuple[int, ...] = (5, 5)
  lava: int = 5
  walls: int = 0
  budget: int = 16
  zone: int = 3
  fatal_lava: bool = False

  def __post_init__(self):
    super().__post_init__()
    object.__setattr__(self, 'items', tuple(self.items))  # Configs bring lists.
    zones = self._zones()
    room = min(map(len, zones))
    if len(self.items) != len(zones) or min(self.items) < 1 or max(self.items) > room:
      raise ValueError(f'items={self.items} must be {len(zones)} numbers from 1 to {room}.')
    if self.budget < 1:
      raise ValueError(f'budget={self.budget} must be at least 1.')
    free = self.size**2 - 3 - sum(self.items)
    if min(self.lava, self.walls) < 0 or self.lava + self.walls > free:
      raise ValueError(f'lava={self.lava} and walls={self.walls} must be >= 0 and at most {free} together.')
    if self.lava + sum(self.items) + 1 > rules.MAX_ENTITIES:
      raise ValueError(f'lava={self.lava} and items={self.items} must be at most {rules.MAX_ENTITIES - 1} together.')

  @property
  def name(self) -> str:
    return 'maze_small'

  @property
  def kinds(self) -> tuple[int, ...]:
    return rules.ITEMS[:len(self.items)]

  @property
  def max_budget(self) -> int:
    return self.budget

  @property
  def prompt_kinds(self) -> tuple[int, ...]:
    return (*self.kinds, rules.LAVA, *((rules.WALL,) if self.walls else ()))

  @property
  def prompt_width(self) -> int:
    return sum(self.items) + self.lava + self.walls + 1

  def _zones(self) -> list[list[int]]:
    """Cells of each zone, the bonus cell excepted."""
    if self.zone < 2 or 2 * self.zone >= self.size:
      raise ValueError(f'zone={self.zone} must be at least 2 and less than half of size={self.size}.')
    near, far = range(self.zone), range(self.size - self.zone, self.size)
    inner = {(near[-1], far[0]), (far[0], near[-1])}
    return [[row * self.size + col for row in rows for col in cols if (row, col) not in inner]
            for rows, cols in ((near, far), (far, near))]

  def _bonus(self) -> int | None:
    """The bonus cell, always the middle one, so that prompts need not name it; None in linear mode."""
    return self.size // 2 * (self.size + 1) if self.reward_mode == 'convex_bonus' else None

  def draw(self, rng: random.Random, shifted: bool) -> dict[str, np.ndarray] | None:
    cells = [rules.EMPTY] * self.size**2
    start, goal = 0, self.size**2 - 1
    cells[start], cells[goal] = rules.START, rules.EXIT
    if self._bonus() is not None:
      cells[self._bonus()] = rules.BONUS
    free = [cell for cell, kind in enumerate(cells) if kind == rules.EMPTY]
    zones = self._zones()
    rng.shuffle(zones)
    for kind, count, zone in zip(self.kinds, self.items, zones, strict=True):
      for cell in rng.sample([c for c in free if cells[c] == rules.EMPTY] if shifted else zone, count):
        cells[cell] = kind
    free = [cell for cell in free if cells[cell] == rules.EMPTY]
    for position, cell in enumerate(rng.sample(free, self.lava + self.walls)):
      cells[cell] = rules.LAVA if position < self.lava else rules.WALL
    if (self.walls or self.fatal_lava) and not self._open(cells, start, goal):
      return None
    return {'cells': np.array(cells, np.int32), 'budget': np.array(self.budget, np.int32)}

  def _open(self, cells: list[int], start: int, goal: int) -> bool:
    """Whether legal routes reach the exit, and for each kind one that passes an item of it, within the budget."""
    barriers = {rules.WALL, rules.LAVA} if self.fatal_lava else {rules.WALL}
    closed = {cell for cell, kind in enumerate(cells) if kind in barriers}
    back = rules.distances(self.size, frozenset(closed), goal)
    if not 0 < back[start] <= self.budget:
      return False
    there = rules.distances(self.size, frozenset(closed | {goal}), start)
    had = {cells[cell] for cell in range(len(cells)) if there[cell] >= 0 <= back[cell]
           and there[cell] + back[cell] <= self.budget}
    return had.issuperset(self.kinds)

  def answer_text(self, example: dict, route: list[int]) -> str:
    """The cell numbers of `route`, separated by spaces."""
    return ' '.join(map(str, route))

  def answer_path(self, example: dict, answer: str) -> list[int]:
    """Walks the whole numbers (ASCII) between spaces or commas; any other word is an illegal cell."""
    words = answer.replace(',', ' ').split()
    route = [int(word) if re.fullmatch('[0-9]{1,6}', word) else -1 for word in words]
    return rules.executed_path(example['cells'], int(example['budget']), route, size=self.size,
                               fatal_lava=self.fatal_lava)

  def messages(self, example: dict, num_answers: int) -> list[dict[str, str]]:
    cells = example['cells']
    places = '\n'.join(f'{rules.KIND_NAMES[kind]}: {" ".join(map(str, np.flatnonzero(cells == kind)))}'
                       for kind in (rules.START, rules.EXIT, *self.kinds, rules.LAVA, rules.WALL, rules.BONUS)
                       if (cells == kind).any())
    lava = 'Stepping on lava ends the route and voids it.' if self.fatal_lava else 'Step on little lava.'
    return [{'role': 'user', 'content': (
        f'The cells of a {self.size} by {self.size} grid are numbered row by row from 0 to {self.size**2 - 1}.\n'
        f'{places}\nA route lists the cells after the start; each lies directly above, below, left or right of the '
        f'one before and is no wall. It has at most {int(example["budget"])} cells and scores only if it ends on the '
        f'exit. Collect many items. {lava}\n{maze_task.tag_request(num_answers)}')}]
