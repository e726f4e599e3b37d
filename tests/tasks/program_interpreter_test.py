"""The jitted interpreter against the plain one, on random and on damaged programs."""

import itertools
import random

import jax
import numpy as np
import pytest

from vpo_jax.tasks import program_interpreter
from vpo_jax.tasks import program_language as language

run = jax.jit(program_interpreter.run)
WIDTH = 10  # Tokens: more than a program may have.


def random_rows(rng: random.Random, count: int) -> list[list[int]]:
  """Codes of random programs, every third of them damaged: other words, no words, too many or none at all."""
  rows = []
  for index in range(count):
    row = [language.CODES[word] for word in language.random_program(rng, rng.randint(1, language.MAX_WORDS))]
    if index % 3 == 0:
      at = rng.randrange(len(row) + 1)
      row[at:at + rng.randrange(3)] = [rng.randint(-2, len(language.WORDS) + 1) for _ in range(rng.randrange(3))]
    rows.append(row[:WIDTH])
  return rows


def random_inputs(rng: random.Random, count: int) -> list[tuple[int, ...]]:
  """Lists of every length and size of numbers."""
  return [tuple(rng.randint(-largest, largest) for _ in range(rng.randint(0, language.MAX_LIST)))
          for largest in (rng.choice((1, 9, language.LIMIT)) for _ in range(count))]


def padded(rows, width):
  """Rows `[n, width]`, filled up with what must not be read, and their lengths."""
  return np.array([[*row, *[1] * (width - len(row))] for row in rows], np.int32), np.array(list(map(len, rows)))


def assert_agree(rows, inputs, seen):
  ran = jax.tree.map(np.asarray, run(*padded(rows, WIDTH), *padded(inputs, language.MAX_LIST)))
  for row, values, lengths, valid, identity in zip(rows, *ran, strict=True):
    words = [language.WORDS[code] if 0 <= code < len(language.WORDS) else f'<{code}>' for code in row]
    assert valid == (language.result_type(words) is not None), words
    key = language.structure(words) if valid else tuple(words[:language.MAX_WORDS])
    assert seen.setdefault(key, identity) == identity, words
    for x, value, length in zip(inputs, values, lengths, strict=True):
      if valid:
        result = value[0] if length < 0 else tuple(value[:length])
        assert result == language.run(words, x), (words, x)
        assert not value[abs(length):].any()


def test_agrees_with_plain_python():
  rng, seen = random.Random(1), {}
  for _ in range(2):
    assert_agree(random_rows(rng, 1000), random_inputs(rng, 12), seen)
  assert len(set(seen.values())) == len(seen)  # No two structures share a hash.


@pytest.mark.slow
def test_agrees_with_plain_python_on_100_000_programs():
  rng, seen = random.Random(2), {}
  for _ in range(100):
    assert_agree(random_rows(rng, 1000), random_inputs(rng, 12), seen)


def test_every_word_agrees_alone_and_on_lists_and_integers():
  operands = {'l': [['x'], ['x', 'tail']], 'i': [['2'], ['x', 'sum'], ['3', 'negate']]}
  rows = [[word] for word in language.WORDS]
  for word, operation in language.OPERATIONS.items():
    choices = [[p for kind in ('li' if want == 'v' else want) for p in operands[kind]] for want in operation.takes]
    rows += [[*itertools.chain(*chosen), word] for chosen in itertools.product(*choices)]
  rows = [[language.CODES[word] for word in row] for row in rows]
  inputs = [(), (0,), (99, -99, 99, -99, 99), (-99,) * 5, (5, 5, 1, 1, 3), (7, -8), (2, -2, 0, 1), (3, 2, 1)]
  ran = jax.tree.map(np.asarray, run(*padded(rows, WIDTH), *padded(inputs, language.MAX_LIST)))
  assert ran.valid[len(language.PUSHES):len(language.WORDS)].sum() == 0  # An operation alone has no operands.
  assert ran.valid[len(language.WORDS):].all()
  assert_agree(rows, inputs, {})


def test_one_compilation_for_all_batches_of_a_shape():
  rng = random.Random(3)
  for _ in range(3):
    run(*padded(random_rows(rng, 1000), WIDTH), *padded(random_inputs(rng, 12), language.MAX_LIST))
  before = run._cache_size()
  run(*padded(random_rows(rng, 1000), WIDTH), *padded(random_inputs(rng, 12), language.MAX_LIST))
  assert run._cache_size() == before
