"""Answers between tags, found in one pass: `<route_1>..</route_1>`, `<answer>..</answer>`.

  text     <think>say <route_1>UP</route_1></think> <route_2>DOWN</route_2> <route_1>LEFT</route_1>
  found    route_1: 'LEFT', route_2: 'DOWN'

The rules: only what follows the last `</think>` counts, and nothing after a `<think>` that is never closed. A block
is an opening tag whose next tag of any of the wanted names is its own closing tag; an opening tag followed by another
one is a stray and counts for nothing, so nested blocks yield the inner one. Of several blocks with one name the first
counts. Tag names are case-insensitive and hold no spaces. Text outside blocks is never an answer.
"""

import re

THINK, THINK_END = '<think>', '</think>'


def first_blocks(text: str, names: tuple[str, ...]) -> dict[str, str]:
  """Text inside the first block of each tag in `names` (lower case), stripped; missing names are left out.

  Linear in the text: every tag is looked at once, and the pattern cannot backtrack.
  """
  text = text.rpartition(THINK_END)[2].partition(THINK)[0]
  wanted = '|'.join(sorted(map(re.escape, names)))
  found, opened, begin = {}, None, 0
  for tag in re.finditer(f'<(/?)({wanted})>', text, re.IGNORECASE | re.ASCII):
    name = tag[2].lower()
    if not tag[1]:
      opened, begin = name, tag.end()
      continue
    if opened == name:
      found.setdefault(name, text[begin:tag.start()].strip())
    opened = None
  return found
