"""The jitted reward of route tokens against the plain simulator, on random and on adversarial responses."""

import itertools

import jax
import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.tasks import maze_reward
from vpo_jax.tasks import maze_rules as rules

SEP, END = 49, 50
STRAIGHT = [1, 2, 3, 4, 5, 6, 13, 20, 27, 34, 41, 48]
TASKS = {'linear': tasks.make('maze_small'), 'convex': tasks.make('maze_small', reward_mode='convex_bonus'),
         'deadly': tasks.make('maze_small', fatal_lava=True, walls=4)}


def scored(task, example, rows, num_answers=3):
  """Scores a list of token lists at once: rewards, mask and ids of `token_reward`, padded to one width."""
  width = 64
  tokens = np.full((len(rows), width), 3, np.int32)  # Padding is a cell: only lengths may hide it.
  for row, padded in zip(rows, tokens, strict=True):
    padded[:len(row)] = row
  lengths = np.array([len(row) for row in rows], np.int32)
  return jax.tree.map(np.asarray, task.token_reward(example, tokens, lengths, num_answers))


def assert_agree(task, example, rows, num_answers=3):
  rewards, mask, ids = scored(task, example, rows, num_answers)
  paths = {}
  for row, row_rewards, row_mask, row_ids in zip(rows, rewards, mask, ids, strict=True):
    for answer, reward, given, identity in zip(task.decode(example, row, num_answers), row_rewards, row_mask, row_ids,
                                               strict=True):
      assert given == (answer is not None), row
      np.testing.assert_allclose(reward, task.reward(example, answer) if given else 0 * reward, atol=1e-6,
                                 err_msg=str(row))
      if given:
        assert paths.setdefault(task.canonical(example, answer), identity) == identity >= 0
      else:
        assert identity == -1
  assert len(set(paths.values())) == len(paths)


@pytest.mark.parametrize('name', TASKS)
@pytest.mark.parametrize('num_answers', [1, 3])
def test_agrees_with_the_simulator_on_random_responses(name, num_answers):
  task, rng = TASKS[name], np.random.default_rng(1)
  for index in range(4):
    example, rows = task.examples('train')[index], []
    for _ in range(150):
      row = task.demonstration(example, 3, rng).tolist()
      for _ in range(rng.integers(4)):  # Damage.
        at = rng.integers(len(row))
        row[at:at + rng.integers(3)] = rng.integers(-3, 210, rng.integers(3)).tolist()
      rows.append(row[:64])
    rows += [rng.integers(-60, 300, 20).tolist() for _ in range(20)]
    assert_agree(task, example, rows, num_answers)


ADVERSARIAL = {
    'nothing': [], 'only the end': [END], 'only separators': [SEP] * 5, 'early separator': [SEP, *STRAIGHT, END],
    'no end': [*STRAIGHT, SEP, *STRAIGHT[:5]], 'wraps right': [*STRAIGHT[:6], 7, 14], 'wraps left': [7, 6, 13, 20, 27],
    'wraps up': [-7, 48], 'negative cell': [-1, 48], 'beyond the grid': [1, 2, 50 + 7, 48],
    'a prompt token': [1, 51, 2], 'stands still': [0, 1], 'jumps to the exit': [48, END],
    'leaves the exit': [*STRAIGHT, 47, 48, END],
    'budget spent': [1, 0] * 8 + STRAIGHT, 'arrives on the last step': [1, 0, 1, 0] + STRAIGHT,
    'arrives too late': [1, 0] * 3 + STRAIGHT, 'more routes than asked': (STRAIGHT + [SEP]) * 4,
    'empty in the middle': [*STRAIGHT, SEP, SEP, *STRAIGHT, END], 'speaks after the end': [1, 2, END, *STRAIGHT]}


def test_agrees_with_the_simulator_on_adversarial_responses():
  for task in TASKS.values():
    assert_agree(task, task.examples('test')[3], list(ADVERSARIAL.values()))


def test_adversarial_responses_earn_what_the_rules_say():
  task = TASKS['linear']
  rewards, mask, ids = scored(task, task.examples('test')[3], list(ADVERSARIAL.values()))
  at = list(ADVERSARIAL).index
  completed = {name: rewards[at(name), :, 0].astype(int).tolist() for name in ADVERSARIAL}
  arrives = {'early separator': [0, 1, 0], 'no end': [1, 0, 0], 'leaves the exit': [1, 0, 0],
             'arrives on the last step': [1, 0, 0], 'more routes than asked': [1, 1, 1],
             'empty in the middle': [1, 0, 1]}
  assert completed == {name: arrives.get(name, [0, 0, 0]) for name in ADVERSARIAL}
  assert mask[at('early separator')].tolist() == [False, True, False]
  assert mask[at('only separators')].tolist() == [False, False, False]
  assert mask[at('wraps up')].tolist() == [True, False, False]  # Given, and worthless.
  assert ids[at('leaves the exit'), 0] == ids[at('no end'), 0]
  np.testing.assert_array_equal(rewards * ~(rewards[..., :1] > 0), 0)  # Nothing is earned without completion.


