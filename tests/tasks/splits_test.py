"""Splits by content: of a task whose examples are single numbers."""

import pytest

from vpo_jax.tasks import splits


class Numbers:
  """Examples are numbers below 200; shifted ones are negative, and multiples of 7 are drawn again."""
  seed = 0

  def draw(self, rng, shifted):
    number = rng.randrange(200)
    return None if number % 7 == 0 else {'number': -number if shifted else number}

  def content(self, example):
    return str(abs(example['number'])).encode()


def test_splits_share_no_content_and_repeat():
  drawn = {split: [splits.Examples(Numbers(), split)[i]['number'] for i in range(300)] for split in splits.SIZES}
  contents = {split: set(map(abs, numbers)) for split, numbers in drawn.items()}
  assert sum(map(len, contents.values())) == len(set().union(*contents.values()))
  assert len(set().union(*contents.values())) > 150  # Of 171: every number has a split.
  assert all(number % 7 for number in contents['train'])
  assert max(drawn['shifted']) < 0 < min(drawn['test'])
  assert drawn['train'] == [splits.Examples(Numbers(), 'train')[i]['number'] for i in range(300)]


def test_unknown_splits_and_indices_are_errors():
  with pytest.raises(ValueError, match="split='dev' must be one of train, tuning, test, shifted"):
    splits.Examples(Numbers(), 'dev')
  with pytest.raises(IndexError, match=r"index=-1 must lie in \[0, 4096\) for split 'test'"):
    splits.Examples(Numbers(), 'test')[-1]
