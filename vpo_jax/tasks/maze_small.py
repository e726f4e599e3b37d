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

from vpo_jax.tasks import answer_tags, maze_task
from vpo_jax.tasks import maze_rules as rules


@dataclasses.dataclass(frozen=True)
class MazeSmall(maze_task.MazeTask):
  """Item kinds that exclude each other, each in a corner of its own.

  With two item kinds the route leads from the top left to the bottom right corner and the kinds lie in the other two;
  with four it starts in the centre, the exit is the cell right of it, and each corner holds a kind. Which kind lies
  where is drawn per maze. `shifted` examples have the same counts, but items as well as lava lie anywhere.

  Attributes:
    items: how many items of each kind (gold, diamond, ruby, pearl): two or four numbers.
    lava: lava cells, anywhere that is free.
    walls: wall cells, anywhere that is free; a maze in which they (or deadly lava) bar an item or the exit is drawn
      again.
    budget: steps of a route.
    zone: side of the square corners that hold items, the innermost cell of each excepted.
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
    if len(self.items) not in (2, 4) or min(self.items) < 1 or max(self.items) > self.zone**2 - 1:
      raise ValueError(f'items={self.items} must be two or four numbers from 1 to zone² - 1 = {self.zone**2 - 1}.')
    if self.zone < 2 or 2 * self.zone >= self.size:
      raise ValueError(f'zone={self.zone} must be at least 2 and less than half of size={self.size}.')
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

  def _ends(self) -> tuple[int, int]:
    middle = self.size // 2 * (self.size + 1)
    return (0, self.size**2 - 1) if len(self.items) == 2 else (middle, middle + 1)

  def _zones(self) -> list[list[int]]:
    """Cells of the item corners; the two (or four) lists belong to the kinds in an order drawn per maze."""
    low, high = range(self.zone), range(self.size - self.zone, self.size)
    inner_low, inner_high = self.zone - 1, self.size - self.zone
    corners = [(low, high, inner_low, inner_high), (high, low, inner_high, inner_low)]
    if len(self.items) == 4:
      corners += [(low, low, inner_low, inner_low), (high, high, inner_high, inner_high)]
    return [[row * self.size + col for row in rows for col in cols if (row, col) != (inner_row, inner_col)]
            for rows, cols, inner_row, inner_col in corners]

  def draw(self, rng: random.Random, shifted: bool) -> dict[str, np.ndarray] | None:
    cells = [rules.EMPTY] * self.size**2
    start, goal = self._ends()
    cells[start], cells[goal] = rules.START, rules.EXIT
    if self.reward_mode == 'convex_bonus':
      # Always on the middle cell (below it where the route starts there), so prompts need not say where.
      cells[self.size // 2 * (self.size + 1) + (self.size if len(self.items) == 4 else 0)] = rules.BONUS
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
    """Whether some legal route reaches the exit, and for each item one that passes it, within the budget."""
    barriers = {rules.WALL, rules.LAVA} if self.fatal_lava else {rules.WALL}
    closed = {cell for cell, kind in enumerate(cells) if kind in barriers}
    there = rules.distances(self.size, frozenset(closed | {goal}), start)
    back = rules.distances(self.size, frozenset(closed), goal)
    stops = [cell for cell, kind in enumerate(cells) if kind in self.kinds]
    return (0 < back[start] <= self.budget
            and all(there[c] > 0 and back[c] > 0 and there[c] + back[c] <= self.budget for c in stops))

  def answer_text(self, example: dict, route: list[int]) -> str:
    """The cell numbers of `route`, separated by spaces."""
    return ' '.join(map(str, route))

  def answer_route(self, example: dict, answer: str) -> list[int]:
    """Reads whole numbers (ASCII, at most six digits) between spaces or commas; anything else is an illegal cell."""
    words = answer.replace(',', ' ').split()
    return [int(word) if re.fullmatch('[0-9]{1,6}', word) else -1 for word in words]

  def messages(self, example: dict, num_answers: int) -> list[dict[str, str]]:
    """The maze as one chat message that asks for `num_answers` routes between tags."""
    check = maze_task.check_num_answers(num_answers)
    cells = example['cells']
    places = '\n'.join(f'{rules.KIND_NAMES[kind]}: {" ".join(map(str, np.flatnonzero(cells == kind)))}'
                       for kind in (rules.START, rules.EXIT, *self.kinds, rules.LAVA, rules.WALL, rules.BONUS)
                       if (cells == kind).any())
    lava = 'Stepping on lava ends the route without any score.' if self.fatal_lava else 'Visit little lava.'
    ask = ('Give one route as cell numbers inside <answer> </answer>.' if check == 1 else
           f'Give {check} routes that differ in what they collect, the first inside <route_1> </route_1> and so on '
           f'up to <route_{check}> </route_{check}>, as cell numbers. Each is scored by itself.')
    return [{'role': 'user', 'content': (
        f'A {self.size} by {self.size} grid is numbered row by row from 0 to {self.size**2 - 1}.\n{places}\n'
        f'A route lists the cells after the start, each directly above, below, left or right of the one before, and '
        f'has at most {int(example["budget"])} cells. It must end on the exit. Collect many items. {lava}\n{ask}')}]

  def parse(self, text: str, num_answers: int) -> list[str | None]:
    """The m answers in `text` (None: missing), by the rules of `answer_tags`."""
    names = answer_names(num_answers)
    found = answer_tags.first_blocks(text, names)
    return [found.get(name) or None for name in names]


def answer_names(num_answers: int) -> tuple[str, ...]:
  """Tag names of the answers: `answer` for one, `route_1` .. `route_m` for several."""
  if maze_task.check_num_answers(num_answers) == 1:
    return ('answer',)
  return tuple(f'route_{i}' for i in range(1, num_answers + 1))
