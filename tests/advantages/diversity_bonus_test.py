import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages.diversity_bonus import cluster_bonus, variance_bonus

compute = jax.jit(functools.partial(advantages.compute, 'diversity_bonus'), static_argnames=(
    'bonus', 'coefficient', 'baseline', 'normalize', 'ddof', 'eps'))
REWARDS = np.array([1, 1, 1, 1, 1, 0, 0, 0], np.float32)[None, :, None, None]
CLUSTERS = np.array([[0, 0, 0, 0, 1, 2, 3, 4]])


def test_rare_answers_are_paid_more():
  values, metrics = compute(REWARDS, clusters=CLUSTERS)
  # Bonus (8/4 - 1)/7 four times and 1 four times.
  np.testing.assert_allclose(values[0], [-.0535714] * 4 + [.8035714] + [-.1964286] * 3, atol=1e-6)
  np.testing.assert_allclose([metrics['diversity_bonus'], metrics['set_reward']], [4 / 7, 5 / 8], rtol=1e-6)
  np.testing.assert_allclose(
      compute(REWARDS, clusters=CLUSTERS, coefficient=0.).values[0], [.375] * 5 + [-.625] * 3, atol=1e-6)


def test_novelty_pays_also_where_nobody_is_right():
  values, _ = compute(REWARDS * 0, clusters=CLUSTERS, coefficient=.5)
  np.testing.assert_allclose(values[0], [-3 / 14] * 4 + [3 / 14] * 4, atol=1e-6)


def test_clusters_count_live_rollouts():
  mask = jnp.array([True, True, False, True, False])
  actual = cluster_bonus(jnp.array([0, 0, 0, 1, 1]), mask)
  np.testing.assert_allclose(actual[mask], [.25, .25, 1], rtol=1e-6)  # (3/2 - 1)/2 and (3 - 1)/2
  np.testing.assert_array_equal(cluster_bonus(jnp.array([0, 0, 0, 1, 1]), jnp.arange(5) == 3)[3], 0)


def test_distance_to_the_mean_vector_by_name():
  mask = jnp.array([True, True, True, True, False])
  rewards = jnp.array([[1., 0.], [0., 1.], [1., 1.], [0., 0.], [9., 9.]])
  np.testing.assert_allclose(variance_bonus(rewards, mask, jnp.ones(2, bool))[:4], [.25] * 4)  # (1/4 + 1/4)/2
  np.testing.assert_allclose(
      variance_bonus(rewards * jnp.array([[1., 0.]]), mask, jnp.array([True, False]))[:4], [.25] * 4)
  # Two answers a rollout: their mean is (3/4, 0); the others are zeros. The mean vector is (1/4, 0).
  rewards = np.array([[[1, 0], [.5, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]], np.float32)[None]
  values, metrics = compute(rewards, bonus='variance', coefficient=2.)
  earned = np.array([.375 + 2 * .25 / 2, 2 * .0625 / 2, 2 * .0625 / 2])
  np.testing.assert_allclose(values[0], earned - earned.mean(), atol=1e-6)
  np.testing.assert_allclose(metrics['diversity_bonus'], (.125 + .0625) / 3, rtol=1e-5)


def test_settings_of_the_advantage():
  values, _ = compute(REWARDS, clusters=CLUSTERS, normalize='std')
  earned = np.array([8 / 7] * 4 + [2] + [1] * 3)
  np.testing.assert_allclose(values[0], (earned - earned.mean()) / earned.std(ddof=1), atol=1e-4)
  values, _ = compute(REWARDS, clusters=CLUSTERS, baseline='none')
  np.testing.assert_allclose(values[0], earned, rtol=1e-6)


@pytest.mark.parametrize('change', [
    dict(bonus='entropy'), dict(coefficient=-1.), dict(coefficient=float('nan')), dict(clusters=CLUSTERS[:, :4])])
def test_faults_are_named(change):
  with pytest.raises(ValueError, match=next(iter(change))):
    compute(REWARDS, **change)
