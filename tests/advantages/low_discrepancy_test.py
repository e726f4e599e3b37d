import math

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import parameterized
from scipy.stats import qmc

from vpo_jax.advantages import low_discrepancy


class SobolTest(parameterized.TestCase):

  def test_points_are_scipys(self):
    n = low_discrepancy.MAX_SOBOL_DIMENSIONS
    expected = qmc.Sobol(n, scramble=False, bits=32).random(512) * 2.**32
    index = np.arange(512)
    actual = low_discrepancy.sobol_table(512, n)[:, index ^ index >> 1]  # Theirs go by Gray code.
    np.testing.assert_array_equal(actual.T, expected.astype(np.uint32))
    np.testing.assert_array_equal(low_discrepancy.sobol_table(100, 3), low_discrepancy.sobol_table(512, 3)[:, :100])

  @parameterized.parameters(range(8))
  def test_every_box_of_a_128th_holds_one_point_under_any_shift(self, bits):
    # The first two dimensions are a (0, 7, 2)-net: 2^bits columns, 2^(7 - bits) rows.
    x, y = low_discrepancy.shifted_points(jax.random.key(0), 128, 2, sequence='sobol')
    boxes = np.floor(x * 2**bits) * 2**(7 - bits) + np.floor(y * 2**(7 - bits))
    np.testing.assert_array_equal(np.sort(boxes), np.arange(128))


class LatticeTest(parameterized.TestCase):

  def test_table_by_hand(self):
    # Two dimensions, five points: z = (1, 2) is the good one; (1, 1) would be the diagonal.
    np.testing.assert_array_equal(low_discrepancy.lattice_generator(5, 2), [1, 2])
    fifths = low_discrepancy.lattice_table(5, 2) / (2.**32 / 5)
    np.testing.assert_allclose(fifths, [[0, 1, 2, 3, 4], [0, 2, 4, 1, 3]], rtol=1e-8)

  @parameterized.parameters((13, 5), (21, 8), (34, 13), (55, 21))
  def test_two_dimensions_are_fibonacci_lattices(self, num_points, best):
    np.testing.assert_array_equal(low_discrepancy.lattice_generator(num_points, 2), [1, best])

  def test_every_component_has_the_least_worst_case_error(self):
    # Of K = 64 points, given the components before it; the kernel by its Fourier series, Σ_{h ≠ 0} e^{2πihx} / h².
    h = np.arange(1, 10_000)
    kernel = np.array([2 * np.sum(np.cos(2 * np.pi * h * k / 64) / h**2) for k in range(64)])
    product = np.ones(64)
    for j, z in enumerate(low_discrepancy.lattice_generator(64, 5)):
      factors = lambda z, j=j: 1 + .1 * .9**j * kernel[z * np.arange(64) % 64]
      least = min(np.mean(product * factors(other)) for other in range(1, 64, 2))
      np.testing.assert_allclose(np.mean(product * factors(z)), least, rtol=1e-5)
      product *= factors(z)

  def test_many_points_have_no_regular_generator(self):
    generator = low_discrepancy.lattice_generator(2**14, 4)
    self.assertLen({int(z) % 256 for z in generator}, 4)  # Equal remainders: 64 points in a row on lines.

  @parameterized.parameters(1, 2, 100, 1024)
  def test_generators_share_no_factor_with_the_number_of_points(self, num_points):
    generator = low_discrepancy.lattice_generator(num_points, 5)
    assert all(math.gcd(int(z), num_points) == 1 for z in generator)

  def test_tent_of_the_shifted_lattice(self):
    key = jax.random.key(3)
    shift = jax.random.bits(key, (2, 1), jnp.uint32) / 2.**32
    x = (np.array([[0, 1, 2, 3, 4], [0, 2, 4, 1, 3]]) / 5 + np.asarray(shift)) % 1
    points = low_discrepancy.shifted_points(key, 5, 2, sequence='lattice')
    np.testing.assert_allclose(points, 1 - np.abs(2 * x - 1), atol=1e-6)


class ShiftedPointsTest(parameterized.TestCase):

  @parameterized.parameters(*low_discrepancy.SEQUENCES)
  def test_points_are_uniform_over_shifts_and_inside(self, sequence):
    draw = jax.jit(jax.vmap(lambda key: low_discrepancy.shifted_points(key, 12, 3, sequence=sequence)))
    points = np.asarray(draw(jax.random.split(jax.random.key(0), 2048)))
    assert points.shape == (2048, 3, 12) and points.min() > 0 and points.max() < 1
    # Every single point: mean 1/2 and variance 1/12 with errors .289/√2048 and .0745/√2048; 36 of each.
    np.testing.assert_allclose(points.mean(axis=0), .5, atol=5 * .289 / 45)
    np.testing.assert_allclose(points.var(axis=0), 1 / 12, atol=5 * .0745 / 45)

  @parameterized.product(sequence=low_discrepancy.SEQUENCES, dtype=(jnp.float32, jnp.float64))
  def test_points_are_midpoints_that_no_rounding_moves(self, sequence, dtype):
    with jax.enable_x64(True):
      points = low_discrepancy.shifted_points(jax.random.key(0), 512, 2, sequence=sequence, dtype=dtype)
      assert points.dtype == dtype
      bits = 23 if dtype == jnp.float32 else 32
      np.testing.assert_array_equal(points * 2.**bits % 1, .5)
      assert low_discrepancy.shifted_points(jax.random.key(0), 4, 0, sequence=sequence).shape == (0, 4)
