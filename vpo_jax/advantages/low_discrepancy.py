"""Points that fill the unit cube evenly, moved at random: each is uniform, their mean errs less than that of draws.

A table of K points, made on the host while tracing, and one random word a dimension, drawn on the device:

  lattice  u_k = tent(k z / K + shift mod 1)    any K
  sobol    u_k = s_k XOR shift                  K should be a power of two: with K = 100 the variance is 4 times higher

The tent 1 - |2u - 1| folds the cube so that functions meet themselves at its borders: a lattice's error then falls
nearly like 1/K² where the function is smooth. Axes: K points, n dimensions.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

SEQUENCES = ('lattice', 'sobol')
# Primitive polynomials over GF(2), lowest bit the constant term, and the first direction numbers, for dimensions 2 to
# 31: new-joe-kuo-6.21201 of Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008).
DIRECTIONS = (
    (3, 1), (7, 1, 3), (11, 1, 3, 1), (13, 1, 1, 1), (19, 1, 1, 3, 3), (25, 1, 3, 5, 13), (37, 1, 1, 5, 5, 17),
    (41, 1, 1, 5, 5, 5), (47, 1, 1, 7, 11, 19), (55, 1, 1, 5, 1, 1), (59, 1, 1, 1, 3, 11), (61, 1, 3, 5, 5, 31),
    (67, 1, 3, 3, 9, 7, 49), (91, 1, 1, 1, 15, 21, 21), (97, 1, 3, 1, 13, 27, 49), (103, 1, 1, 1, 15, 7, 5),
    (109, 1, 3, 1, 15, 13, 25), (115, 1, 1, 5, 5, 19, 61), (131, 1, 3, 7, 11, 23, 15, 103),
    (137, 1, 3, 7, 13, 13, 15, 69), (143, 1, 1, 3, 13, 7, 35, 63), (145, 1, 3, 5, 9, 1, 25, 53),
    (157, 1, 3, 1, 13, 9, 35, 107), (167, 1, 3, 1, 5, 27, 61, 31), (171, 1, 1, 5, 11, 19, 41, 61),
    (185, 1, 3, 5, 3, 3, 13, 69), (191, 1, 1, 7, 13, 1, 19, 1), (193, 1, 3, 7, 5, 13, 19, 59),
    (203, 1, 1, 3, 9, 25, 29, 41), (211, 1, 3, 5, 13, 23, 1, 55),
)
MAX_SOBOL_DIMENSIONS = len(DIRECTIONS) + 1


def shifted_points(key, num_points: int, num_dimensions: int, *, sequence: str, dtype=jnp.float32) -> jax.Array:
  """Points `[n, K]` of the open unit cube, each of them uniform over it (to 2^-24 in float32), under one random shift.

  Args:
    key: of the shift; used up.
    num_points: K.
    num_dimensions: n, for 'sobol' at most 31.
    sequence: 'lattice' or 'sobol'.
    dtype: of the points.
  """
  shift = jax.random.bits(key, (num_dimensions, 1), jnp.uint32)
  if sequence == 'lattice':
    moved = lattice_table(num_points, num_dimensions) + shift  # Modulo 2^32.
    bits = jnp.where(moved >> 31 == 1, ~(moved << 1), moved << 1)
  else:
    bits = sobol_table(num_points, num_dimensions) ^ shift
  digits = min(jnp.finfo(dtype).nmant, 32)  # One bit is left for the half, which keeps points off 0 and 1.
  return ((bits >> (32 - digits)).astype(dtype) + .5) * 2.**-digits


@functools.lru_cache(maxsize=16)
def lattice_table(num_points: int, num_dimensions: int) -> np.ndarray:
  """The rank-1 lattice k z mod K in units of K/2^32: `[n, K]` uint32."""
  generator = lattice_generator(num_points, num_dimensions)
  points = generator[:, None] * np.arange(num_points) % num_points
  return np.round(points * (2.**32 / num_points)).astype(np.uint32)


def lattice_generator(num_points: int, num_dimensions: int) -> np.ndarray:
  """Generating vector z `[n]` int64, found component by component.

  Each component makes the mean over the points of Π_j (1 + γ_j B(x_j)) least, B(x) = 2π² (x² - x + 1/6): the squared
  worst error for functions with a square-integrable mixed derivative. γ_j = .1 · .9^j: later dimensions matter less
  (from .03 to .3, and from .8 to 1, the noise of the advantages is the same).
  """
  units = [z for z in range(1, max(num_points // 2 + 1, 2)) if math.gcd(z, num_points) == 1]
  # All of them up to K = 724; beyond, some at random (a regular choice has a pattern modulo K), to stay within a
  # second.
  few = max(2**18 // num_points, 64)
  units = np.random.default_rng(0).permutation(units)[:few] if len(units) > few else np.array(units)
  x = units[:, None] * np.arange(num_points) % num_points / num_points
  bernoulli = 2 * np.pi**2 * (x * x - x + 1 / 6)
  product, generator = np.ones(num_points), []
  for j in range(num_dimensions):
    factors = 1 + .1 * .9**j * bernoulli
    best = np.argmin(factors @ product) if j else 0  # In one dimension all are equal, but for rounding.
    product *= factors[best]
    generator.append(units[best])
  return np.array(generator, np.int64)


@functools.lru_cache(maxsize=16)
def sobol_table(num_points: int, num_dimensions: int) -> np.ndarray:
  """The first points of the Sobol sequence in natural order, in units of 2^-32: `[n, K]` uint32."""
  directions = sobol_directions(num_dimensions)
  index, points = np.arange(num_points), np.zeros((num_dimensions, num_points), np.uint32)
  for bit in range((num_points - 1).bit_length()):
    points ^= np.where(index >> bit & 1, directions[:, bit, None], np.uint32(0))
  return points


def sobol_directions(num_dimensions: int) -> np.ndarray:
  """Direction numbers `[n, 32]` uint32: the point with index 2^j has coordinates `[:, j]`, in units of 2^-32."""
  rows = [[1] * 32]  # Dimension 1: bits mirrored at the point.
  for polynomial, *numbers in DIRECTIONS[:max(num_dimensions - 1, 0)]:
    degree = len(numbers)
    for j in range(degree, 32):  # m_j = 2 c_1 m_(j-1) ^ 4 c_2 m_(j-2) ^ .. ^ 2^s m_(j-s) ^ m_(j-s)
      new = numbers[j - degree]
      for i in range(1, degree + 1):
        new ^= (polynomial >> (degree - i) & 1) * numbers[j - i] << i
      numbers.append(new)
    rows.append(numbers)
  return np.array([[number << (31 - j) for j, number in enumerate(row)] for row in rows], np.uint32)[:num_dimensions]
