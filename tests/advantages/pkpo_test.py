import jax
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages

compute = jax.jit(advantages.compute, static_argnames=('name', 'k', 'baseline', 'normalize'))


def scalars(*values):
  return np.array(values, np.float32).reshape(1, -1, 1, 1)


class PkpoTest(parameterized.TestCase):

  @parameterized.parameters(
      ('loo', 2, [-7 / 9, -7 / 9, -7 / 18, 7 / 18]),  # 1 - 2/3 · 8/3, 7/6 - 2/3 · 7/3, 1.5 - 2/3 · 5/3
      ('loo', 3, [-1, -1, -1, .25]),
      ('loo_1', 2, [0, 1 / 6, .5, 1]),
      ('loo_1', 3, [0, 0, .25, 1]),
      ('none', 2, [1, 1, 7 / 6, 1.5]))
  def test_golden_credits(self, baseline, k, expected):
    values, _ = compute('pkpo', scalars(0, 1, 2, 3), k=k, baseline=baseline)
    np.testing.assert_allclose(values[0], expected, atol=1e-6)

  def test_default_is_what_a_success_adds_to_k_1_others(self):
    # k = 4: correct, 4/8 · C(6, 3)/C(7, 3).
    values, _ = compute('pkpo', scalars(1, 1, 0, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(values[0], [2 / 7, 2 / 7] + [0] * 6, atol=1e-7)

  def test_two_rollouts_are_compared_as_a_pair(self):
    np.testing.assert_allclose(compute('pkpo', scalars(.25, 1)).values[0], [0, .75])  # k = 2: r_i - the other, if > 0

  @parameterized.parameters('loo', 'loo_1', 'none')
  def test_padding_is_absent_and_too_few_get_nothing(self, baseline):
    mask = np.array([[True, False, True, True, True, False], [True] * 2 + [False] * 4, [True] * 3 + [False] * 3])
    rewards = np.random.default_rng(0).random((3, 6, 1, 1)).astype(np.float32)
    values, metrics = compute('pkpo', rewards, rollout_mask=mask, k=3, baseline=baseline)
    np.testing.assert_allclose(
        values[0][mask[0]], compute('pkpo', rewards[:1, mask[0]], k=3, baseline=baseline).values[0], rtol=1e-5)
    np.testing.assert_array_equal(values[~mask], 0)
    np.testing.assert_array_equal(values[1], 0)
    self.assertEqual(np.abs(values[2]).max() > 0, baseline != 'loo')  # Three among themselves: no three others.
    np.testing.assert_allclose(metrics['groups_below_k'], 1 / 3, rtol=1e-6)

  def test_unknown_settings_are_named(self):
    with pytest.raises(ValueError, match="baseline='mean' must be one of loo_1, loo, none"):
      compute('pkpo', scalars(0, 1), baseline='mean')
    with pytest.raises(ValueError, match=r'k=4 must be in \[1, 3\]'):
      compute('pkpo', scalars(0, 1, 2, 3), k=4, baseline='loo')