def test_tokens_beyond_the_length_are_ignored():
  task = TASKS['linear']
  example = task.examples('train')[0]
  tokens = np.array([[*STRAIGHT, SEP, *STRAIGHT]], np.int32)
  for length, expected in ((12, [True, False]), (13, [True, False]), (14, [True, True]), (0, [False, False])):
    mask = task.token_reward(example, tokens, np.array([length]), 2)[1]
    assert mask[0].tolist() == expected
  assert not task.token_reward(example, tokens, np.array([11]), 2)[0].any()


def test_steps_beyond_the_budget_are_not_walked():
  task, routes = TASKS['linear'], [[1, 0] + STRAIGHT, [1, 0] + STRAIGHT[:-1], [1, 0] + STRAIGHT[:-1] + [40]]
  for budget, arrives in ((14, 1), (13, 0)):
    example = {**task.examples('test')[3], 'budget': np.int32(budget)}
    rewards, _, ids = scored(task, example, routes, 1)
    assert rewards[:, 0, 0].tolist() == [arrives, 0, 0]
    # With 13 steps all three walk the same cells.
    assert len(set(ids[:, 0].tolist())) == (3 if arrives else 1)
    assert_agree(task, example, routes, 1)


def test_different_paths_have_different_ids():
  # All 4-step walks and their prefixes from the corner of an empty grid: a few hundred paths, 31-bit ids.
  cells = np.zeros(49, np.int32)
  cells[[0, 48]] = rules.START, rules.EXIT
  walks = [[0]]
  for _ in range(7):
    walks += [[*walk, n] for walk in walks if len(walk) == max(map(len, walks)) for n in rules.neighbours(7)[walk[-1]]]
  tokens = np.full((len(walks) - 1, 8), END, np.int32)
  for row, walk in zip(tokens, walks[1:], strict=True):
    row[:len(walk) - 1] = walk[1:]
  ids = TASKS['linear'].token_reward({'cells': cells, 'budget': np.int32(16)}, tokens, np.full(len(tokens), 8), 1)[2]
  assert len(tokens) > 2000 and len(np.unique(ids)) == len(tokens)


def test_batched_examples_and_leading_axes():
  task = TASKS['linear']
  examples = [task.examples('train')[i] for i in range(2)]
  rng = np.random.default_rng(0)
  rows = np.full((2, 3, 17), END, np.int32)
  for i, g in itertools.product(range(2), range(3)):
    tokens = task.demonstration(examples[i], 1, rng)
    rows[i, g, :len(tokens)] = tokens
  arrays = jax.tree.map(lambda *leaves: np.stack(leaves), *examples)
  lengths = np.full((2, 3), 17)
  rewards = jax.vmap(lambda a, t, n: task.token_reward(a, t, n, 1)[0])(arrays, rows, lengths)
  assert rewards.shape == (2, 3, 1, 4)
  for i, g in itertools.product(range(2), range(3)):
    expected = task.reward(examples[i], task.decode(examples[i], rows[i, g], 1)[0])
    np.testing.assert_allclose(rewards[i, g, 0], expected, atol=1e-6)


def test_bonus_multiplies_squared_fractions():
  cells = np.zeros(9, np.int32)
  cells[[0, 1, 2, 4, 5, 8]] = rules.START, rules.GOLD, rules.DIAMOND, rules.BONUS, rules.GOLD, rules.EXIT
  score = lambda route: maze_reward.token_reward(
      {'cells': cells, 'budget': np.int32(6)}, np.array(route, np.int32), np.int32(len(route)), num_answers=1, size=3,
      kinds=(rules.GOLD, rules.DIAMOND), reward_mode='convex_bonus', fatal_lava=False)[0][0]
  # One of two gold: .25, times 1.5 over the bonus; the diamond 1 (capped); there is no lava: 1.
  np.testing.assert_allclose(score([3, 4, 7, 8]), [1, 0, 0, 1])
  np.testing.assert_allclose(score([1, 4, 7, 8]), [1, .375, 0, 1])
  np.testing.assert_allclose(score([1, 2, 1, 4, 7, 8]), [1, .375, 1, 1])
  np.testing.assert_allclose(score([1, 2, 5, 8]), [1, 1, 1, 1])
