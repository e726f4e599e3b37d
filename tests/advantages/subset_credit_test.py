import fractions
import itertools
import math

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax.advantages import subset_credit

property_test = hypothesis.settings(deadline=None, max_examples=50)
credit = jax.jit(subset_credit.subset_credit, static_argnames='baseline')


def brute_credit(scores, k):
  """Mean best of the k-subsets that hold each score."""
  n = len(scores)
  rest = [[j for j in range(n) if j != i] for i in range(n)]
  return np.array([
      np.mean([max([scores[i], *(scores[j] for j in others)]) for others in itertools.combinations(rest[i], k - 1)])
      for i in range(n)])


def brute_marginal(scores, k):
  """Mean of what each score adds to k - 1 others."""
  n = len(scores)
  rest = [[j for j in range(n) if j != i] for i in range(n)]
  return np.array([
      np.mean([max(scores[i] - max(scores[j] for j in others), 0) for others in itertools.combinations(rest[i], k - 1)])
      for i in range(n)])


class SubsetTableTest(parameterized.TestCase):

  @parameterized.parameters((5, 1), (5, 3), (36, 8), (64, 33), (64, 64))
  def test_ratios_of_binomials(self, n, k):
    exact = [fractions.Fraction(math.comb(i, k - 1), math.comb(n - 1, k - 1)) for i in range(n)]
    actual = subset_credit.subset_table(n, k).astype(np.float32)
    np.testing.assert_allclose(actual, np.array(exact, float), rtol=1e-6, atol=1e-37)

  @parameterized.parameters((36, 8), (4096, 1024), (100_000, 50_000))
  def test_large_tables_are_chances(self, n, k):
    table = subset_credit.subset_table(n, k)
    self.assertTrue(np.isfinite(table).all())
    self.assertTrue((np.diff(table) >= 0).all())
    self.assertEqual((table[0], table[-1]), (0, 1))

  def test_fewer_than_k_have_no_subsets(self):
    tables = subset_credit.subset_tables(4, 3)
    # N = 3: only the two lowest fit below the third. N = 4: C(2,2)/C(3,2).
    np.testing.assert_allclose(tables, [[0] * 4, [0] * 4, [0] * 4, [0, 0, 0, 1], [0, 0, 1 / 3, 1]])


class SubsetSizeTest(parameterized.TestCase):

  @parameterized.parameters((2, 1), (3, 2), (5, 2), (8, 4), (36, 18))
  def test_default_is_half_the_group(self, group_size, expected):
    self.assertEqual(subset_credit.subset_size(None, group_size, 'mean'), expected)
    self.assertEqual(subset_credit.subset_size(None, group_size, 'loo_1'), max(2, expected))

  @parameterized.parameters(
      (8, 8, 'mean'), (8, 8, 'loo'), (9, 8, 'none'), (1, 8, 'loo_1'), (0, 8, 'none'), (2.5, 8, 'mean'))
  def test_sizes_without_signal_are_refused(self, k, group_size, baseline):
    with pytest.raises(ValueError, match=f'k={k}'):
      subset_credit.subset_size(k, group_size, baseline)

  @parameterized.parameters((8, 8, 'none'), (8, 8, 'loo_1'), (7, 8, 'mean'), (1, 8, 'loo'))
  def test_the_ends_of_the_range_pass(self, k, group_size, baseline):
    self.assertEqual(subset_credit.subset_size(k, group_size, baseline), k)


class SubsetCreditTest(parameterized.TestCase):

  @parameterized.parameters(2, 3, 5, 8)
  def test_all_subsets_on_a_grid_with_ties(self, n):
    scores = np.random.default_rng(n).integers(-2, 3, (6, n)) / 4
    with jax.enable_x64(True):
      for k in range(1, n + 1):
        tables = jnp.asarray(subset_credit.subset_tables(n, k))
        for row in scores:
          raw, centre, marginal = (
              credit(jnp.array(row), jnp.ones(n, bool), tables, baseline=baseline)
              for baseline in ('none', 'mean', 'loo_1'))
          expected = brute_credit(row, k)
          np.testing.assert_allclose(raw, expected, atol=1e-12)
          np.testing.assert_allclose(centre - centre.mean(), expected - expected.mean(), atol=1e-12)
          if k > 1:
            np.testing.assert_allclose(marginal, brute_marginal(row, k), atol=1e-12)

  def test_padding_takes_no_part(self):
    mask = np.array([True, False, True, True, False, True])
    scores = np.array([.3, 9., .1, .3, -9., .8], np.float32)
    tables = jnp.asarray(subset_credit.subset_tables(6, 2), jnp.float32)
    actual = credit(scores, mask, tables, baseline='none')
    np.testing.assert_allclose(actual[mask], brute_credit(scores[mask], 2), rtol=1e-6)
    np.testing.assert_array_equal(actual[~mask], 0)
    np.testing.assert_array_equal(credit(scores, np.zeros(6, bool), tables, baseline='none'), 0)

  @parameterized.parameters('none', 'loo_1', 'mean')
  def test_no_more_than_k_share_all(self, baseline):
    tables = jnp.asarray(subset_credit.subset_tables(5, 3), jnp.float32)
    scores, mask = np.array([.1, .2, .3, .4, .5], np.float32), np.arange(5) < 2
    self.assertLen(np.unique(credit(scores, mask, tables, baseline=baseline)[:2]), 1)

  def test_the_lowest_add_nothing(self):
    scores = np.random.default_rng(0).random(36).astype(np.float32)
    actual = credit(
        scores, np.ones(36, bool), jnp.asarray(subset_credit.subset_tables(36, 8), jnp.float32), baseline='loo_1')
    np.testing.assert_array_equal(actual[np.argsort(scores)[:7]], 0)
    self.assertGreater(np.min(actual[np.argsort(scores)[7:]]), 0)

  def test_rounding_is_a_tie(self):
    scores = np.array([.7, np.nextafter(np.float32(.7), 1), .2, .7], np.float32)
    actual = credit(
        scores, np.ones(4, bool), jnp.asarray(subset_credit.subset_tables(4, 2), jnp.float32), baseline='mean')
    np.testing.assert_array_equal(actual[jnp.array([1, 3])], actual[0])


def test_equal_scores_get_equal_bits_in_large_groups():
  # Above some 500 scores XLA sums in blocks on a CPU (on accelerators sooner): adding 0 can then change the last bit.
  rng = np.random.default_rng(0)
  scores = rng.choice(rng.random(1024).astype(np.float32), 2048)
  tables = np.broadcast_to(subset_credit.subset_table(2048, 8).astype(np.float32), (2049, 2048))
  actual = np.asarray(credit(scores, np.ones(2048, bool), tables, baseline='mean'))
  lowest, highest = (pick.reduceat(actual[np.argsort(scores)], np.unique(np.sort(scores), return_index=True)[1])
                     for pick in (np.minimum, np.maximum))
  np.testing.assert_array_equal(lowest, highest)


@property_test
@hypothesis.given(
    hnp.arrays(np.int32, 40, elements=st.integers(0, 3)),
    st.sampled_from(['none', 'loo_1', 'mean']))
def test_equal_scores_get_equal_bits(levels, baseline):
  scores = np.array([0., .1, .35, .7], np.float32)[levels]
  tables = jnp.asarray(subset_credit.subset_tables(40, 5), jnp.float32)
  actual = np.asarray(credit(scores, np.ones(40, bool), tables, baseline=baseline))
  for score in np.unique(scores):
    np.testing.assert_array_equal(actual[scores == score], actual[scores == score][0])
  if baseline == 'loo_1':
    assert (actual >= 0).all()
