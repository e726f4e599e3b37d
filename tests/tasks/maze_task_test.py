"""Splits of the maze tasks: by content, stable, and never overlapping."""

import numpy as np
import pytest

from vpo_jax import tasks
from vpo_jax.tasks import splits


@pytest.mark.parametrize('name, settings', [
    ('maze_small', {}), ('maze_small', {'items': (1, 1), 'lava': 0}), ('maze_hard', {}), ('maze', {'size': 5})])
def test_no_maze_is_in_two_splits(name, settings):
  # With one item of each kind and no lava there are but 128 unshifted mazes: 120 draws a split would collide at once.
  task = tasks.make(name, **settings)
  contents = {split: {task.examples(split)[i]['cells'].tobytes() for i in range(120)}
              for split in splits.SIZES}
  for split, mazes in contents.items():
    assert all(mazes.isdisjoint(others) for name, others in contents.items() if name != split)
    assert {splits.split_of(maze) for maze in mazes} == {split}


def test_examples_differ_by_index_and_seed_and_repeat():
  first, other = (tasks.make('maze_small', seed=seed).examples('test') for seed in (0, 1))
  contents = [split[i]['cells'].tobytes() for split in (first, other) for i in range(20)]
  assert len(set(contents)) == 40
  assert [first[i]['cells'].tobytes() for i in range(20)] == contents[:20]
  # Pinned: an example that changes between versions or machines would silently change every comparison.
  assert np.flatnonzero(first[0]['cells']).tolist() == [0, 6, 7, 8, 11, 12, 15, 19, 20, 22, 28, 29, 35, 36, 38, 43, 48]


def test_every_split_is_random_access():
  task = tasks.make('maze_small')
  for split, size in splits.SIZES.items():
    examples = task.examples(split)
    assert len(examples) == size and examples[size - 1]['cells'].shape == (49,)
    with pytest.raises(IndexError):
      examples[size]


def test_what_falls_short_of_a_maze_is_an_error():
  with pytest.raises(ValueError, match='noise=2'):
    tasks.make('maze', noise=2)
  with pytest.raises(ValueError, match='num_answers=True'):
    tasks.make('maze').response_width(True)
