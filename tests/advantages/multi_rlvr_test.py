import functools

import jax
import numpy as np
import pytest

from vpo_jax import advantages

compute = jax.jit(
    functools.partial(advantages.compute, 'multi_rlvr'), static_argnames=('deduplicate', 'baseline', 'normalize'))
raw = functools.partial(compute, baseline='none', normalize='none')
REWARDS = np.array([[1, 1, .4], [.4, .2, 1], [1, .2, .5]], np.float32)[None, :, :, None]
IDS = np.array([[[5, 5, 2], [2, 3, 5], [5, 5, 5]]])


def test_copies_are_paid_once():
  # 1 + .4; .4 + .2 + 1; and three copies that a noisy judge scored 1, .2, .5: their mean.
  np.testing.assert_allclose(raw(REWARDS, answer_ids=IDS).values[0], [1.4, 1.6, 1.7 / 3], rtol=1e-6)
  np.testing.assert_allclose(raw(REWARDS, answer_ids=IDS, deduplicate=False).values[0], [2.4, 1.6, 1.7], rtol=1e-6)
  np.testing.assert_allclose(raw(REWARDS).values[0], [2.4, 1.6, 1.7], rtol=1e-6)


def test_answers_not_given_add_nothing():
  mask = np.array([[[False, True, True], [True, False, True], [False, False, False]]])
  # The masked copy doesn't take the other's share.
  np.testing.assert_allclose(raw(REWARDS, answer_ids=IDS, answer_mask=mask).values[0], [1.4, 1.4, 0], rtol=1e-6)


def test_one_answer_is_grpo():
  rewards = np.random.default_rng(0).random((2, 5, 1, 2))
  np.testing.assert_array_equal(
      compute(rewards).values, jax.jit(advantages.compute, static_argnums=0)('grpo', rewards).values)


def test_ids_must_fit():
  with pytest.raises(ValueError, match='answer_ids'):
    raw(REWARDS, answer_ids=IDS[:, :, :2])
