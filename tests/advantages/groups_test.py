import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax.advantages.groups import clean_groups


class CleanGroupsTest(parameterized.TestCase):

  def test_broken_entries_are_missing_answers_and_counted(self):
    rewards = np.array([[1, 0], [np.nan, 5], [np.inf, -np.inf], [2, 3]], np.float32).reshape(1, 2, 2, 2)
    groups = clean_groups(rewards)
    np.testing.assert_array_equal(groups.rewards, [[[[1, 0], [0, 0]], [[0, 0], [2, 3]]]])
    np.testing.assert_array_equal(groups.answers, [[[True, False], [False, True]]])
    self.assertEqual(groups.metrics['invalid_entries'], 3)
    self.assertEqual(groups.metrics['missing_answers'], .5)
    self.assertEqual(groups.metrics['empty_rollouts'], 0)

  def test_an_empty_rollout_has_one_zero_vector(self):
    answer_mask = np.array([[[True, True], [False, False]]])
    groups = clean_groups(np.full((1, 2, 2, 3), -1.), answer_mask=answer_mask)
    np.testing.assert_array_equal(groups.answers, [[[True, True], [True, False]]])
    np.testing.assert_array_equal(groups.rewards[0, 1], 0)
    self.assertEqual(groups.metrics['empty_rollouts'], .5)

  def test_what_is_masked_is_not_looked_at(self):
    rewards = np.array([[1, np.nan], [np.nan, np.nan]], np.float32).reshape(1, 2, 1, 2)
    groups = clean_groups(rewards, np.array([[True, False]]), component_mask=np.array([[True, False]]))
    self.assertEqual(groups.metrics['invalid_entries'], 0)
    self.assertEqual(groups.metrics['missing_answers'], 0)
    self.assertEqual(groups.metrics['group_size'], 1)
    np.testing.assert_array_equal(groups.rewards.ravel(), [1, 0, 0, 0])

  @parameterized.parameters(jnp.bfloat16, np.float16, np.int32, bool)
  def test_narrow_dtypes_are_widened(self, dtype):
    self.assertEqual(clean_groups(jnp.ones((1, 2, 1, 1), dtype)).rewards.dtype, jnp.float32)

  @parameterized.parameters(
      (dict(rewards=np.zeros((2, 3, 2))), 'rewards.shape'),
      (dict(rewards=np.zeros((2, 3, 0, 2))), 'rewards.shape'),
      (dict(rewards=np.zeros((2, 3, 1, 2), np.complex64)), 'must be real'),
      (dict(rollout_mask=np.ones((3, 2), bool)), r'rollout_mask has shape \(3, 2\)'),
      (dict(answer_mask=np.ones((2, 3), bool)), 'answer_mask has shape'),
      (dict(component_mask=np.ones(2, bool)), 'component_mask has shape'))
  def test_wrong_shapes_are_named(self, change, message):
    with pytest.raises(ValueError, match=message):
      clean_groups(**dict(rewards=np.zeros((2, 3, 1, 2))) | change)
