"""The published maze as a text task and as a token task."""

import jax
import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.tasks import maze_rules as rules

TASK = tasks.make('maze')


def walled_example(rows: str) -> dict[str, np.ndarray]:
  """The 3x3 `rows` in the corner of a 5x5 maze that is otherwise wall."""
  cells = np.full((5, 5), rules.WALL, np.int32)
  cells[:3, :3] = [['.#SELBGD'.index(symbol) for symbol in row.split()] for row in rows.splitlines()]
  return {'cells': cells.ravel(), 'budget': np.array(4, np.int32)}


EXAMPLE = walled_example('S . G\n# L G\n. . E')
SMALL = tasks.make('maze', size=5)


@pytest.mark.parametrize('answer, expected', [
    ('RIGHT RIGHT DOWN DOWN', [1, 1, 0, 1]), ('RIGHT DOWN DOWN RIGHT', [1, 0, 0, 0]),
    ('DOWN RIGHT RIGHT DOWN', [0, 0, 0, 0]), ('', [0, 0, 0, 0])])
def test_the_example_of_the_docstring(answer, expected):
  np.testing.assert_allclose(SMALL.reward(EXAMPLE, answer), expected)


@pytest.mark.parametrize('answer', [
    'right, Right; down ... DOWN', '1. RIGHT 2. RIGHT 3. DOWN 4. DOWN', 'go RIGHT RIGHT DOWN DOWN LEFT LEFT',
    'RIGHT\r\nRIGHT\nDOWN\nDOWN' + ' UP' * 10000, 'upright RIGHT RIGHT downwards UP2 rıght DOWN DOWN'])
def test_only_whole_move_words_count_and_the_walk_stops_at_the_exit(answer):
  np.testing.assert_allclose(SMALL.reward(EXAMPLE, answer), [1, 1, 0, 1])
  assert SMALL.canonical(EXAMPLE, answer) == '1 2 7 12'


def test_bumps_cost_steps_and_nothing_else():
  bumped = {**EXAMPLE, 'budget': np.array(6, np.int32)}
  assert SMALL.canonical(bumped, 'UP LEFT RIGHT RIGHT DOWN DOWN') == '1 2 7 12'
  assert SMALL.canonical(bumped, 'UP LEFT DOWN RIGHT RIGHT DOWN DOWN') == '1 2 7'
  np.testing.assert_allclose(SMALL.reward(bumped, 'UP LEFT RIGHT RIGHT DOWN DOWN'), [1, 1, 0, 1])


def test_the_walk_stops_at_the_exit_with_steps_left():
  longer = {**EXAMPLE, 'budget': np.array(9, np.int32)}
  np.testing.assert_allclose(SMALL.reward(longer, 'RIGHT RIGHT DOWN DOWN LEFT UP'), [1, 1, 0, 1])
  assert SMALL.canonical(longer, 'RIGHT RIGHT DOWN DOWN LEFT UP') == '1 2 7 12'


def test_the_grid_does_not_wrap():
  cells = np.zeros(25, np.int32)
  cells[[0, 24]] = rules.START, rules.EXIT
  example = {'cells': cells, 'budget': np.array(9, np.int32)}
  assert SMALL.canonical(example, 'UP LEFT RIGHT UP') == '1'
  assert SMALL.canonical(example, 'RIGHT ' * 6) == '1 2 3 4'
  assert SMALL.canonical(example, 'DOWN ' * 6 + 'LEFT') == '5 10 15 20'


def test_convex_bonus():
  task = tasks.make('maze', size=5, reward_mode='convex_bonus')
  example = walled_example('S B G\n. L G\n. . E')
  np.testing.assert_allclose(task.reward(example, 'RIGHT DOWN RIGHT DOWN'), [1, .375, 0, 0])
  np.testing.assert_allclose(task.reward(example, 'RIGHT RIGHT DOWN DOWN'), [1, 1, 0, 1])
  np.testing.assert_allclose(task.reward(example, 'DOWN RIGHT RIGHT DOWN'), [1, .25, 0, 0])


@pytest.mark.parametrize('reward_mode', rules.REWARD_MODES)
def test_tokens_and_text_agree(reward_mode):
  task, rng = tasks.make('maze', reward_mode=reward_mode), np.random.default_rng(0)
  score = jax.jit(lambda example, tokens, lengths: task.token_reward(example, tokens, lengths, 2))
  completed = 0
  for split in ('train', 'shifted'):
    example = task.examples(split)[1]
    rows = []
    for _ in range(150):
      row = task.demonstration(example, 2, rng).tolist()
      if rng.random() < .5:
        row[rng.integers(len(row))] = int(rng.integers(-2, 90))
      rows.append(row)
    tokens = np.full((len(rows), task.response_width(2)), 81, np.int32)
    for row, padded in zip(rows, tokens, strict=True):
      padded[:len(row)] = row
    rewards, mask, ids = map(np.asarray, score(example, tokens, np.array([len(row) for row in rows])))
    paths = set()
    for row, row_rewards, row_mask, row_ids in zip(rows, rewards, mask, ids, strict=True):
      answers = task.decode(example, row, 2)
      assert [answer is not None for answer in answers] == row_mask.tolist()
      for answer, reward, identity in zip(answers, row_rewards, row_ids, strict=True):
        if answer is not None:
          np.testing.assert_allclose(reward, task.reward(example, answer), atol=1e-6)
          paths.add((task.canonical(example, answer), int(identity)))
          completed += reward[0]
    assert len(paths) == len({path for path, _ in paths}) == len({identity for _, identity in paths})
  assert completed > 50


@pytest.mark.parametrize('split', ['train', 'shifted'])
def test_prompts_fit_and_are_told_apart(split):
  prompts = [TASK.prompt_tokens(TASK.examples(split)[i], 3) for i in range(20)]
  assert max(map(len, prompts)) <= TASK.prompt_width and max(map(max, prompts)) < TASK.vocab_size
  assert len(set(map(bytes, prompts))) == 20
  example = TASK.examples(split)[0]
  assert prompts[0][-1] == 81 + 3
  assert prompts[0][-2] == TASK.vocab_size - 1 - (35 - example['budget'])  # The budget block is the last.


def test_messages_show_the_map_and_ask_for_any_number():
  example = TASK.examples('train')[0]
  single, several = (TASK.messages(example, m)[-1]['content'] for m in (1, 12))
  grid = next(part for part in single.split('\n\n') if part.count('\n') == 8)
  assert [line.count(' ') for line in grid.splitlines()] == [8] * 9
  kinds = ['.#SELBGD'.index(symbol) for symbol in grid.split()]
  assert kinds == example['cells'].tolist()
  assert f'at most {example["budget"]} moves' in single and '<answer>' in single and '<route_1>' not in single
  assert '<route_12>' in several and '<route_13>' not in several and '<answer>' not in several
  assert 'squares' in tasks.make('maze', reward_mode='convex_bonus').messages(example, 1)[0]['content']


def test_parse_takes_tags_only():
  assert TASK.parse('UP UP <route_2>DOWN</route_2> <route_1> </route_1>', 3) == [None, 'DOWN', None]
  assert TASK.parse('UP DOWN', 1) == [None]
  assert TASK.parse('<answer>UP</answer>', 1) == ['UP']


@pytest.mark.parametrize('size', [4, 3, 8])
def test_faulty_size(size):
  with pytest.raises(ValueError, match='size='):
    tasks.make('maze', size=size)
