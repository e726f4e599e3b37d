"""Answers between tags, found in one pass: `<route_1>..</route_1>`, `<answer>..</answer>`.

  text     <think>say <route_1>UP</route_1></think> <route_2>DOWN</route_2> <route_1>LEFT</route_1>
  found    route_1: 'LEFT', route_2: 'DOWN'

The rules: only what follows the last `</think>` counts, and nothing after a `<think>` that is never closed. A block
is an opening tag whose next tag of any of the wanted names is its own closing tag; an opening tag followed by another
one is a stray and counts for nothing, so nested blocks yield the inner one. Of several blocks with one name the first
counts. Tag names are case-insensitive and hold no spaces. Text outside blocks is never an answer.
"""

import re

import numpy as np

THINK, THINK_END = '<think>', '</think>'


def first_blocks(text: str, wanted: tuple[str, ...]) -> dict[str, str]:
  """Text inside the first block of each tag in `wanted` (lower case), stripped; missing names are left out.

  Linear in the text: every tag is looked at once, and the pattern cannot backtrack.
  """
  text = text.rpartition(THINK_END)[2].partition(THINK)[0]
  pattern = '|'.join(sorted(map(re.escape, wanted)))
  found, opened, begin = {}, None, 0
  for tag in re.finditer(f'<(/?)({pattern})>', text, re.IGNORECASE | re.ASCII):
    name = tag[2].lower()
    if not tag[1]:
      opened, begin = name, tag.end()
      continue
    if opened == name:
      found.setdefault(name, text[begin:tag.start()].strip())
    opened = None
  return found


def names(kind: str, num_answers: int) -> tuple[str, ...]:
  """Tag names of the answers: `answer` for one, `<kind>_1` .. `<kind>_m` for several."""
  if check_num_answers(num_answers) == 1:
    return ('answer',)
  return tuple(f'{kind}_{i}' for i in range(1, num_answers + 1))


def check_num_answers(num_answers: int) -> int:
  """Returns `num_answers`; raises ValueError unless it is an integer >= 1."""
  if isinstance(num_answers, bool) or not isinstance(num_answers, (int, np.integer)) or num_answers < 1:
    raise ValueError(f'{num_answers=} must be an integer >= 1.')
  return int(num_answers)
