"""Rewards of programs written as tokens, jitted: responses are cut into programs, which run on the tests.

Tokens are read up to `lengths` or the first end token. Separators cut them into segments; segment i is answer i, later
segments than `num_answers` do not count, and an empty segment is a missing answer. A segment with a token that is no
word, or with more than 8 of them, is an invalid program.
"""

import functools

import jax
import jax.numpy as jnp

from vpo_jax.tasks import program_interpreter
from vpo_jax.tasks import program_language as language
from vpo_jax.tasks.programs import END, SEPARATOR


def segments(tokens: jax.Array, lengths: jax.Array, num_answers: int) -> tuple[jax.Array, jax.Array]:
  """Programs `[R, m, 8]` int32 (-1 beyond their end) and their lengths `[R, m]` in the responses `[R, T]`."""
  index = jnp.arange(tokens.shape[1])[None]
  ended = jnp.cumsum(tokens == END, axis=1) > 0
  live = (index < lengths[:, None]) & ~ended
  cut = live & (tokens == SEPARATOR)
  segment = jnp.cumsum(cut, axis=1)  # A separator already counts as the next segment, where it is no word.
  begin = jax.lax.cummax(jnp.where(cut, index + 1, 0), axis=1)
  word = live & ~cut
  rows = jnp.arange(len(tokens))[:, None]
  at = jnp.where(word, segment, num_answers)  # Out of range: dropped.
  programs = jnp.full((len(tokens), num_answers, language.MAX_WORDS), -1).at[rows, at, index - begin].set(
      tokens, mode='drop')
  return programs, jnp.zeros((len(tokens), num_answers), jnp.int32).at[rows, at].add(1, mode='drop')


@functools.partial(jax.jit, static_argnames='num_answers')
def token_reward(arrays: dict, tokens: jax.Array, lengths: jax.Array, *,
                 num_answers: int) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Scores responses to one problem.

  Args:
    arrays: one example of `programs.Programs.examples`.
    tokens: `[.., T]` int32.
    lengths: `[..]` int32, tokens in use.
    num_answers: m.

  Returns:
    rewards `[.., m, d]` float32, zero where an answer is missing or invalid and for tests that do not exist;
    answer_mask `[.., m]` bool; answer_ids `[.., m]` int32, a 31-bit hash of the program's structure, -1 where missing.
  """
  batch = lengths.shape
  programs, num_words = segments(tokens.reshape(-1, tokens.shape[-1]), lengths.reshape(-1), num_answers)
  given = num_words > 0
  ran = program_interpreter.run(
      programs.reshape(-1, language.MAX_WORDS), num_words.reshape(-1), arrays['inputs'], arrays['input_lengths'])
  right = (ran.values == arrays['outputs'][None]).all(axis=-1) & (ran.lengths == arrays['output_lengths'][None])
  rewards = (right & ran.valid[:, None] & arrays['tests'][None]).astype(jnp.float32)
  ids = jnp.where(given.reshape(-1), (ran.structure >> 1).astype(jnp.int32), -1)
  per_answer = lambda x: x.reshape(*batch, num_answers, *x.shape[1:])
  return per_answer(rewards), per_answer(given.reshape(-1)), per_answer(ids)
