import chex
import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax.advantages.group_advantage import check_settings, group_advantage

property_test = hypothesis.settings(deadline=None, max_examples=50)


class GroupAdvantageTest(parameterized.TestCase):

  @parameterized.parameters((1., 0, 1.), (1., 1, .7071), (1e-7, 0, 0.))
  def test_deviation_is_population_or_sample_and_noise_is_cut(self, gap, ddof, expected):
    actual = group_advantage(jnp.array([0., gap]), ddof=ddof)
    np.testing.assert_allclose(actual, [-expected, expected], atol=1e-4)  # ∓½ over ½ or 1/√2

  @parameterized.parameters(
      ('mean', [-1.5, -.5, .5, 1.5]),
      ('loo', [-2., -2 / 3, 2 / 3, 2.]),  # 0 - (1+2+3)/3, 1 - (0+2+3)/3, ..
      ('none', [0., 1., 2., 3.]))
  def test_baselines(self, baseline, expected):
    actual = group_advantage(jnp.arange(4.), ddof=0, baseline=baseline, normalize='none')
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    scaled = group_advantage(jnp.arange(4.), ddof=0, baseline=baseline)
    np.testing.assert_allclose(scaled, np.divide(expected, np.sqrt(1.25) + 1e-6), rtol=1e-6)

  @parameterized.parameters('mean', 'loo')
  def test_a_lone_outlier_stays_of_order_one(self, baseline):
    # The seven others are tied at a value that is no binary fraction: a deviation that is all rounding must not divide.
    for base in (.1, .3, .35, .7):
      actual = group_advantage(jnp.array([base] * 7 + [.95]), ddof=1, baseline=baseline)
      self.assertLess(np.abs(actual).max(), 8 / np.sqrt(8))

  @parameterized.parameters('mean', 'loo', 'none')
  def test_padding_changes_nothing(self, baseline):
    mask = np.array([False, True, True, False, True])
    returns = np.array([9., .1, .5, np.nan, .3], np.float32)
    actual = group_advantage(jnp.array(returns), jnp.array(mask), ddof=1, baseline=baseline)
    expected = group_advantage(jnp.array(returns[mask]), ddof=1, baseline=baseline)
    np.testing.assert_allclose(actual[mask], expected, rtol=1e-6)
    np.testing.assert_array_equal(actual[~mask], 0)

  @parameterized.product(live=(0, 1), baseline=('mean', 'loo', 'none'), normalize=('std', 'none'), ddof=(0, 1))
  def test_a_lone_rollout_learns_nothing(self, live, baseline, normalize, ddof):
    actual = group_advantage(
        jnp.array([2., 3., 4.]), jnp.arange(3) < live, ddof=ddof, baseline=baseline, normalize=normalize)
    np.testing.assert_array_equal(actual, 0)

  def test_a_common_offset_costs_no_digits(self):
    returns = jnp.array([0., 0., .25])  # At 10,000 float32 still holds quarters, but not their mean, 1/12.
    np.testing.assert_allclose(
        group_advantage(returns + 1e4, ddof=0), group_advantage(returns, ddof=0), rtol=1e-6, atol=1e-7)

  def test_raw_returns_keep_what_a_flat_group_earned(self):
    actual = group_advantage(jnp.full(3, .7), ddof=0, baseline='none', normalize='none')
    np.testing.assert_array_equal(actual, jnp.full(3, .7))

  def test_a_returns_matrix_is_a_programmers_mistake(self):
    with pytest.raises(AssertionError):
      group_advantage(jnp.zeros((2, 3)), ddof=0)

  @parameterized.parameters(
      (dict(ddof=2), 'ddof=2'), (dict(eps=0.), 'eps=0.0'), (dict(eps=float('nan')), 'eps=nan'),
      (dict(baseline='loo_1'), "baseline='loo_1' must be one of mean, loo, none"),
      (dict(normalize='max'), 'normalize='))
  def test_unknown_settings_are_named(self, change, message):
    with pytest.raises(ValueError, match=message):
      check_settings(**dict(ddof=0, eps=1e-6, baseline='mean', normalize='std') | change)


@property_test
@hypothesis.given(
    st.one_of(st.sampled_from([.1, .3, .35, .7]), st.floats(-100, 100, width=32)), st.sampled_from([5, 8, 10, 16]),
    st.sampled_from(['mean', 'loo', 'none']))
def test_tied_group_has_no_advantage(value, g, baseline):
  tied = jnp.full(g, value)  # Not np.full: NumPy would then do the sums, with other rounding.
  np.testing.assert_array_equal(group_advantage(tied, ddof=1, baseline=baseline), 0)


@property_test
@hypothesis.given(hnp.arrays(np.float32, 6, elements=st.floats(-1, 1, width=32)), st.floats(-3, 3, width=32))
def test_a_bonus_for_everyone_cancels(returns, bonus):
  hypothesis.assume(returns.std() > .01)
  chex.assert_trees_all_close(
      group_advantage(jnp.array(returns + bonus), ddof=0), group_advantage(jnp.array(returns), ddof=0), atol=1e-3)
