"""Rewards of maze routes written as tokens, jitted: one pass over the tokens, whatever the number of answers.

The rules are those of `maze_rules`; this file says how tokens make routes. Tokens are read up to `lengths` or the
first end token. Separators cut them into segments; segment i is answer i, later segments than `num_answers` do not
count, and an empty segment is a missing answer. Any token that is no cell is an illegal cell of its route.
"""

import functools

import jax
import jax.numpy as jnp

from vpo_jax.tasks import maze_rules as rules

CLOSED, EXIT = 31, 30  # Bits above those of the entities.


def cell_words(cells: jax.Array, fatal_lava: bool) -> jax.Array:
  """One word per cell, `[size * size]` uint32: a bit of its own for each lava, bonus and item; bits CLOSED and EXIT."""
  entity = cells >= rules.LAVA
  own = jnp.where(entity, jnp.uint32(1) << (jnp.cumsum(entity) - 1).astype(jnp.uint32), jnp.uint32(0))
  closed = (cells == rules.WALL) | ((cells == rules.LAVA) & fatal_lava)
  return (own | closed.astype(jnp.uint32) << CLOSED) | (cells == rules.EXIT).astype(jnp.uint32) << EXIT


def vectors(visited: jax.Array, cells: jax.Array, *, kinds: tuple[int, ...], reward_mode: str,
            fatal_lava: bool) -> jax.Array:
  """Rewards `[.., d]` float32 of completed routes that visited the entities in `visited` `[..]` uint32 (a bit each)."""
  words = cell_words(cells, False)
  def fraction(kind, of_none):
    mask = jnp.where(cells == kind, words, 0).sum(dtype=jnp.uint32)  # Bits are distinct: their sum is their union.
    hits = jax.lax.population_count(visited & mask).astype(jnp.float32)
    total = jax.lax.population_count(mask).astype(jnp.float32)
    return jnp.where(total > 0, hits / jnp.maximum(total, 1), of_none)
  fractions = [fraction(kind, 0.) for kind in kinds]
  if not fatal_lava:
    fractions.append(1 - fraction(rules.LAVA, 0.))
  fractions = jnp.stack(fractions, axis=-1)
  if reward_mode == 'convex_bonus':
    factor = jnp.where(fraction(rules.BONUS, 0.) > 0, rules.BONUS_FACTOR, 1.)[..., None]
    fractions = jnp.minimum(1., factor * fractions**2)
  return jnp.concatenate([jnp.ones_like(fractions[..., :1]), fractions], axis=-1)


@functools.partial(jax.jit, static_argnames=('num_answers', 'size', 'kinds', 'reward_mode', 'fatal_lava'))
def token_reward(arrays: dict, tokens: jax.Array, lengths: jax.Array, *, num_answers: int, size: int,
                 kinds: tuple[int, ...], reward_mode: str, fatal_lava: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Scores responses to one maze.

  Args:
    arrays: one example: `cells` `[size * size]` int32 kinds and `budget` `[]` int32.
    tokens: `[.., T]` int32; cells are 0 .. size² - 1, the separator is size², the end size² + 1.
    lengths: `[..]` int32, tokens in use.
    num_answers: m.
    size: side of the grid.
    kinds: item kinds, a component each.
    reward_mode: `linear` or `convex_bonus`.
    fatal_lava: whether stepping on lava ends the route, unrewarded.

  Returns:
    rewards `[.., m, d]` float32, zero where an answer is missing; answer_mask `[.., m]` bool; answer_ids `[.., m]`
    int32, a 31-bit hash of the executed path, -1 where missing (two given paths that differ share an id with odds of
    about 1 in 2·10⁹).
  """
  cells, budget = arrays['cells'], arrays['budget']
  separator, end = size**2, size**2 + 1
  words = cell_words(cells, fatal_lava)
  start = jnp.argmax(cells == rules.START).astype(jnp.int32)
  batch = lengths.shape
  slots = jnp.arange(num_answers).reshape(-1, *[1] * len(batch))

  def step(state, inputs):
    ended, segment, taken, position, running, given, reached, visited, path_hash = state
    token, index = inputs
    ended |= (token == end) | (index >= lengths)
    cuts = ~ended & (token == separator)
    plain = ~ended & ~cuts
    cell = jnp.clip(token, 0, size**2 - 1)  # Out of range is caught below: it must not wrap to a cell.
    word = words[cell]
    gap = jnp.abs(cell - position)
    beside = (gap == size) | ((gap == 1) & (cell // size == position // size))
    legal = (cell == token) & beside & (word >> CLOSED == 0)
    running &= plain & legal & (taken < budget)
    here = (slots == segment[None]) & plain[None]
    walked = here & running[None]
    given |= here
    reached |= walked & (word >> EXIT & 1 == 1)[None]
    visited = jnp.where(walked, visited | word[None], visited)
    mixed = (path_hash ^ (cell + 1).astype(jnp.uint32)[None] * jnp.uint32(0x9E3779B1)) * jnp.uint32(0x85EBCA6B)
    path_hash = jnp.where(walked, mixed ^ mixed >> 15, path_hash)
    position = jnp.where(cuts, start, jnp.where(running, cell, position))
    taken = jnp.where(cuts, 0, taken + running)
    running = cuts | (running & (word >> EXIT & 1 == 0))
    return (ended, segment + cuts, taken, position, running, given, reached, visited, path_hash), None

  per_row, per_answer = functools.partial(jnp.full, batch), functools.partial(jnp.full, (num_answers, *batch))
  state = (per_row(False), per_row(0), per_row(0), jnp.broadcast_to(start, batch), per_row(True), per_answer(False),
           per_answer(False), per_answer(jnp.uint32(0)), per_answer(jnp.uint32(2166136261)))
  steps = (jnp.moveaxis(tokens, -1, 0), jnp.arange(tokens.shape[-1]))
  *_, given, reached, visited, path_hash = jax.lax.scan(step, state, steps)[0]
  given, reached, visited, path_hash = (jnp.moveaxis(x, 0, -1) for x in (given, reached, visited, path_hash))
  rewards = vectors(visited, cells, kinds=kinds, reward_mode=reward_mode, fatal_lava=fatal_lava)
  rewards = jnp.where(reached[..., None], rewards, 0.)
  return rewards, given, jnp.where(given, (path_hash >> 1).astype(jnp.int32), -1)
