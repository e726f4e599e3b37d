"""The published treasure maze, for language models (moves as words) and for small models (cells as tokens).

  S . G        budget 4, 3x3 cut from a maze: two gold, no diamond, one lava
  # L G
  . . E

  answer   RIGHT RIGHT DOWN DOWN     completion 1, gold 2/2, diamond 0, avoid_lava 1
  answer   RIGHT DOWN DOWN RIGHT     completion 1, gold 0, diamond 0, avoid_lava 0
  answer   DOWN RIGHT RIGHT DOWN     DOWN bumps into the wall: three steps are left and E is not reached, all 0

`convex_bonus` squares the fractions and multiplies them by 1.5 if the route passes the bonus cell, at most 1: this is
what the published mazes were scored with. `linear`, the default, is the published description. See `maze_generator`
for the mazes.
"""

import dataclasses
import random
import re

import numpy as np

from vpo_jax.tasks import maze_generator, maze_task
from vpo_jax.tasks import maze_rules as rules

SYMBOLS = '.#SELBGD'  # By kind.
MOVES = {'UP': (-1, 0), 'DOWN': (1, 0), 'LEFT': (0, -1), 'RIGHT': (0, 1)}
SHIFTED_OPENINGS = (10, 14)


@dataclasses.dataclass(frozen=True)
class Maze(maze_task.MazeTask):
  """Gold around one corner, diamonds around another, lava between, few walls; start and budget vary.

  Text: an answer is the move words UP, DOWN, LEFT, RIGHT in any case; every other word is passed over. A move into a
  wall or off the grid costs a step and leads nowhere; equal answers are those that walk the same cells, bumps or not.

  Tokens: as in `maze_task`, a cell a token, where a wall makes the route invalid; prompts list start, items, lava and
  walls, and the budget in a block of tokens of its own. Mazes that do not fit (a budget above 4 * size - 1, or more
  than three walls in ten cells: none in the first 1100 published ones) are drawn again.

  `shifted` mazes have about twice the walls (10 to 14 extra openings where the others have 18 to 28).
  """
  size: int = 9

  def __post_init__(self):
    super().__post_init__()
    if self.size < 5 or self.size % 2 == 0:
      raise ValueError(f'size={self.size} must be odd and at least 5.')

  @property
  def name(self) -> str:
    return 'maze'

  @property
  def kinds(self) -> tuple[int, ...]:
    return (rules.GOLD, rules.DIAMOND)

  @property
  def max_budget(self) -> int:
    return 4 * self.size - 1

  @property
  def prompt_kinds(self) -> tuple[int, ...]:
    return (rules.START, rules.GOLD, rules.DIAMOND, rules.LAVA, rules.WALL)

  @property
  def max_walls(self) -> int:
    """Most walls of a maze."""
    return 3 * self.size**2 // 10

  @property
  def prompt_width(self) -> int:
    return 1 + 5 + 5 + 5 + self.max_walls + 1 + 1

  @property
  def vocab_size(self) -> int:
    return super().vocab_size + self.max_budget + 1

  def prompt_tokens(self, example: dict, num_answers: int) -> np.ndarray:
    tokens = super().prompt_tokens(example, num_answers)
    return np.insert(tokens, -1, super().vocab_size + int(example['budget']))

  def draw(self, rng: random.Random, shifted: bool) -> dict[str, np.ndarray] | None:
    openings = SHIFTED_OPENINGS if shifted else maze_generator.OPENINGS
    example = maze_generator.draw(rng, self.size, openings)
    if example is None or example['budget'] > self.max_budget:
      return None
    return example if (example['cells'] == rules.WALL).sum() <= self.max_walls else None

  def answer_text(self, example: dict, route: list[int]) -> str:
    """The moves of `route` up to its first illegal cell."""
    path = rules.executed_path(example['cells'], int(example['budget']), route, size=self.size, fatal_lava=False)
    names = {row * self.size + col: name for name, (row, col) in MOVES.items()}
    ends = [int(np.argmax(example['cells'] == rules.START)), *path]
    return ' '.join(names[after - before] for before, after in zip(ends[:-1], path, strict=True))

  def answer_path(self, example: dict, answer: str) -> list[int]:
    """Cells walked by the move words in `answer`, without the steps lost at walls."""
    cells, size = example['cells'], self.size
    words = (word[0].upper() for word in re.finditer('[A-Za-z0-9_]+', answer))
    moves = [MOVES[word] for word in words if word in MOVES]
    row, col = divmod(int(np.argmax(cells == rules.START)), size)
    path = []
    for down, right in moves[:int(example['budget'])]:
      if 0 <= row + down < size and 0 <= col + right < size and cells[(row + down) * size + col + right] != rules.WALL:
        row, col = row + down, col + right
        path.append(row * size + col)
        if cells[path[-1]] == rules.EXIT:
          break
    return path

  def messages(self, example: dict, num_answers: int) -> list[dict[str, str]]:
    rows = example['cells'].reshape(self.size, self.size)
    grid = '\n'.join(' '.join(SYMBOLS[kind] for kind in row) for row in rows)
    if self.reward_mode == 'linear':
      scoring = 'three shares: gold collected, diamonds collected, lava cells avoided. B has no effect.'
    else:
      scoring = (f'the squares of three shares: gold collected, diamonds collected, lava cells avoided. Passing B '
                 f'multiplies each by {rules.BONUS_FACTOR}, up to 1.')
    return [{'role': 'user', 'content': (
        f'A map, one symbol per cell:\n\n{grid}\n\nS start, E exit, G gold, D diamond, L lava, B bonus, # wall, '
        f'. free. The moves UP, DOWN, LEFT and RIGHT go one cell each; a move into a wall or off the map stays in '
        f'place and still counts. A route has at most {int(example["budget"])} moves, stops at E, and scores nothing '
        f'unless it reaches E. If it does, it is scored on {scoring} A route is a list of moves separated by spaces.\n'
        f'{maze_task.tag_request(num_answers)}')}]
