"""The expected update of every unbiased estimator is the gradient of what it claims to climb, times a factor."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.advantages.enumeration import expected_update, objective_gradient
from vpo_jax import advantages
from vpo_jax.advantages.weights import simplex_weights

LOGITS = np.array([.3, -.4, 1.1])
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum()
REWARDS = np.array([.9, .1, .4])  # Of the three actions.
SOLVES = np.array([1., 0., 0.])
CLUSTERS = np.array([7, 100, 3])  # The second is junk.
VECTORS = np.random.default_rng(0).random((3, 2, 2))  # Two answers with two components for each action.

compute = jax.jit(advantages.compute, static_argnames=(
    'name', 'k', 'n', 'eps', 'baseline', 'normalize', 'aggregate', 'zero_if_single', 'set_score', 'num_weights'))


def assert_climbs(estimator, settings, size, objective, set_size, factor, *, rewards=REWARDS, centre=False, **arrays):
  """`arrays` hold a row for each action, like `rewards`, which may be scalars or `[actions, m, d]`."""
  rewards = rewards.reshape(len(LOGITS), -1, rewards.shape[-1] if rewards.ndim == 3 else 1)

  def values(groups):
    by_group = {name: array[groups] for name, array in arrays.items()}
    if 'prompt_ids' in advantages.settings_of(estimator):  # One id: all groups meet the same weightings.
      by_group['prompt_ids'] = np.full(len(groups), 9)
    values = compute(estimator, rewards[groups], jax.random.key(5), **by_group, **settings).values
    return np.asarray(values) - (np.mean(values, axis=1, keepdims=True) if centre else 0)

  with jax.enable_x64(True):
    actual = expected_update(LOGITS, size, values)
    np.testing.assert_allclose(actual, factor * objective_gradient(LOGITS, set_size, objective), rtol=0, atol=1e-10)
  assert np.abs(actual).max() > 1e-4


def mean_reward(actions):
  return REWARDS[list(actions)].mean()


def best_reward(actions):
  return REWARDS[list(actions)].max()


def polychromic_score(actions, zero_if_single=False):
  strategies = {CLUSTERS[a] for a in actions} - {100}
  return mean_reward(actions) * len(strategies) / len(actions) * (len(strategies) > zero_if_single)


@pytest.mark.parametrize('name, settings', [('dr_grpo', {}), ('grpo', {'normalize': 'none'})])
@pytest.mark.parametrize('baseline, factor', [('mean', 3), ('loo', 4), ('none', 4)])
def test_the_mean(name, settings, baseline, factor):
  assert_climbs(name, settings | {'baseline': baseline}, 4, mean_reward, 1, factor)


@pytest.mark.parametrize('size, n', [(3, 1), (4, 3), (5, 2)])
@pytest.mark.parametrize('aggregate', ['mean', 'sum'])
def test_polychromic_sets(size, n, aggregate):
  factor = (size - n) / n if aggregate == 'mean' else math.comb(size - 1, n)
  assert_climbs(
      'poly_epo', {'n': n, 'aggregate': aggregate}, size, polychromic_score, n, factor, clusters=CLUSTERS)


def test_polychromic_sets_of_several_clusters():
  score = lambda actions: polychromic_score(actions, zero_if_single=True)
  assert_climbs('poly_epo', {'n': 2, 'zero_if_single': True}, 4, score, 2, 1, clusters=CLUSTERS)


def best_of_set(rewards, clusters, junk):
  return rewards.max()


def test_a_set_score_of_ones_own():
  assert_climbs('poly_epo', {'n': 3, 'set_score': best_of_set}, 5, best_reward, 3, 2 / 3)


@pytest.mark.parametrize('size, k', [(4, 2), (5, 3)])
@pytest.mark.parametrize('name, baseline', [
    ('max_at_k', 'none'), ('max_at_k', 'mean'), ('max_at_k', 'loo'), ('max_at_k', 'loo_1'),
    ('pkpo', 'none'), ('pkpo', 'loo'), ('pkpo', 'loo_1')])
def test_the_best_of_k(name, baseline, size, k):
  settings = {'k': k, 'baseline': baseline} | ({'normalize': 'none'} if name == 'max_at_k' else {})
  assert_climbs(name, settings, size, best_reward, k, 1 - k / size if baseline == 'mean' else 1)


@pytest.mark.parametrize('baseline, k', [('none', 1), ('none', 3), ('loo_1', 3), ('loo', 1)])
def test_the_best_of_one_or_of_all(baseline, k):
  assert_climbs('pkpo', {'k': k, 'baseline': baseline}, 3, best_reward, k, 1)


@pytest.mark.parametrize('size', [2, 4])
@pytest.mark.parametrize('baseline, order', [('none', 0), ('always', 0), ('mean', -1)])
def test_the_likelihood_of_success_up_to_a_number_of_terms(baseline, order, size):
  # The code's form stops one term before the paper's. The factor N: a sum over rollouts, not a mean.
  factor = size * (1 - (1 - PROBS[0])**(size + order)) / PROBS[0]
  succeeds = lambda actions: SOLVES[actions[0]]
  assert_climbs('maxrl', {'baseline': baseline, 'eps': 1e-14}, size, succeeds, 1, factor, rewards=SOLVES)


def best_for_users(m, num_weights):
  """Mean over the users that all groups meet, of their best score among all answers of a set."""
  with jax.enable_x64(True):
    key = jax.random.fold_in(jax.random.key(5), 9)
    users = simplex_weights(key, num_weights, 2, dtype=jnp.float64)
  scores = np.einsum('amd,kd->akm', VECTORS[:, :m], users).max(axis=-1)
  return lambda actions: scores[list(actions)].max(axis=0).mean()


@pytest.mark.parametrize('size, k, m', [(4, 3, 1), (3, 2, 2)])
@pytest.mark.parametrize('baseline', ['none', 'loo', 'loo_1', 'mean', 'loo_1 centred'])
def test_the_best_of_k_sets_for_every_user(baseline, size, k, m):
  objective, settings = best_for_users(m, 4), {'k': k, 'num_weights': 4, 'normalize': 'none'}
  if baseline != 'loo_1 centred':  # Values are in reward units, N/k times the credits c.
    factor = size / k - 1 if baseline == 'mean' else size / k
    assert_climbs('vpo_subsets', settings | {'baseline': baseline}, size, objective, k, factor, rewards=VECTORS[:, :m])
    return
  # (1 - k/N) ∇J_k + (k/N) ∇J_{k-1}: both are means over all sets of k.
  fewer = lambda actions: np.mean([objective(some) for some in itertools.combinations(actions, k - 1)])
  mixed = lambda actions: (size / k - 1) * objective(actions) + fewer(actions)
  assert_climbs('vpo_subsets', settings | {'baseline': 'loo_1'}, size, mixed, k, 1, rewards=VECTORS[:, :m], centre=True)


@pytest.mark.parametrize('m', [1, 2])
def test_the_best_of_one_set_for_every_user(m):
  settings = {'num_weights': 4, 'normalize': 'none'}
  assert_climbs('vpo', settings, 3, best_for_users(m, 4), 1, 2, rewards=VECTORS[:, :m])


def test_members_of_a_group_from_unlike_samplers():
  """Mean-centred, without importance weights, as methods that steer some rollouts of a group do."""
  samplers = np.array([[.5, .3, .2], [.1, .1, .8], [.3, .6, .1]])
  with jax.enable_x64(True):
    values = lambda groups: np.asarray(compute('dr_grpo', REWARDS[groups][:, :, None, None]).values)
    actual = expected_update(LOGITS, 3, values, samplers)
  scores = np.eye(3) - PROBS
  earned, paths = samplers @ REWARDS, samplers @ scores
  together = (samplers * REWARDS) @ scores
  expected = sum(2 / 3 * together[i] - (earned.sum() - earned[i]) / 3 * paths[i] for i in range(3))
  np.testing.assert_allclose(actual, expected, atol=1e-12)
