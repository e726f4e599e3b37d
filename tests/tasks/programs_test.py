"""The task of programs by example: problems, splits, prompts, rewards on both roads."""

import random

import jax
import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.evaluation.pool import Pool
from vpo_jax.tasks import program_language as language
from vpo_jax.tasks import programs

TASK = tasks.make('programs')
SEP, END = programs.SEPARATOR, programs.END


def problem(program: str, inputs: list[tuple[int, ...]], num_tests: int = 12) -> dict:
  """An example made by hand; inputs are repeated up to 12."""
  inputs = (inputs * 12)[:12]
  outputs = [language.run(program.split(), x) for x in inputs]
  codes = [language.CODES[word] for word in program.split()]
  return {'program': np.array(codes + [-1] * (8 - len(codes)), np.int32),
          'inputs': programs._padded(inputs), 'input_lengths': programs._lengths(inputs),
          'outputs': programs._padded(outputs), 'output_lengths': programs._lengths(outputs),
          'tests': np.arange(12) < num_tests}


def codes(program: str) -> list[int]:
  """Tokens of a program."""
  return [language.CODES[word] for word in program.split()]


def scored(example, rows, num_answers):
  tokens = np.full((len(rows), 40), language.CODES['sum'], np.int32)  # Padding is a word: only lengths may hide it.
  for row, padded in zip(rows, tokens, strict=True):
    padded[:len(row)] = row
  return jax.tree.map(np.asarray, TASK.token_reward(example, tokens, np.array(list(map(len, rows))), num_answers))


def test_problems_need_every_word_and_say_something():
  for index in range(40):
    example = TASK.examples('train')[index]
    words = TASK.program(example)
    assert TASK.min_words <= len(words) <= TASK.max_words
    assert language.result_type(words) and not programs.is_redundant(words)
    assert 8 <= example['tests'].sum() <= 12 and example['tests'][:8].all()
    assert len({tuple(row) for row in example['inputs']}) > 10
    assert TASK.reward(example, ' '.join(words)).tolist() == example['tests'].tolist()


def test_no_behaviour_is_in_two_splits():
  task = tasks.make('programs', min_words=2, max_words=3)  # Few programs: 60 draws a split would collide at once.
  splits = {split: {programs.behaviour(task.program(task.examples(split)[i])) for i in range(60)}
            for split in ('train', 'tuning', 'test', 'shifted')}
  for split, found in splits.items():
    assert all(found.isdisjoint(others) for name, others in splits.items() if name != split)


def test_shifted_problems_have_larger_inputs():
  for split, largest in {'test': 9, 'shifted': 20}.items():
    assert max(abs(TASK.examples(split)[i]['inputs']).max() for i in range(10)) == largest


def test_a_prompt_shows_the_visible_pairs():
  number = lambda x: programs._NUMBER_0 + x
  example = problem('x tail', [(3, -1, 4), (0, 2), (5, 5, 5, 5, 5), (1, 99)])
  prompt = TASK.prompt_tokens(example, 3)
  blank, to_list = programs._BLANK, programs._TO_LIST
  assert prompt[:11].tolist() == [number(3), number(-1), number(4), blank, blank, to_list, number(-1), number(4),
                                  blank, blank, blank]
  assert len(prompt) == TASK.prompt_width == 45 and prompt[-1] != TASK.prompt_tokens(example, 1)[-1]
  to_integer = TASK.prompt_tokens(problem('x sum', [(99, 0, 0, 0, 0), (1, -1)]), 1)
  assert to_integer[5:11].tolist() == [programs._TO_INTEGER, number(99), *[blank] * 4]
  assert number(99) == TASK.vocab_size - 1


def test_rewards_by_hand():
  example = problem('x sum', [(1, 2), (0, 0), (3, -3), (2, 3)], num_tests=8)
  rows = [[*codes('x sum'), SEP, *codes('x sum 1 add'), SEP, *codes('x maximum'), END],
          [*codes('x sort'), SEP, SEP, *codes('1 sum')],
          [SEP, *codes('x sum'), END, SEP, *codes('x sum')],
          [*codes('x sum' + ' negate' * 7), SEP, 500, SEP, *codes('x sum' + ' negate' * 6)],
          []]
  rewards, mask, ids = scored(example, rows, 3)
  once = lambda *visible: [*visible * 2, 0, 0, 0, 0]  # The hidden tests repeat the shown ones; 4 do not exist.
  assert rewards[0].tolist() == [once(1, 1, 1, 1), once(0, 0, 0, 0), once(0, 1, 0, 0)]
  assert not rewards[1].any()  # A list is no integer; nothing; ill-typed.
  assert rewards[2].tolist() == [once(0, 0, 0, 0), once(1, 1, 1, 1), once(0, 0, 0, 0)]
  assert rewards[3].tolist() == [once(0, 0, 0, 0), once(0, 0, 0, 0), once(1, 1, 1, 1)]  # 9 words, none, 8 words.
  assert mask.tolist() == [[True] * 3, [True, False, True], [False, True, False], [True] * 3, [False] * 3]
  assert ids[0, 0] == ids[2, 1] >= 0 and (ids[~mask] == -1).all() and len(set(ids[mask].tolist())) == 8


