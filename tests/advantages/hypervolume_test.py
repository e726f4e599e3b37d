import functools

import jax
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.hypervolume import BINARY_REFERENCE, hypervolume

compute = jax.jit(functools.partial(advantages.compute, 'hypervolume'), static_argnames=(
    'method', 'num_samples', 'baseline', 'normalize'))
raw = functools.partial(compute, baseline='none', normalize='none')
# A staircase 3 x 1, 2 x 2, 1 x 3 of area 6, and a dominated answer.
STAIRS = np.array([[3, 1], [2, 2], [1, 3], [1, 1]], np.float32)[None, :, None]


def test_what_a_rollout_alone_adds():
  values, metrics = raw(STAIRS)
  np.testing.assert_allclose(values[0], [1, 1, 1, 0], atol=1e-6)
  np.testing.assert_allclose([metrics['pool_best'], metrics['set_reward']], [6, .75], rtol=1e-6)
  np.testing.assert_allclose(compute(STAIRS).values[0], np.array([.25, .25, .25, -.75]) / .5, atol=1e-5)


def test_copies_add_nothing_alone():
  rewards = np.concatenate([STAIRS, STAIRS[:, :1]], axis=1)
  np.testing.assert_array_equal(raw(rewards).values[0], [0, 1, 1, 0, 0])


def test_sets_of_answers_against_the_host():
  rng = np.random.default_rng(0)
  rewards, answer_mask = rng.random((2, 4, 2, 3)).astype(np.float32), rng.random((2, 4, 2)) < .8
  answer_mask[..., 0] = True
  rollout_mask = np.array([[True] * 4, [True, False, True, True]])
  values, metrics = raw(rewards, answer_mask=answer_mask, rollout_mask=rollout_mask, reference=np.full(3, -.1))
  live = answer_mask & rollout_mask[..., None]
  volume = lambda b, live: hypervolume(rewards[b][live], np.full(3, -.1))
  for b in range(2):
    expected = [volume(b, live[b]) - volume(b, live[b] & (np.arange(4) != g)[:, None]) for g in range(4)]
    np.testing.assert_allclose(values[b], expected, atol=1e-5)
  np.testing.assert_allclose(metrics['pool_best'], np.mean([volume(b, live[b]) for b in range(2)]), rtol=1e-5)


def test_binary_rewards_need_a_reference_below_zero():
  rewards = np.array([[1, 0], [0, 1], [0, 0]], np.float32)[None, :, None]
  np.testing.assert_array_equal(raw(rewards).values, 0)
  np.testing.assert_allclose(raw(rewards, reference=BINARY_REFERENCE).values[0], [1, 1, 0])  # Areas 2 and 2 share 1.


@pytest.mark.parametrize('method', ['exact', 'monte_carlo'])
def test_an_absent_component_is_not_measured(method):
  rewards = np.random.default_rng(1).random((1, 4, 2, 3)).astype(np.float32)
  settings = dict(key=jax.random.key(0), method=method, reference=-1.)
  actual = raw(rewards, component_mask=np.array([[True, False, True]]), **settings)
  np.testing.assert_allclose(
      actual.values, raw(rewards[..., [0, 2]], **settings).values, atol=1e-5 if method == 'exact' else .3)
  assert np.abs(actual.values).max() > .01


def test_samples_approach_the_volumes():
  rewards = np.random.default_rng(2).random((2, 4, 2, 3)).astype(np.float32)
  rollout_mask = np.array([[True] * 4, [True, False, True, True]])
  exact, metrics = raw(rewards, rollout_mask=rollout_mask)
  settings = dict(rollout_mask=rollout_mask, method='monte_carlo', num_samples=2**14)
  sampled, sampled_metrics = raw(rewards, jax.random.key(0), **settings)
  # A share deviates by at most .5/128 of a box, which is no larger than 1.
  np.testing.assert_allclose(sampled, exact, atol=5 * .5 / 128)
  np.testing.assert_allclose(sampled_metrics['pool_best'], metrics['pool_best'], atol=5 * .5 / 128)
  np.testing.assert_array_equal(sampled[1, 1], 0)
  again, _ = raw(rewards[::-1], jax.random.key(0), prompt_ids=np.array([1, 0]), **settings | {
      'rollout_mask': rollout_mask[::-1]})
  np.testing.assert_allclose(again[::-1], sampled, atol=1e-6)


def test_samples_take_any_number_of_components():
  values, _ = raw(np.eye(8, dtype=np.float32)[None, :, None], jax.random.key(0), method='monte_carlo', reference=-1.,
                  num_samples=2**13)
  # Each fills 2 of 2^8 unit cells, one of them shared by all. .5·√(1/256)/90 · 256 is about .09.
  np.testing.assert_allclose(values[0], np.ones(8), atol=5 * .18)


@pytest.mark.parametrize('change, message', [
    (dict(method='quick'), 'method='), (dict(num_samples=0), 'num_samples=0'),
    (dict(reference=np.zeros(3)), r'reference has shape \(3,\)'), (dict(method='monte_carlo'), 'key=None')])
def test_faults_are_named(change, message):
  with pytest.raises(ValueError, match=message):
    compute(STAIRS, **change)


def test_too_many_components_for_exact_volumes_are_refused_not_sampled():
  with pytest.raises(ValueError, match="method='exact' takes at most 5 components, not 6"):
    compute(np.ones((1, 2, 1, 6)))
