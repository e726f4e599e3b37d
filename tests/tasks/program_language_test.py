"""The list language in plain Python: every word by hand, types, saturation, and what has no meaning."""

import random

import hypothesis
import hypothesis.strategies as st
import pytest

from vpo_jax.tasks import program_language as language

X = (3, -1, 4)


@pytest.mark.parametrize('program, x, expected', [
    ('x 2 multiply sum', X, 12),
    ('x sort reverse 2 take', X, (4, 3)),
    ('x', X, X),
    ('3', X, 3),
    ('x sort', X, (-1, 3, 4)),
    ('x reverse', X, (4, -1, 3)),
    ('x tail', X, (-1, 4)),
    ('x init', X, (3, -1)),
    ('x running_sum', X, (3, 2, 6)),
    ('x differences', X, (-4, 5)),
    ('x evens', (0, -1, 4, -2, 3), (0, 4, -2)),
    ('x odds', (0, -1, 4, -2, 3), (-1, 3)),
    ('x positives', (0, -1, 4), (4,)),
    ('x sum', X, 6),
    ('x maximum', X, 4),
    ('x minimum', X, -1),
    ('x first', X, 3),
    ('x last', X, 4),
    ('x length', X, 3),
    ('x negate', X, (-3, 1, -4)),
    ('x square', X, (9, 1, 16)),
    ('x halve', (3, -1, 4, -4), (1, -1, 2, -2)),  # Down.
    ('x x reverse add', X, (7, -2, 7)),
    ('x 1 subtract', X, (2, -2, 3)),
    ('1 x subtract', X, (-2, 2, -3)),
    ('x x tail multiply', X, (-3, -4)),  # Ends with the shorter one.
    ('x 2 larger', X, (3, 2, 4)),
    ('x 2 smaller', X, (2, -1, 2)),
    ('3 2 subtract', X, 1),
    ('x 2 take', X, (3, -1)),
    ('x 2 drop', X, (4,)),
    ('x 2 negate take', X, ()),  # Of a negative count: that of 0.
    ('x 2 negate drop', X, X),
    ('x 3 square drop', X, ()),
])
def test_words_do_what_the_language_says(program, x, expected):
  words = program.split()
  assert language.result_type(words) == ('i' if isinstance(expected, int) else 'l')
  assert language.run(words, x) == expected


@pytest.mark.parametrize('word', ['sum', 'maximum', 'minimum', 'first', 'last', 'length'])
def test_an_empty_list_has_number_0(word):
  assert language.run(['x', word], ()) == 0


@pytest.mark.parametrize('word', ['sort', 'reverse', 'tail', 'init', 'running_sum', 'differences', 'evens', 'negate'])
def test_an_empty_list_stays_empty(word):
  assert language.run(['x', word], ()) == ()


@pytest.mark.parametrize('program, x, expected', [
    ('x square', (20, -10, 9), (99, 99, 81)),
    ('x sum', (99, 99, -1), 99),  # 197: the sum saturates, not its parts.
    ('x running_sum', (99, 99, -99), (99, 99, 99)),  # 99, 198, 99.
    ('x negate x subtract', (60, -60), (-99, 99)),
    ('3 square square square', (), 99),
])
def test_numbers_saturate(program, x, expected):
  assert language.run(program.split(), x) == expected


@pytest.mark.parametrize('program', [
    '', 'add', 'x 1', 'x sum sort', '1 sum', '1 x take', 'x x take', 'x median', 'X', '4', 'x' + ' reverse' * 8])
def test_what_has_no_meaning_is_invalid(program):
  assert language.result_type(program.split()) is None


def test_the_longest_program_has_8_words():
  assert language.result_type(['x', *['reverse'] * 7]) == 'l'


def test_structure_forgets_the_order_of_commutative_operands_alone():
  of = lambda program: language.structure(program.split())
  assert of('1 x sum add') == of('x sum 1 add') == 'add(1,sum(x))'
  assert of('1 x sum subtract') != of('x sum 1 subtract')
  assert of('x 1 take') == 'take(x,1)'


@hypothesis.given(st.integers(0, 2**32), st.integers(1, language.MAX_WORDS),
                  st.lists(st.integers(-language.LIMIT, language.LIMIT), max_size=language.MAX_LIST))
def test_random_programs_are_valid_and_total(seed, num_words, x):
  words = language.random_program(random.Random(seed), num_words)
  assert len(words) == num_words
  result = language.run(words, tuple(x))
  assert language.result_type(words) == ('i' if isinstance(result, int) else 'l')
  numbers = (result,) if isinstance(result, int) else result
  assert len(numbers) <= language.MAX_LIST and all(abs(number) <= language.LIMIT for number in numbers)
