"""Bootstrap resamples as matrices of shares: a resampled mean is then one product."""

import functools

import numpy as np

RESAMPLES = 2000
LEVELS = (.025, .975)  # Ends of a 95 % interval.


@functools.lru_cache(maxsize=4)  # Comparisons by the hundred take the same draws, which cost more than they do.
def resample_shares(n: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
  """Draws n of n items with replacement, `resamples` times: share of each item, `[resamples, n]`, rows summing to 1."""
  shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples) / n
  shares.flags.writeable = False
  return shares


def interval(statistics: np.ndarray) -> list[float]:
  """Ends `[low, high]` of the 95 % interval of resampled `statistics` `[resamples]`."""
  return [float(end) for end in np.quantile(statistics, LEVELS)]
