"""The small maze: its worked example, splits by content, demonstrations, text and settings."""

import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.tasks import maze_rules as rules

TASK = tasks.make('maze_small')


def example(**places: list[int]) -> dict[str, np.ndarray]:
  cells = np.zeros(49, np.int32)
  cells[[0, 48]] = rules.START, rules.EXIT
  for kind, where in places.items():
    cells[where] = rules.KIND_NAMES.index(kind)
  return {'cells': cells, 'budget': np.array(16, np.int32)}


EXAMPLE = example(gold=[4, 6, 13, 19, 20], diamond=[28, 29, 42, 43, 44], lava=[9, 25, 26, 33, 40])


def test_the_example_of_the_docstring():
  # Passes gold on 4, 6, 13 and 20, not on 19; no diamond, no lava.
  route = [1, 2, 3, 4, 5, 6, 13, 20, 27, 34, 41, 48]
  np.testing.assert_allclose(TASK.reward(EXAMPLE, ' '.join(map(str, route))), [1, .8, 0, 1], atol=1e-6)
  assert TASK.components == ('completion', 'gold', 'diamond', 'avoid_lava')
  prompt = TASK.prompt_tokens(EXAMPLE, 1)
  places = [53 + c for c in (4, 6, 13, 19, 20)] + [102 + c for c in (28, 29, 42, 43, 44)]
  assert prompt.tolist() == places + [151 + c for c in (9, 25, 26, 33, 40)] + [51]
  assert TASK.prompt_tokens(EXAMPLE, 3)[-1] == 52
  assert (TASK.vocab_size, TASK.prompt_width, TASK.stop_ids) == (200, 16, (50,))
  assert (TASK.response_width(1), TASK.response_width(3)) == (17, 51)


def test_lava_is_counted_once_and_the_walk_stops_at_the_exit():
  answer = '7 8 9 8 9 16 17 24 31 32 33 34 41 48 47 44'  # Lava 9 (twice) and 33 of 5; what follows 48 is not walked.
  np.testing.assert_allclose(TASK.reward(EXAMPLE, answer), [1, 0, 0, .6], atol=1e-6)
  assert TASK.canonical(EXAMPLE, answer) == TASK.canonical(EXAMPLE, answer[:answer.index(' 47')])


@pytest.mark.parametrize('answer', ['', '8', '48', '1 2 3', '7 -7', '1 2 x 3', '1 2 3 4 5 6 7', '²', '9' * 5000])
def test_a_route_that_does_not_arrive_earns_nothing(answer):
  np.testing.assert_array_equal(TASK.reward(EXAMPLE, answer), 0)


def test_the_best_route_clears_one_corner():
  clean = example(gold=[4, 5, 6, 13, 20], diamond=[28, 35, 42, 43, 44], lava=[8, 9, 10, 15, 16])
  # All gold or all diamonds without lava, or from 4 down column 4 and along row 6: one gold and two diamonds (44, 43)
  # need 4 + 9 + 5 = 18 steps, one and one (4, then 44) 4 + 8 + 4 = 16.
  assert sorted(np.round(TASK.best_vectors(clean), 4).tolist()) == pytest.approx(
      np.array([[1, 0, 1, 1], [1, .2, .2, 1], [1, 1, 0, 1]]))
  assert TASK.oracle(clean) == pytest.approx((1 + 1 + 0 + 1) / 4)


def test_counts_and_corners_of_drawn_mazes():
  split = TASK.examples('train')
  gold_sides = set()
  for i in range(50):
    cells = split[i]['cells']
    assert np.bincount(cells, minlength=10).tolist() == [32, 0, 1, 1, 5, 0, 5, 5, 0, 0]
    gold, diamond = (np.flatnonzero(cells == kind) for kind in (rules.GOLD, rules.DIAMOND))
    above = gold if gold[0] < 21 else diamond
    below = diamond if gold[0] < 21 else gold
    gold_sides.add(gold[0] < 21)
    assert set(above) <= {4, 5, 6, 11, 12, 13, 19, 20} and set(below) <= {28, 29, 35, 36, 37, 42, 43, 44}
  assert len(gold_sides) == 2
  assert split[7]['cells'].tolist() == split[7]['cells'].tolist()
  assert len(split) == 2**31 - 1 and split[len(split) - 1]['cells'].shape == (49,)


def test_shifted_mazes_have_the_same_prompt_shape_and_other_places():
  split = TASK.examples('shifted')
  prompts = np.stack([TASK.prompt_tokens(split[i], 1) for i in range(20)])
  assert prompts.shape == (20, 16)
  corners = {4, 5, 6, 11, 12, 13, 19, 20, 28, 29, 35, 36, 37, 42, 43, 44}
  assert not set(((prompts[:, :10] - 53) % 49).ravel()) <= corners


@pytest.mark.parametrize('num_answers', [1, 3])
def test_demonstrations_are_legal_noisy_and_fit(num_answers):
  rng = np.random.default_rng(0)
  rewards = []
  for i in range(150):
    example = TASK.examples('train')[i]
    tokens = TASK.demonstration(example, num_answers, rng)
    assert tokens[-1] == 50 and (tokens[:-1] < 50).all() and len(tokens) <= TASK.response_width(num_answers)
    assert (tokens == 49).sum() == num_answers - 1
    for answer in TASK.decode(example, tokens, num_answers):
      assert TASK.canonical(example, answer) == answer  # All of it is walked: legal and within the budget.
      rewards.append(TASK.reward(example, answer))
  completion, gold, diamond, _ = np.mean(rewards, axis=0)
  assert .25 < completion < .6 and .03 < gold < .2 and .03 < diamond < .2


def test_text_round_trip():
  for num_answers, first in ((1, 'answer'), (2, 'route_1')):
    message = TASK.messages(EXAMPLE, num_answers)[-1]['content']
    assert f'<{first}>' in message and 'gold: 4 6 13 19 20' in message
  assert TASK.parse('<route_2>1, 2</route_2>', 3) == [None, '1, 2', None]
  assert TASK.canonical(EXAMPLE, '1, 2') == '1 2'


@pytest.mark.parametrize('field, value', [
    ('reward_mode', 'cubic'), ('items', (9, 5)), ('items', (5,)), ('zone', 4), ('lava', -1), ('lava', 40),
    ('budget', 0), ('seed', -1), ('bugdet', 3)])
def test_faulty_settings_name_the_field(field, value):
  with pytest.raises(ValueError, match=field):
    tasks.make('maze_small', **{field: value})


def test_faulty_calls_name_the_argument():
  with pytest.raises(ValueError, match="did you mean 'maze_small'"):
    tasks.make('maze_smal')
  with pytest.raises(ValueError, match="'budget'"):
    tasks.make('maze_small', budgets=3)
  with pytest.raises(ValueError, match='num_answers=0'):
    TASK.response_width(0)
  with pytest.raises(ValueError, match="split='dev'"):
    TASK.examples('dev')
  with pytest.raises(IndexError, match='index=-1'):
    TASK.examples('test')[-1]
