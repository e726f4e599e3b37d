"""Tasks by name: `make('maze_small', budget=18)`. Importing them imports no JAX."""

import dataclasses
import difflib
from typing import Any

from vpo_jax.tasks.maze import Maze
from vpo_jax.tasks.maze_hard import MazeHard
from vpo_jax.tasks.maze_small import MazeSmall
from vpo_jax.tasks.programs import Programs

TASKS = {
    'maze_small': MazeSmall,
    'maze_hard': MazeHard,
    'maze': Maze,
    'programs': Programs,
}


def make(name: str, **settings: Any):
  """Makes the task `name` with these fields set; an unknown name or field is a ValueError that suggests the nearest."""
  if name not in TASKS:
    raise ValueError(f'{name=} must be one of {", ".join(TASKS)}{_nearest(name, TASKS)}.')
  fields = [field.name for field in dataclasses.fields(TASKS[name])]
  for field in settings:
    if field not in fields:
      raise ValueError(f'{field}={settings[field]!r} is no field of task {name!r}, which has '
                       f'{", ".join(fields)}{_nearest(field, fields)}.')
  return TASKS[name](**settings)


def _nearest(word: str, known) -> str:
  close = difflib.get_close_matches(str(word), list(known), n=1)
  return f' (did you mean {close[0]!r}?)' if close else ''
