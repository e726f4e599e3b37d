"""What every maze task offers: splits by content, prompts as tokens, demonstrations, rewards, and the exact optimum.

A maze task says how mazes are drawn (`draw`) and how text looks; the rest is here.

Tokens (n = size² cells): 0 .. n-1 a cell, n the separator between routes, n+1 the end; then, only in prompts, n+2 and
n+3 (one answer asked for, several), and for each kind of thing n tokens "such a thing on cell c". A response is
`route SEP route .. END`.

Splits (`splits`) are disjoint by a maze's cells.
"""

import abc
import dataclasses
import random

import numpy as np

from vpo_jax.tasks import answer_tags, maze_oracle, splits
from vpo_jax.tasks import maze_rules as rules


@dataclasses.dataclass(frozen=True)
class MazeTask(abc.ABC):
  """A grid maze as a token task and a text task; see the module's head for the tokens.

  Attributes:
    size: side of the grid.
    reward_mode: `linear` (fractions) or `convex_bonus` (squared fractions, times 1.5 with the bonus cell, at most 1).
    noise: probability that a step of a demonstration is random.
    seed: seed of all example streams, >= 0.
  """
  size: int = 7
  reward_mode: str = 'linear'
  noise: float = .25
  seed: int = 0

  def __post_init__(self):
    if self.reward_mode not in rules.REWARD_MODES:
      raise ValueError(f'reward_mode={self.reward_mode!r} must be one of {", ".join(rules.REWARD_MODES)}.')
    if not 0 <= self.noise <= 1:
      raise ValueError(f'noise={self.noise} must lie in [0, 1].')
    if not isinstance(self.seed, int) or self.seed < 0:
      raise ValueError(f'seed={self.seed!r} must be an integer >= 0.')

  @property
  @abc.abstractmethod
  def name(self) -> str:
    """Name in `TASKS`."""

  @property
  @abc.abstractmethod
  def kinds(self) -> tuple[int, ...]:
    """Item kinds, a reward component each."""

  @property
  @abc.abstractmethod
  def max_budget(self) -> int:
    """Most steps of a route, which bounds the response."""

  @property
  @abc.abstractmethod
  def prompt_kinds(self) -> tuple[int, ...]:
    """Kinds that prompts list, in this order."""

  @property
  @abc.abstractmethod
  def prompt_width(self) -> int:
    """Longest prompt in tokens, P."""

  @abc.abstractmethod
  def draw(self, rng: random.Random, shifted: bool) -> dict[str, np.ndarray] | None:
    """Draws one example, of the shifted distribution if asked; None if the draw was rejected."""

  @abc.abstractmethod
  def answer_text(self, example: dict, route: list[int]) -> str:
    """Writes a route of cells as the text of an answer."""

  @abc.abstractmethod
  def answer_path(self, example: dict, answer: str) -> list[int]:
    """Walks the route that an answer's text describes: its executed path, by the rules of `maze_rules`."""

  @abc.abstractmethod
  def messages(self, example: dict, num_answers: int) -> list[dict[str, str]]:
    """The maze as chat messages that ask for `num_answers` routes between tags."""

  @property
  def fatal_lava(self) -> bool:
    """Whether stepping on lava ends the route, unrewarded."""
    return False

  @property
  def components(self) -> tuple[str, ...]:
    """Names of the d reward components."""
    return rules.components(self.kinds, self.fatal_lava)

  @property
  def success_components(self) -> tuple[str, ...]:
    """Components that a successful answer has all of: it reaches the exit."""
    return self.components[:1]

  @property
  def scalar_weights(self) -> np.ndarray:
    """The fixed weighting w* `[d]` float32: the mean of the components."""
    d = len(self.components)
    return np.full(d, 1 / d, np.float32)

  @property
  def separator(self) -> int:
    """Token between two routes."""
    return self.size**2

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """The end token, alone."""
    return (self.size**2 + 1,)

  @property
  def vocab_size(self) -> int:
    """Number of tokens: cells, separator, end, two modes, and a block of cells per listed kind."""
    return self.size**2 * (1 + len(self.prompt_kinds)) + 4

  def response_width(self, num_answers: int) -> int:
    """Tokens of the longest useful response: each route within its budget, and a separator or the end after it."""
    return answer_tags.check_num_answers(num_answers) * (self.max_budget + 1)

  def content(self, example: dict) -> bytes:
    """What no two splits share: the cells."""
    return example['cells'].astype('<i4').tobytes()

  def examples(self, split: str) -> splits.Examples:
    """The examples of `train`, `tuning`, `test` or `shifted`."""
    return splits.Examples(self, split)

  def prompt_tokens(self, example: dict, num_answers: int) -> np.ndarray:
    """Prompt `[<= P]` int32: what lies where, by kind and then by cell, and the mode token last."""
    answer_tags.check_num_answers(num_answers)
    cells, n = example['cells'], self.size**2
    listed = [n + 4 + block * n + np.flatnonzero(cells == kind) for block, kind in enumerate(self.prompt_kinds)]
    mode = n + 2 + (num_answers > 1)
    return np.concatenate([*listed, [mode]]).astype(np.int32)

  def token_reward(self, arrays: dict, tokens, lengths, num_answers: int):
    """Rewards `[.., m, d]`, answer_mask and answer_ids `[.., m]` of tokens `[.., T]`: `maze_reward.token_reward`."""
    from vpo_jax.tasks import maze_reward  # Imports JAX, which host scoring must not.
    return maze_reward.token_reward(
        arrays, tokens, lengths, num_answers=answer_tags.check_num_answers(num_answers), size=self.size,
        kinds=self.kinds, reward_mode=self.reward_mode, fatal_lava=self.fatal_lava)

  def decode(self, example: dict, tokens: np.ndarray, num_answers: int) -> list[str | None]:
    """The m answers of a token response `[T]` as text (None: missing): `reward` of these is what the tokens earn."""
    routes, end = [[]], self.stop_ids[0]
    for token in np.asarray(tokens).tolist():
      if token == end:
        break
      if token == self.separator:
        routes.append([])
      else:
        routes[-1].append(token)
    routes = (routes + [[]] * answer_tags.check_num_answers(num_answers))[:num_answers]
    return [self.answer_text(example, route) if route else None for route in routes]

  def demonstration(self, example: dict, num_answers: int, rng: np.random.Generator) -> np.ndarray:
    """A noisy response `[<= C]` int32 to imitate, end token included: `num_answers` independent routes.

    A route has one preference (none 20 %, else one item kind), passes one to three random items of that kind in
    random order and then makes for the exit, by random shortest ways around walls; each step is random with
    probability `noise`, lava is ignored, and the budget cuts it off. So routes are legal and far from optimal, and many
    do not arrive.
    """
    tokens = []
    for _ in range(answer_tags.check_num_answers(num_answers)):
      tokens += self._noisy_route(example, rng) + [self.separator]
    tokens[-1] = self.stop_ids[0]
    return np.array(tokens, np.int32)

  def _noisy_route(self, example: dict, rng: np.random.Generator) -> list[int]:
    cells, budget = example['cells'].tolist(), int(example['budget'])
    closed = frozenset(cell for cell, kind in enumerate(cells) if kind == rules.WALL)
    uniform = iter(rng.random(2 * budget + 8).tolist())
    pick = lambda options: options[int(next(uniform) * len(options))]
    targets = []
    if next(uniform) >= .2:
      preferred = pick(self.kinds)
      items = [cell for cell, kind in enumerate(cells) if kind == preferred]
      for _ in range(min(len(items), 1 + int(3 * next(uniform)))):
        targets.append(items.pop(int(next(uniform) * len(items))))
    position, goal = cells.index(rules.START), cells.index(rules.EXIT)
    targets.append(goal)
    route, around = [], rules.neighbours(self.size)
    while position != goal and len(route) < budget:
      if position == targets[0]:
        targets.pop(0)
      options = rules.downhill(self.size, closed, targets[0])[position]
      if next(uniform) < self.noise or not options:
        options = [cell for cell in around[position] if cell not in closed]
      position = pick(options)
      route.append(position)
    return route

  def reward(self, example: dict, answer: str) -> np.ndarray:
    """Reward `[d]` float32 in [0, 1] of one answer's text."""
    return rules.path_reward(example['cells'], self.answer_path(example, answer), kinds=self.kinds,
                             reward_mode=self.reward_mode, fatal_lava=self.fatal_lava)

  def canonical(self, example: dict, answer: str) -> str:
    """The executed path as text: equal for two answers exactly if they walk the same cells."""
    return ' '.join(map(str, self.answer_path(example, answer)))

  def parse(self, text: str, num_answers: int) -> list[str | None]:
    """The m answers in a response's text (None: missing or blank), by the rules of `answer_tags`."""
    names = answer_tags.names('route', num_answers)
    found = answer_tags.first_blocks(text, names)
    return [found.get(name) or None for name in names]

  def component_mask(self, example: dict) -> np.ndarray:
    """`[d]` bool, all True: every maze has every component."""
    del example
    return np.ones(len(self.components), bool)

  def evaluation_mask(self, example: dict) -> np.ndarray:
    """`[d]` bool, the components that count in an evaluation: those of the training."""
    return self.component_mask(example)

  def best_vectors(self, example: dict) -> np.ndarray:
    """The exact Pareto front `[n, d]` float32 of the rewards of one route."""
    return maze_oracle.best_vectors(example['cells'], int(example['budget']), size=self.size, kinds=self.kinds,
                                    reward_mode=self.reward_mode, fatal_lava=self.fatal_lava)

  def oracle(self, example: dict) -> float:
    """The best scalar w*ᵀr of one route, exact."""
    return float((self.best_vectors(example) @ self.scalar_weights).max())


def tag_request(num_answers: int) -> str:
  """Says in words between which tags the answers belong."""
  names = answer_tags.names('route', num_answers)
  if len(names) == 1:
    return 'Write the route, and nothing else, between <answer> and </answer>.'
  return (f'Find {len(names)} different routes that make different choices about what to collect; each has the full '
          f'budget and is scored on its own. Write each between tags of its own: '
          + ' '.join(f'<{name}>..</{name}>' for name in names) + ', with nothing but the route between the tags.')
