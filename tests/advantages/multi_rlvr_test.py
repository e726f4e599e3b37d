import functools
import itertools

import jax
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages import multi_rlvr

compute = jax.jit(
    functools.partial(advantages.compute, 'multi_rlvr'), static_argnames=(
        'deduplicate', 'score', 'baseline', 'normalize'))
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
  np.testing.assert_array_equal(
      multi_rlvr.distinct_shares(mask[0], IDS[0]), [[0, 1, 1], [1, 0, 1], [0, 0, 0]])


def test_one_answer_is_grpo():
  rewards = np.random.default_rng(0).random((2, 5, 1, 2))
  np.testing.assert_array_equal(
      compute(rewards).values, jax.jit(advantages.compute, static_argnums=0)('grpo', rewards).values)


def test_ids_must_fit():
  with pytest.raises(ValueError, match='answer_ids'):
    raw(REWARDS, answer_ids=IDS[:, :, :2])


def test_the_best_entry_of_each_component_by_name():
  rewards = np.array([[[[1, 0, .2], [0, .5, .3]], [[-1, -2, -3], [-2, -1, -3]], [[9, 9, 9], [0, 0, 0]]]], np.float32)
  mask = np.array([[[True, True], [True, True], [False, True]]])
  values, metrics = raw(rewards, answer_mask=mask, score='max_sum', scalar_weights=np.array([5., 1., 1.]))
  np.testing.assert_allclose(values[0], [1.8, -5, 0], rtol=1e-6)
  np.testing.assert_allclose(metrics['set_reward'], -3.2 / 3, rtol=1e-6)


def test_sets_of_components_passed_together_by_name():
  rng = np.random.default_rng(0)
  rewards, mask = rng.integers(0, 5, (2, 5, 3, 4)) / 4, rng.random((2, 5, 3)) < .8
  components = np.array([[True] * 4, [True, False, True, True]])
  values, _ = raw(rewards, answer_mask=mask, component_mask=components, score='set_coverage')
  for b in range(2):
    for g in range(5):
      passed = [frozenset(np.flatnonzero((rewards[b, g, i] >= .5) & components[b])) for i in range(3) if mask[b, g, i]]
      covered = {some for one in passed for size in range(1, 5) for some in itertools.combinations(sorted(one), size)}
      np.testing.assert_allclose(values[b, g], len(covered), atol=1e-5)


def test_scores_are_named_and_bounded():
  with pytest.raises(ValueError, match="score='best' must be one of sum, max_sum, set_coverage"):
    raw(REWARDS, score='best')
  with pytest.raises(ValueError, match='at most 10 answers a rollout, not 11'):
    raw(np.ones((1, 2, 11, 1)), score='set_coverage')
  raw(np.ones((1, 2, 10, 1)), score='set_coverage')
