"""A list-processing language of postfix programs, total by construction, and its interpreter in plain Python.

A program is at most 8 words, read from left to right on a stack. `x` pushes the input, a list of at most 5 integers;
`1`, `2` and `3` push themselves; every other word takes its operands off the stack and pushes one value. A value is an
integer or a list. A program is valid if its types fit and one value is left; that depends on the words alone.

  x 2 multiply sum       [3, -1, 4] -> 12
  x sort reverse 2 take  [3, -1, 4] -> [4, 3]
  x 1                    invalid: two values are left
  x sum sort             invalid: `sort` takes a list

Nothing can go wrong at run time: arithmetic saturates at -99 and 99, an empty list has sum, first, last, maximum and
minimum 0, and `take` and `drop` of a negative count are those of 0. `add` and its kin work on integers, on lists (up to
the shorter one's end) and on a list and an integer (every element with it).
"""

import dataclasses
import itertools
import random
from collections.abc import Callable

LIMIT = 99  # Numbers saturate here.
MAX_WORDS = 8
MAX_LIST = 5
MAX_DEPTH = 4  # A deeper stack cannot shrink to one value within MAX_WORDS.

Value = int | tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Operation:
  """What a word does.

  Attributes:
    takes: a letter per operand, bottom first: `l` a list, `i` an integer, `v` either.
    gives: `l`, `i`, or `v`: a list if an operand is one, else an integer.
    apply: operands to result, before saturation.
  """
  takes: str
  gives: str
  apply: Callable[..., Value]


def _each(function: Callable[[int], int]) -> Operation:
  return Operation('v', 'v', lambda v: function(v) if isinstance(v, int) else tuple(map(function, v)))


def _pairs(function: Callable[[int, int], int]) -> Operation:
  def apply(a, b):
    match a, b:
      case int(), int():
        return function(a, b)
      case int(), tuple():
        return tuple(function(a, y) for y in b)
      case tuple(), int():
        return tuple(function(x, b) for x in a)
    return tuple(map(function, a, b))  # Ends with the shorter one.
  return Operation('vv', 'v', apply)


def _kept(condition: Callable[[int], bool]) -> Operation:
  return Operation('l', 'l', lambda v: tuple(filter(condition, v)))


PUSHES = ('x', '1', '2', '3')
OPERATIONS = {
    'sort': Operation('l', 'l', lambda v: tuple(sorted(v))),
    'reverse': Operation('l', 'l', lambda v: v[::-1]),
    'tail': Operation('l', 'l', lambda v: v[1:]),
    'init': Operation('l', 'l', lambda v: v[:-1]),
    'running_sum': Operation('l', 'l', lambda v: tuple(sum(v[:i + 1]) for i in range(len(v)))),
    'differences': Operation('l', 'l', lambda v: tuple(b - a for a, b in itertools.pairwise(v))),
    'evens': _kept(lambda x: x % 2 == 0),
    'odds': _kept(lambda x: x % 2 == 1),
    'positives': _kept(lambda x: x > 0),
    'sum': Operation('l', 'i', sum),
    'maximum': Operation('l', 'i', lambda v: max(v, default=0)),
    'minimum': Operation('l', 'i', lambda v: min(v, default=0)),
    'first': Operation('l', 'i', lambda v: v[0] if v else 0),
    'last': Operation('l', 'i', lambda v: v[-1] if v else 0),
    'length': Operation('l', 'i', len),
    'negate': _each(lambda x: -x),
    'square': _each(lambda x: x * x),
    'halve': _each(lambda x: x // 2),  # Rounds down.
    'add': _pairs(lambda x, y: x + y),
    'subtract': _pairs(lambda x, y: x - y),
    'multiply': _pairs(lambda x, y: x * y),
    'larger': _pairs(max),
    'smaller': _pairs(min),
    'take': Operation('li', 'l', lambda v, n: v[:max(n, 0)]),
    'drop': Operation('li', 'l', lambda v, n: v[max(n, 0):]),
}
WORDS = (*PUSHES, *OPERATIONS)
CODES = {word: code for code, word in enumerate(WORDS)}
COMMUTATIVE = frozenset({'add', 'multiply', 'larger', 'smaller'})


def saturated(value: Value) -> Value:
  """Every number of `value` brought into [-LIMIT, LIMIT]."""
  if isinstance(value, int):
    return min(max(value, -LIMIT), LIMIT)
  return tuple(min(max(x, -LIMIT), LIMIT) for x in value)


def next_types(types: str, word: str) -> str | None:
  """Types of the stack after a word (a letter a value, top last); None if the word is unknown or its operands are not
  there."""
  if word in PUSHES:
    return types + ('l' if word == 'x' else 'i')
  if word not in OPERATIONS:
    return None
  operation = OPERATIONS[word]
  count = len(operation.takes)
  operands = types[len(types) - count:] if len(types) >= count else ''
  if len(operands) != count or any(want not in ('v', has) for want, has in zip(operation.takes, operands, strict=True)):
    return None
  gives = operation.gives if operation.gives != 'v' else ('l' if 'l' in operands else 'i')
  return types[:len(types) - count] + gives


def result_type(words: list[str]) -> str | None:
  """`l` or `i`, what a program leaves behind; None if it is invalid: ill-typed, empty, unfinished or too long."""
  if not 1 <= len(words) <= MAX_WORDS:
    return None
  types = ''
  for word in words:
    types = next_types(types, word)
    if types is None:
      return None
  return types if len(types) == 1 else None


def run(words: list[str], x: tuple[int, ...]) -> Value:
  """Result of a valid program on the input list `x`."""
  stack = []
  for word in words:
    if word in PUSHES:
      stack.append(x if word == 'x' else int(word))
      continue
    operation = OPERATIONS[word]
    operands = [stack.pop() for _ in operation.takes][::-1]
    stack.append(saturated(operation.apply(*operands)))
  return stack[0]


def structure(words: list[str]) -> str:
  """A valid program as one expression, operands of commutative words in alphabetical order: `add(1,sum(x))`."""
  stack = []
  for word in words:
    if word in PUSHES:
      stack.append(word)
      continue
    operands = [stack.pop() for _ in OPERATIONS[word].takes][::-1]
    if word in COMMUTATIVE:
      operands.sort()
    stack.append(f'{word}({",".join(operands)})')
  return stack[0]


def random_program(rng: random.Random, num_words: int) -> list[str]:
  """Draws a valid program of so many words: each uniformly from those that can still be finished."""
  words, types = [], ''
  for left in reversed(range(num_words)):
    options = [(word, after) for word in WORDS if (after := next_types(types, word)) and len(after) - 1 <= left]
    word, types = rng.choice(options)
    words.append(word)
  return words
