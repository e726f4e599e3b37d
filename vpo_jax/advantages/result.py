"""What every estimator returns."""

from typing import NamedTuple

import jax


class Advantages(NamedTuple):
  """Advantages of a batch of groups.

  Attributes:
    values: `[B, G]` advantage of every rollout, 0 for padding; carries no gradient.
    metrics: flat dict of scalars about the groups, for the log.
  """

  values: jax.Array
  metrics: dict[str, jax.Array]
