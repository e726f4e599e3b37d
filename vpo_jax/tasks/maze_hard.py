"""The hard maze: four treasure zones of which a route can have one, walls, deadly lava, and not a step to spare.

  S . . . . . . a a     9x9, S is cell 0, the exit E 80, and the budget of 16 steps is the shortest way exactly: every
  . . . . . . . a a     step must lead right or down. The zones a, b, c, d (2x2, two items each) lie along the other
  . . . . . b b . .     diagonal, each below and left of the one before, so that no two fit into one route.
  . . . . . b b . .     Which of gold, diamond, ruby and pearl lies in which zone is drawn per maze, as are four walls
  . . . c c . . . .     and six lava cells. Stepping on lava ends the route and voids it.
  . . . c c . . . .
  . d d . . . . . .     reward   completion, then the fraction of each of the four kinds (d = 5)
  . d d . . . . . .     scalar   their mean: at most (1 + 1) / 5
  . . . . . . . . E

Its demonstrations arrive in 5 % of all cases, so a warm start on them is weak; m = 5 answers have room for all kinds.
"""

import dataclasses

from vpo_jax.tasks import maze_small


@dataclasses.dataclass(frozen=True)
class MazeHard(maze_small.MazeSmall):
  """`MazeSmall` with four kinds along the diagonal; attributes as there, `items` for gold, diamond, ruby, pearl.

  In `shifted` mazes items lie anywhere, so a route can have several kinds.
  """
  size: int = 9
  items: tuple[int, ...] = (2, 2, 2, 2)
  lava: int = 6
  walls: int = 4
  zone: int = 2
  fatal_lava: bool = True
  noise: float = .15

  @property
  def name(self) -> str:
    return 'maze_hard'

  def _zones(self) -> list[list[int]]:
    if self.zone < 1 or 4 * self.zone > self.size:
      raise ValueError(f'zone={self.zone} must be at least 1 and at most a quarter of size={self.size}.')
    corners = [(i * self.zone, self.size - (i + 1) * self.zone) for i in range(4)]
    cells = [[(row + i) * self.size + col + j for i in range(self.zone) for j in range(self.zone)]
             for row, col in corners]
    return [[cell for cell in zone if cell != self._bonus()] for zone in cells]
