"""Hypervolume: the volume between a reference and the front of a set of reward vectors. Larger rewards are better.

Axes: n answers, d reward components. `hypervolume` runs on the host in float64 (pools of hundreds of answers),
`hypervolume_jax` inside `jit` (groups of a training step).

Binary rewards: measure them from `BINARY_REFERENCE`, -1 in every component. From 0 an answer with one failed component
has no volume at all, however much else it passes. From -1 an answer that passes the components S fills the 2^|S| unit
cells of the subsets of S, so the volume counts the subsets of components (the empty one included) that some answer
passes together.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np

BINARY_REFERENCE = -1.
MAX_EXACT_COMPONENTS = 5


def hypervolume(rewards, reference) -> float:
  """Volume between the reference and the front, exact, on the host in float64.

  The points are taken by rising last component, and each adds the volume that it alone holds among those still to
  come (While, Bradstreet & Barone 2012). Points to come reach at least as far along the last component, so the added
  volume is its length there times a volume of one dimension less.

  Args:
    rewards: `[n, d]` reward vectors; those not above the reference in every component add nothing.
    reference: `[d]` the corner from which volume is measured. At 0, an answer with one zero component adds nothing.

  Returns:
    The volume; 0 for no answers.

  Raises:
    ValueError: the shapes don't fit or an entry is not finite.
  """
  rewards, reference = np.asarray(rewards, np.float64), np.asarray(reference, np.float64)
  if rewards.ndim != 2 or reference.shape != rewards.shape[1:] or not reference.size:
    raise ValueError(f'{rewards.shape=} must be [n, d] and {reference.shape=} [d].')
  if not (np.isfinite(rewards).all() and np.isfinite(reference).all()):
    raise ValueError('rewards and reference must be finite: leave out answers that were not given.')
  heights = rewards - reference
  return float(_volume(_front(heights[(heights > 0).all(axis=1)])))


def _front(points: np.ndarray) -> np.ndarray:
  """Distinct non-dominated points, sorted by rising last component."""
  points = np.unique(points, axis=0)
  beaten = ((points[:, None] <= points[None]).all(axis=-1) & ~np.eye(len(points), dtype=bool)).any(axis=1)
  points = points[~beaten]
  return points[np.argsort(points[:, -1], kind='stable')]


def _volume(front: np.ndarray) -> float:
  """Volume between 0 and the points of a front as `_front` sorts it."""
  n, d = front.shape
  if n == 0:
    return 0.
  if d == 1:
    return front[0, 0]
  if d == 2:  # Rising in the second component, so falling in the first: a staircase.
    return (front[:, 0] * np.diff(front[:, 1], prepend=0)).sum()
  volume = 0.
  for i, (*point, length) in enumerate(front):
    shadows = np.minimum(front[i + 1:, :-1], point)
    volume += length * (np.prod(point) - _volume(_front(shadows)))
  return volume


def hypervolume_jax(rewards, reference, mask=None) -> jax.Array:
  """`hypervolume` of at most five components, exact but for rounding, under `jit` and `vmap`.

  The heights of the answers along components 3 to d cut the space into a grid of cells. In each cell, a sweep over the
  answers by falling first component gathers the staircase of the first two components below those answers that reach
  the cell. No term is negative, so float32 keeps six digits. Takes n^(d-1) operations and room for n^(d-2) numbers.

  Args:
    rewards: `[n, d]` reward vectors; those not above the reference in every component add nothing.
    reference: `[d]` the corner from which volume is measured.
    mask: `[n]` bool, answers that count; all by default. What stands outside it doesn't matter.

  Returns:
    `[]` volume; 0 for no answers.

  Raises:
    ValueError: the shapes don't fit, or there are more than five components.
  """
  heights = _heights(rewards, reference, mask)
  if heights.shape[1] > MAX_EXACT_COMPONENTS:
    raise ValueError(
        f'{heights.shape[1]} reward components must be at most {MAX_EXACT_COMPONENTS}: exact volume takes n^(d-1) '
        'operations. Use hypervolume_monte_carlo.')
  if heights.shape[1] == 1:
    return heights.max(initial=0)
  heights = heights[jnp.argsort(heights[:, 0], descending=True)]
  grid = [jnp.sort(levels, descending=True) for levels in heights.T[2:]]

  def sweep(state, answer):
    tallest, areas = state
    width, height, *others = answer
    for axis, (other, levels) in enumerate(zip(others, grid, strict=True)):
      reached = (other >= levels).reshape([-1 if axis == i else 1 for i in range(len(grid))])
      height = jnp.where(reached, height, 0)
    tallest = jnp.maximum(tallest, height)
    return (tallest, areas + width * tallest), None

  empty = jnp.zeros([len(heights)] * len(grid), heights.dtype)
  (_, volume), _ = jax.lax.scan(sweep, (empty, empty), (_steps(heights[:, 0]), *heights.T[1:]))
  for levels in reversed(grid):
    volume = jnp.tensordot(volume, _steps(levels), 1, precision=jax.lax.Precision.HIGHEST)
  return volume


def hypervolume_monte_carlo(rewards, reference, upper, key, *, num_samples: int, mask=None) -> jax.Array:
  """Hypervolume within a box, by uniform points: for any number of components, under `jit` and `vmap`.

  The share p of points that some answer covers times the volume V of the box: unbiased, with standard error
  V √(p (1-p) / num_samples). Compare sets by one key: their errors then largely cancel.

  Args:
    rewards: `[n, d]` reward vectors; those not above the reference in every component add nothing.
    reference: `[d]` lower corner of the box.
    upper: `[d]` upper corner, such as the best value of each component. What answers reach beyond it is not counted.
    key: used up.
    num_samples: number of points.
    mask: `[n]` bool, answers that count; all by default.

  Returns:
    `[]` volume; 0 for no answers.

  Raises:
    ValueError: the shapes don't fit, or there is no point.
  """
  heights = _heights(rewards, reference, mask)
  upper = jnp.asarray(upper, heights.dtype)
  if upper.shape != heights.shape[1:]:
    raise ValueError(f'{upper.shape=} must be [d], like the reference.')
  if num_samples < 1:
    raise ValueError(f'{num_samples=} must be at least 1.')
  spans = upper - jnp.asarray(reference, heights.dtype)
  points = jax.random.uniform(key, (num_samples, len(spans)), heights.dtype) * spans[None]
  covered = jax.lax.map(lambda point: (heights > point[None]).all(axis=1).any(), points, batch_size=1024)
  return covered.mean() * spans.prod()


def _heights(rewards, reference, mask) -> jax.Array:
  """Floats `[n, d]` above the reference; all zero for answers that add no volume."""
  rewards, reference = jnp.asarray(rewards), jnp.asarray(reference)
  if rewards.ndim != 2 or reference.shape != rewards.shape[1:] or not reference.size:
    raise ValueError(f'{rewards.shape=} must be [n, d] and {reference.shape=} [d].')
  dtype = jnp.promote_types(rewards.dtype, jnp.float32)
  heights = rewards.astype(dtype) - reference.astype(dtype)[None]
  counts = (heights > 0).all(axis=1)  # False for NaN.
  if mask is not None:
    chex.assert_shape(mask, counts.shape)
    counts &= jnp.asarray(mask, bool)
  return jnp.where(counts[:, None], heights, 0)


def _steps(falling: jax.Array) -> jax.Array:
  """From each value down to the next, from the last down to 0."""
  return -jnp.diff(falling, append=0)
