"""The language of `program_language` as a jitted function: many programs on many inputs at once.

Every program runs on every input, all operations on all of them at every word, and a select keeps the one that was
asked for. The axis of programs is last and numbers are int16 (|99²| fits), so that a CPU's vector units are full.

An integer on the stack is a list of `MAX_LIST` copies of itself: then arithmetic on mixed operands is plain arithmetic.
"""

import typing

import jax
import jax.numpy as jnp

from vpo_jax.tasks import program_language as language

_TAKES = [len(language.OPERATIONS[word].takes) if word in language.OPERATIONS else 0 for word in language.WORDS]


class Outputs(typing.NamedTuple):
  """What programs gave.

  Attributes:
    values: `[P, n, MAX_LIST]` int16, zero beyond the length; an integer is the first of them.
    lengths: `[P, n]` int16 list length, -1 for an integer.
    valid: `[P]` bool; the outputs of an invalid program mean nothing.
    structure: `[P]` uint32 hash, equal for equal `program_language.structure`; of the words, for an invalid program.
  """
  values: jax.Array
  lengths: jax.Array
  valid: jax.Array
  structure: jax.Array


def run(programs: jax.Array, num_words: jax.Array, inputs: jax.Array, input_lengths: jax.Array) -> Outputs:
  """Runs every program on every input.

  Args:
    programs: `[P, T]` int32 codes of words, any integer beyond `num_words` and anywhere else where it is no code.
    num_words: `[P]` int32; outside of 1 .. MAX_WORDS the program is invalid.
    inputs: `[n, MAX_LIST]` integers in [-LIMIT, LIMIT].
    input_lengths: `[n]` integers.
  """
  num_programs, num_inputs = programs.shape[0], inputs.shape[0]
  x = jnp.broadcast_to(inputs.astype(jnp.int16).T[..., None], (language.MAX_LIST, num_inputs, num_programs))
  x_length = jnp.broadcast_to(input_lengths.astype(jnp.int16)[None, :, None], (1, num_inputs, num_programs))
  of_stack = lambda *shape, dtype: jnp.zeros((language.MAX_DEPTH, *shape, num_programs), dtype)
  machine = _Machine(
      values=of_stack(language.MAX_LIST, num_inputs, dtype=jnp.int16), lengths=of_stack(1, num_inputs, dtype=jnp.int16),
      is_list=of_stack(dtype=bool), hashes=of_stack(dtype=jnp.uint32), depth=jnp.zeros(num_programs, jnp.int32),
      valid=(num_words >= 1) & (num_words <= language.MAX_WORDS), text=jnp.ones(num_programs, jnp.uint32))
  words = programs[:, :language.MAX_WORDS].T
  step = lambda machine, word: (_step(machine, *word, num_words, x, x_length), None)
  end, _ = jax.lax.scan(step, machine, (words, jnp.arange(len(words))))
  valid = end.valid & (end.depth == 1)
  lengths = jnp.where(end.is_list[0][None], end.lengths[0, 0], jnp.int16(-1))
  inside = jnp.arange(language.MAX_LIST)[:, None, None] < jnp.abs(lengths)[None]
  values = jnp.where(inside, end.values[0], 0)
  return Outputs(values.T, lengths.T, valid, jnp.where(valid, end.hashes[0], end.text))


class _Machine(typing.NamedTuple):
  """State between two words; stacks have their top first.

  Attributes:
    values: `[MAX_DEPTH, MAX_LIST, n, P]` int16.
    lengths: `[MAX_DEPTH, 1, n, P]` int16, MAX_LIST for an integer.
    is_list: `[MAX_DEPTH, P]` bool.
    hashes: `[MAX_DEPTH, P]` uint32, of the expressions that gave the values.
    depth: `[P]` int32.
    valid: `[P]` bool, so far.
    text: `[P]` uint32, hash of the words so far.
  """
  values: jax.Array
  lengths: jax.Array
  is_list: jax.Array
  hashes: jax.Array
  depth: jax.Array
  valid: jax.Array
  text: jax.Array


def _step(machine, code, index, num_words, x, x_length):
  live = index < num_words
  known = (code >= 0) & (code < len(language.WORDS))
  takes = jnp.array(_TAKES)[jnp.clip(code, 0, len(language.WORDS) - 1)]
  depth = machine.depth - takes + 1
  gives_list, fits = _types(code, machine.is_list)
  fits &= known & (takes <= machine.depth) & (depth <= language.MAX_DEPTH)
  top, below = (machine.values[0], machine.lengths[0]), (machine.values[1], machine.lengths[1])
  value, length = _result(code[None, None], *top, *below, x, x_length)
  text = _mixed(machine.text * jnp.uint32(31) + code.astype(jnp.uint32))

  def pushed(stack, new):
    ours = lambda flags: flags.reshape((1,) * (stack.ndim - 1) + (-1,))
    rest = jnp.select([ours(takes == 0), ours(takes == 1)], [stack[:-1], stack[1:]],
                      jnp.concatenate([stack[2:], jnp.zeros_like(stack[:1])]))
    return jnp.where(ours(live), jnp.concatenate([new[None], rest]), stack)

  return _Machine(
      pushed(machine.values, value), pushed(machine.lengths, length), pushed(machine.is_list, gives_list),
      pushed(machine.hashes, _hash(code, takes, machine.hashes)), jnp.where(live, depth, machine.depth),
      machine.valid & (fits | ~live), jnp.where(live, text, machine.text))


