import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages.gdpo import whitened

compute = jax.jit(functools.partial(advantages.compute, 'gdpo'), static_argnames=('whiten', 'eps', 'ddof'))
ONES = np.ones(2)
# Two groups of two: (0, 0) against (1, 0), and (0, 0) against (1, 1).
PAIRS = np.array([[[0, 0], [1, 0]], [[0, 0], [1, 1]]], np.float32)[:, :, None]


def test_more_components_won_weigh_more():
  values, _ = compute(PAIRS, scalar_weights=ONES, whiten='none', eps=1e-9)
  np.testing.assert_allclose(values, [[-.7071068, .7071068], [-1.4142136, 1.4142136]], rtol=1e-6)
  # ∓√½ and ∓√2 over the deviation √(5/3) of all four.
  values, metrics = compute(PAIRS, scalar_weights=ONES, eps=1e-9)
  np.testing.assert_allclose(values, [[-.5477226, .5477226], [-1.0954451, 1.0954451]], rtol=1e-6)
  np.testing.assert_allclose([metrics['set_reward'], metrics['pool_best']], [.75, 1.5])


def test_what_is_added_to_the_deviations():
  values, _ = compute(PAIRS[:1], scalar_weights=ONES, whiten='none')
  np.testing.assert_allclose(values[0, 1], .5 / (np.sqrt(.5) + 1e-4), rtol=1e-6)
  values, _ = compute(PAIRS, scalar_weights=ONES)
  small = .5 / (np.sqrt(.5) + 1e-4)
  np.testing.assert_allclose(values[0, 1], small / (small * np.sqrt(10 / 3) + 1e-4), rtol=1e-6)


def test_population_deviations_by_name():
  values, _ = compute(PAIRS, scalar_weights=ONES, whiten='none', ddof=0, eps=1e-9)
  np.testing.assert_allclose(values[:, 1], [1, 2], rtol=1e-6)


def test_weights_come_after_the_division():
  rewards = np.array([[0, 30], [2, 0], [1, 90], [1, 60]], np.float32)[None, :, None]
  scores = lambda column: (column - column.mean()) / column.std(ddof=1)
  expected = .25 * scores(rewards[0, :, 0, 0]) + .75 * scores(rewards[0, :, 0, 1])
  values, _ = compute(rewards, scalar_weights=np.array([.25, .75]), whiten='none', eps=1e-9)
  np.testing.assert_allclose(values[0], expected, rtol=1e-5)
  values, _ = compute(rewards, scalar_weights=np.array([.25, .75]), eps=1e-9)
  np.testing.assert_allclose(values[0], expected / expected.std(ddof=1), rtol=1e-5)


def test_a_component_of_another_scale_counts_the_same():
  rewards = np.random.default_rng(0).random((3, 6, 2, 2))
  np.testing.assert_allclose(
      compute(rewards * [1, 20] + [0, -3], eps=1e-9).values, compute(rewards, eps=1e-9).values, atol=1e-4)


def test_one_component_is_grpo_whitened():
  rewards = np.random.default_rng(1).random((3, 6, 2, 1))
  grpo = np.asarray(jax.jit(advantages.compute, static_argnums=0)('grpo', rewards).values)
  values = np.asarray(compute(rewards, eps=1e-9).values)
  np.testing.assert_allclose(values, grpo / grpo.std(ddof=1), atol=1e-4)
  np.testing.assert_allclose([values.mean(), values.std(ddof=1)], [0, 1], atol=1e-6)


def test_what_complements_cancels():
  rewards = np.array([[[1, 0], [0, 1]], [[0, 0], [1, 0]]], np.float32)[:, :, None]
  for whiten, lengths in (('rollouts', None), ('tokens', np.array([[1, 5], [2, 7]]))):
    values, metrics = compute(rewards, whiten=whiten, lengths=lengths)
    np.testing.assert_array_equal(values[0], 0)  # Also where the mean over tokens is not 0.
    assert metrics['flat_groups'] == .5 and np.abs(values[1]).min() > .1


def test_a_missing_component_adds_nothing():
  rewards = np.array([[[0, 5], [1, 7]], [[0, 0], [1, 1]]], np.float32)[:, :, None]
  values, _ = compute(
      rewards, scalar_weights=ONES, component_mask=np.array([[True, False], [True, True]]), whiten='none', eps=1e-9)
  np.testing.assert_allclose(values, np.sqrt(2) * np.array([[-1, 1], [-1, 1]]), rtol=1e-6)  # Weights 2, 0 and 1, 1.


@pytest.mark.parametrize('counts, expected', [
    # Mean -.8, squares 1 · 1.8² + 9 · .2² = 3.6 over 9.
    ([[1, 9]], [[1.8 / np.sqrt(.4), -.2 / np.sqrt(.4)]]),
    ([[1, 1]], [[1 / np.sqrt(2), -1 / np.sqrt(2)]]),
    ([[0, 1]], [[1, -1]]), ([[0, 0]], [[1, -1]]), ([[0, 2]], [[1, -1]])])
def test_each_rollout_counts_once_or_once_a_token(counts, expected):
  actual = whitened(jnp.array([[1., -1.]]), jnp.array(counts, jnp.float32), eps=1e-9)
  np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_tokens_by_name():
  mask = np.array([[True, True, False], [True, True, True]])
  rewards = np.array([[0, 1, 9], [0, 1, .5]], np.float32)[:, :, None, None]
  lengths = np.array([[1, 3, 50], [2, 2, 4]])
  values, _ = compute(rewards, rollout_mask=mask, lengths=lengths, whiten='tokens', eps=1e-9)
  scores, tokens = np.array([-.7071068, .7071068, -1, 1, 0]), np.array([1, 3, 2, 2, 4])
  rows = np.repeat(scores, tokens)
  expected = (scores - rows.mean()) / rows.std(ddof=1)
  np.testing.assert_allclose(values[mask], expected, rtol=1e-5)
  assert values[0, 2] == 0


def test_unknown_settings_are_named():
  with pytest.raises(ValueError, match="whiten='batch'"):
    compute(PAIRS, whiten='batch')
  with pytest.raises(ValueError, match="whiten='tokens' needs lengths"):
    compute(PAIRS, whiten='tokens')
  with pytest.raises(ValueError, match=r'\(2, 2\), not \(2, 1\)'):
    compute(PAIRS, whiten='tokens', lengths=np.ones((2, 1)))
