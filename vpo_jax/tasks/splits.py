"""Splits of generated examples that cannot overlap, however many are drawn.

An example belongs to the split that a hash of its content names (CRC-32 modulo 16). The stream of a split, seeded by
(seed, split, index), draws until it gets an example of its own.
"""

import collections.abc
import random
import zlib

# Sixteenths of all examples; a stream draws until it meets one of its own.
BUCKETS = {'train': range(3, 16), 'tuning': range(1), 'test': range(1, 2), 'shifted': range(2, 3)}
SIZES = {'train': 2**31 - 1, 'tuning': 4096, 'test': 4096, 'shifted': 4096}


def split_of(content: bytes) -> str:
  """The only split in which an example with this content may appear."""
  bucket = zlib.crc32(content) % 16
  return next(split for split, buckets in BUCKETS.items() if bucket in buckets)


class Examples(collections.abc.Sequence):
  """Random access to one split: the same index gives the same example, always; nothing is stored.

  The task has `seed`, `draw(rng, shifted) -> example | None` (None: drawn again), and `content(example) -> bytes`.
  """

  def __init__(self, task, split: str):
    if split not in SIZES:
      raise ValueError(f'{split=} must be one of {", ".join(SIZES)}.')
    self.task, self.split = task, split

  def __len__(self) -> int:
    return SIZES[self.split]

  def __getitem__(self, index: int) -> dict:
    """Example `index`."""
    if not 0 <= index < len(self):
      raise IndexError(f'{index=} must lie in [0, {len(self)}) for split {self.split!r}.')
    rng = random.Random((self.task.seed << 40) + (list(SIZES).index(self.split) << 34) + int(index))
    while True:
      example = self.task.draw(rng, shifted=self.split == 'shifted')
      if example is not None and split_of(self.task.content(example)) == self.split:
        return example
