"""The hard maze: four kinds that exclude each other, deadly lava, and few demonstrations that arrive."""

import numpy as np

from vpo_jax import tasks
from vpo_jax.tasks import maze_rules as rules

TASK = tasks.make('maze_hard')


def test_components_and_widths():
  assert TASK.components == ('completion', 'gold', 'diamond', 'ruby', 'pearl')
  assert TASK.response_width(5) == 5 * 17
  assert all(len(TASK.prompt_tokens(TASK.examples('train')[i], 5)) == TASK.prompt_width for i in range(20))


def test_the_zones_are_those_of_the_docstring():
  places = {kind: set() for kind in (rules.GOLD, rules.DIAMOND, rules.RUBY, rules.PEARL)}
  for i in range(100):
    cells = TASK.examples('train')[i]['cells']
    for kind, seen in places.items():
      assert (cells == kind).sum() == 2
      seen.update(np.flatnonzero(cells == kind).tolist())
  zones = [{7, 8, 16, 17}, {23, 24, 32, 33}, {39, 40, 48, 49}, {55, 56, 64, 65}]
  assert all(seen == set.union(*zones) for seen in places.values())


def test_each_kind_can_be_had_and_no_two():
  for i in range(10):
    vectors = TASK.best_vectors(TASK.examples('test')[i])
    assert (vectors.max(axis=0) > 0).all()
    assert ((vectors[:, 1:] > 0).sum(axis=1) == 1).all()


def test_lava_kills():
  example = TASK.examples('train')[0]
  cells = np.zeros(81, np.int32)
  cells[[0, 80, 7, 1]] = rules.START, rules.EXIT, rules.GOLD, rules.LAVA
  example = {**example, 'cells': cells}
  down = list(range(9, 81, 9)) + list(range(73, 81))
  along = list(range(1, 9)) + list(range(17, 90, 9))
  assert TASK.reward(example, ' '.join(map(str, down))).tolist() == [1, 0, 0, 0, 0]
  assert TASK.reward(example, ' '.join(map(str, along))).tolist() == [0, 0, 0, 0, 0]
  cells[1] = rules.EMPTY
  assert TASK.reward(example, ' '.join(map(str, along))).tolist() == [1, 1, 0, 0, 0]


def test_few_demonstrations_arrive():
  rng, completed = np.random.default_rng(0), 0
  for i in range(200):
    example = TASK.examples('train')[i]
    for answer in TASK.decode(example, TASK.demonstration(example, 5, rng), 5):
      completed += TASK.reward(example, answer)[0]
  assert .02 < completed / 1000 < .1
