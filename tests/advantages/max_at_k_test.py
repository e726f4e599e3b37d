import jax
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages

compute = jax.jit(advantages.compute, static_argnames=('name', 'k', 'baseline', 'normalize'))


def scalars(*values):
  return np.array(values, np.float32).reshape(1, -1, 1, 1)


class MaxAtKTest(parameterized.TestCase):

  @parameterized.parameters(
      ('none', 1, [0, .25, .5, .75]),
      ('none', 2, [1, 1, 7 / 6, 1.5]),  # Pairs with 3: 3 of 6, each 3. With 2: maxima 2, 2, 3 of 6.
      ('none', 3, [2, 2, 2, 2.25]),
      ('none', 4, [3, 3, 3, 3]),
      ('loo_1', 2, [0, 1 / 6, .5, 1]),
      ('loo_1', 3, [0, 0, .25, 1]),
      ('loo', 2, [-1 / 3, -1 / 3, 0, 2 / 3]),  # 1 - 2/4 · 8/3, 7/6 - 2/4 · 7/3, 1.5 - 2/4 · 5/3
      ('mean', 2, [-1 / 6, -1 / 6, 0, 1 / 3]))
  def test_golden_credits(self, baseline, k, expected):
    values, _ = compute('max_at_k', scalars(0, 1, 2, 3), k=k, baseline=baseline, normalize='none')
    np.testing.assert_allclose(values[0], expected, atol=1e-6)

  def test_default_is_standardised_by_the_sample_deviation(self):
    values, _ = compute('max_at_k', scalars(0, 1, 2, 3), k=2)
    # -1/6, -1/6, 0, 1/3 over √(1/18)
    np.testing.assert_allclose(values[0], [-.7071, -.7071, 0, 1.4142], atol=1e-4)

  def test_correct_or_not(self):
    values, _ = compute('max_at_k', scalars(1, 1, 0, 0, 0, 0, 0, 0), k=4, baseline='none', normalize='none')
    np.testing.assert_allclose(values[0], [.5, .5] + [5 / 14] * 6, rtol=1e-6)
    values, _ = compute('max_at_k', scalars(1, 1, 0, 0, 0, 0, 0, 0), k=4, baseline='loo_1', normalize='none')
    np.testing.assert_allclose(values[0], [2 / 7, 2 / 7] + [0] * 6, atol=1e-7)

  def test_several_answers_count_by_the_best(self):
    rewards = np.random.default_rng(0).random((2, 5, 3, 1)).astype(np.float32)
    several = compute('max_at_k', rewards, k=2)
    best = compute('max_at_k', rewards.max(axis=2, keepdims=True), k=2)
    np.testing.assert_array_equal(several.values, best.values)

  def test_groups_that_lost_too_many_are_counted(self):
    mask = np.array([[True, True, True, True], [True, True, False, False], [False] * 4])
    rewards = np.tile(scalars(0, 1, 2, 3), (3, 1, 1, 1))
    values, metrics = compute('max_at_k', rewards, k=3, rollout_mask=mask)
    self.assertEqual(metrics['groups_below_k'], .5)
    np.testing.assert_array_equal(values[1:], 0)

  def test_k_that_leaves_no_signal_is_refused(self):
    with pytest.raises(ValueError, match=r'k=4 must be in \[1, 3\] for groups of 4'):
      compute('max_at_k', scalars(0, 1, 2, 3), k=4)