@pytest.mark.parametrize('num_answers', [1, 3])
def test_tokens_earn_what_their_text_earns(num_answers):
  rng = np.random.default_rng(1)
  for index in range(3):
    example, rows = TASK.examples('train')[index], []
    for _ in range(100):
      row = TASK.demonstration(example, 3, rng).tolist()
      for _ in range(rng.integers(3)):  # Damage.
        at = rng.integers(len(row))
        row[at:at + rng.integers(3)] = rng.integers(-3, 60, rng.integers(3)).tolist()
      rows.append(row[:40])
    rewards, mask, ids = scored(example, rows, num_answers)
    names = {}
    for row, row_rewards, row_mask, row_ids in zip(rows, rewards, mask, ids, strict=True):
      answers = TASK.decode(example, row, num_answers)
      for answer, reward, given, identity in zip(answers, row_rewards, row_mask, row_ids, strict=True):
        assert given == (answer is not None), row
        assert reward.tolist() == (TASK.reward(example, answer).tolist() if given else [0] * 12), row
        if given:
          assert names.setdefault(TASK.canonical(example, answer), identity) == identity
    assert len(set(names.values())) == len(names)


def test_demonstrations_are_right_or_one_word_away():
  example, rng = TASK.examples('train')[0], np.random.default_rng(0)
  right = ' '.join(TASK.program(example))
  answers = [answer for _ in range(100) for answer in TASK.decode(example, TASK.demonstration(example, 3, rng), 3)]
  assert 100 < answers.count(right) < 200  # Half of 300.
  for answer in answers:
    words = answer.split()
    assert language.result_type(words) and abs(len(words) - len(right.split())) <= 1
  exact = tasks.make('programs', noise=0.)
  assert exact.decode(example, exact.demonstration(example, 1, rng), 1) == [right]


def test_a_changed_program_is_another_valid_one():
  rng = random.Random(0)
  for _ in range(200):
    words = language.random_program(rng, rng.randint(1, 8))
    assert language.result_type(programs.changed(words, rng)) and programs.changed(words, rng) != words


@pytest.mark.parametrize('rewarded, paid', [(1, [0]), (4, [0, 1, 2, 3]), (12, list(range(9)))])
def test_training_pays_the_first_tests_and_an_evaluation_counts_the_hidden_ones(rewarded, paid):
  task, example = tasks.make('programs', rewarded=rewarded), problem('x sum', [(1, 2)], num_tests=9)
  assert np.flatnonzero(task.component_mask(example)).tolist() == paid
  assert np.flatnonzero(task.evaluation_mask(example)).tolist() == [4, 5, 6, 7, 8]


def test_a_problem_without_a_hidden_test_is_an_error():
  mask = TASK.evaluation_mask(problem('x sum', [(1, 2)], num_tests=4))[None]
  with pytest.raises(ValueError, match='problem 0 must have a component with a weight'):
    Pool(rewards=np.zeros((1, 2, 12), np.float32), answer_mask=np.ones((1, 2), bool),
         rollout=np.array([[0, 1]]), position=np.zeros((1, 2), int), oracle=np.ones(1, np.float32), generated_tokens=2,
         components=TASK.components, scalar_weights=TASK.scalar_weights, component_mask=mask,
         success_components=TASK.success_components)


def test_text_names_the_pairs_and_the_tags():
  example = problem('x tail', [(3, -1, 4), (0, 2), (5, 5), (1, 99)])
  [message] = TASK.messages(example, 2)
  assert '[3, -1, 4] -> [-1, 4]' in message['content'] and '<program_2>' in message['content']
  assert '[1, 2] -> 3\n' in TASK.messages(problem('x sum', [(1, 2)]), 1)[0]['content']
  assert TASK.parse('<program_1>x tail</program_1><program_2> </program_2>', 2) == ['x tail', None]


@pytest.mark.parametrize('settings, message', [
    (dict(min_words=1), 'min_words=1 must be at least 2'), (dict(min_words=7), 'at most max_words=6'),
    (dict(max_words=9), 'max_words=9, which must be at most 8'),
    (dict(rewarded=0), r'rewarded=0 must lie in \[1, 12\]'), (dict(noise=2.), 'noise=2.0'), (dict(seed=-1), 'seed=-1')])
def test_bad_settings_are_errors(settings, message):
  with pytest.raises(ValueError, match=message):
    tasks.make('programs', **settings)