def _types(code, is_list):
  """Whether the result is a list, and whether the operands have the types that the word wants."""
  top, below = is_list[0], is_list[1]
  gives, fits = jnp.zeros_like(top), jnp.ones_like(top)
  for word, number in language.CODES.items():
    here = code == number
    if word in language.PUSHES:
      gives |= here & (word == 'x')
      continue
    operation = language.OPERATIONS[word]
    operands = (top, below)[:len(operation.takes)]
    for want, has in zip(reversed(operation.takes), operands, strict=True):
      if want != 'v':
        fits &= ~here | (has == (want == 'l'))
    mixed = jnp.stack(operands).any(axis=0)
    gives |= here & (mixed if operation.gives == 'v' else operation.gives == 'l')
  return gives, fits


def _mixed(x):
  x = (x ^ x >> 16) * jnp.uint32(0x7FEB352D)
  x = (x ^ x >> 15) * jnp.uint32(0x846CA68B)
  return x ^ x >> 16


def _hash(code, takes, hashes):
  """Hash of an expression from those of its operands; it does not see the order of commutative ones."""
  top, below = hashes[0], hashes[1]
  commutes = jnp.isin(code, jnp.array([language.CODES[word] for word in sorted(language.COMMUTATIVE)]))
  pair = top + jnp.where(commutes, below, _mixed(below + jnp.uint32(1)))
  operands = jnp.select([takes == 0, takes == 1], [jnp.zeros_like(top), top], pair)
  return _mixed(operands * jnp.uint32(0x9E3779B1) + _mixed(code.astype(jnp.uint32) + jnp.uint32(1)))


def _result(code, top, top_length, below, below_length, x, x_length):
  """What the word of each program pushes.

  Args:
    code: `[1, 1, P]`.
    top: `[MAX_LIST, n, P]` upper operand; `below`, the one under it, likewise.
    top_length: `[1, n, P]`; `below_length` likewise.
    x: `[MAX_LIST, n, P]` input.
    x_length: `[1, n, P]`.

  Returns:
    Value `[MAX_LIST, n, P]` and length `[1, n, P]`.
  """
  index = jnp.arange(language.MAX_LIST, dtype=jnp.int16)[:, None, None]
  inside, some, copies = index < top_length, top_length > 0, jnp.full_like(x_length, language.MAX_LIST)
  present = jnp.where(inside, top, 0)
  highest = jnp.where(inside, top, -language.LIMIT).max(axis=0, keepdims=True)
  lowest = jnp.where(inside, top, language.LIMIT).min(axis=0, keepdims=True)
  shorter = jnp.minimum(below_length, top_length)
  moved, moved_length = _moved(code, top, top_length, below, below_length)
  results = {
      'x': (x, x_length),
      **{word: (jnp.full_like(x_length, int(word)), copies) for word in ('1', '2', '3')},
      'running_sum': (jnp.cumsum(present, axis=0, dtype=jnp.int16), top_length),
      'differences': (jnp.roll(top, -1, axis=0) - top, jnp.maximum(top_length - 1, 0)),
      'sum': (_sum(present), copies),
      'maximum': (jnp.where(some, highest, 0), copies),
      'minimum': (jnp.where(some, lowest, 0), copies),
      'first': (present[:1], copies),
      'last': (_sum(jnp.where(index == top_length - 1, top, 0)), copies),
      'length': (top_length, copies),
      'negate': (-top, top_length),
      'square': (top * top, top_length),
      'halve': (top >> 1, top_length),  # Rounds down.
      'add': (below + top, shorter),
      'subtract': (below - top, shorter),
      'multiply': (below * top, shorter),
      'larger': (jnp.maximum(below, top), shorter),
      'smaller': (jnp.minimum(below, top), shorter),
  }
  value, length = moved, moved_length
  for word, (new_value, new_length) in results.items():
    here = code == language.CODES[word]
    value, length = jnp.where(here, new_value, value), jnp.where(here, new_length, length)
  return jnp.clip(value, -language.LIMIT, language.LIMIT), length


def _moved(code, top, top_length, below, below_length):
  """Values and lengths of the words that move and drop items: each says where an item goes, -1 for nowhere."""
  is_word = lambda *words: jnp.isin(code, jnp.array([language.CODES[word] for word in words]))
  counted, filtered = is_word('take', 'drop'), is_word('evens', 'odds', 'positives')
  count = jnp.where(counted, jnp.clip(top[:1], 0, language.MAX_LIST), 1)  # 1 for `tail`.
  items, length = jnp.where(counted, below, top), jnp.where(counted, below_length, top_length)  # The list lies below.
  index = jnp.arange(language.MAX_LIST, dtype=jnp.int16)[:, None, None]
  inside = index < length
  other, other_index = items[None], index[None]
  before = (other < items[:, None]) | ((other == items[:, None]) & (other_index < index[:, None]))
  rank = (before & inside[None]).sum(axis=1, dtype=jnp.int16)
  keep = jnp.select([is_word('evens'), is_word('odds')], [items % 2 == 0, items % 2 == 1], items > 0) & inside
  goes_to = jnp.select(
      [is_word('sort'), is_word('reverse'), filtered, is_word('tail', 'drop')],
      [rank, length - 1 - index, jnp.where(keep, jnp.cumsum(keep, axis=0, dtype=jnp.int16) - 1, -1), index - count],
      index)
  arrives = (goes_to[None] == index[:, None]) & inside[None]
  moved = jnp.where(arrives, other, 0).sum(axis=1, dtype=jnp.int16)
  left = jnp.select(
      [filtered, is_word('init'), is_word('take'), is_word('tail', 'drop')],
      [_sum(keep), length - 1, jnp.minimum(length, count), length - count], length)
  return moved, jnp.maximum(left, 0)


def _sum(items):
  return items.sum(axis=0, keepdims=True, dtype=jnp.int16)
