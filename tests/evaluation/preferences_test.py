import numpy as np
import pytest
from scipy import stats

from vpo_jax.evaluation import preferences

COMPONENTS = ('completion', 'gold', 'diamond', 'lava')
ALL = np.ones(4, bool)


def test_names_and_the_seen_family():
  families = preferences.families(COMPONENTS)
  assert set(families) == {
      'dirichlet_1', 'dirichlet_0.3', 'lopsided_completion', 'lopsided_gold', 'lopsided_diamond', 'lopsided_lava',
      'tchebycheff', 'minimum', 'threshold_counts'}
  assert preferences.SEEN.issubset(families)
  assert set(families) - set(preferences.families(COMPONENTS, [True, True, False, True])) == {'lopsided_diamond'}


def test_every_family_scores_nothing_0_and_everything_1():
  for name, scores in preferences.families(COMPONENTS).items():
    ends = scores(np.stack([np.zeros(4), np.ones(4)]), ALL)
    np.testing.assert_allclose(ends[0], 0, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(ends[1], 1, atol=1e-12, err_msg=name)


def test_every_family_is_deterministic_and_monotone():
  rng = np.random.default_rng(0)
  rewards = rng.random((50, 4))
  better = rewards + (1 - rewards) * rng.random((50, 4))
  for name, scores in preferences.families(COMPONENTS).items():
    np.testing.assert_array_equal(scores(rewards, ALL), preferences.families(COMPONENTS)[name](rewards, ALL))
    assert (scores(better, ALL) >= scores(rewards, ALL) - 1e-12).all(), name


@pytest.mark.parametrize('alpha', [1., .3])
def test_dirichlet_weights_follow_their_law(alpha):
  weights = preferences.dirichlet_weights(4, alpha, num_weights=20000)
  np.testing.assert_allclose(weights.sum(axis=1), 1)
  # One coordinate of Dir(alpha) in 4 dimensions is Beta(alpha, 3 alpha).
  assert stats.kstest(weights[:, 0], stats.beta(alpha, 3 * alpha).cdf).pvalue > 1e-3


def test_lopsided_weights():
  np.testing.assert_allclose(preferences.lopsided_weights(4, 1), [[.1, .7, .1, .1]])
  np.testing.assert_allclose(preferences.lopsided_weights(1, 0), [[1.]])


def test_utilities_by_hand():
  rewards, both = np.array([[1., .5]]), np.ones(2, bool)
  # Weights (.8, .2) scale to (1, 1/4): shortfalls 0 and 1/8. Weights (.4, .6): 2/3 of 0, and 1/2.
  np.testing.assert_allclose(preferences.tchebycheff(rewards, both, np.array([[.8, .2], [.4, .6]])), [[7 / 8, 1 / 2]])
  np.testing.assert_allclose(preferences.minimum(rewards, both), [[.5]])
  np.testing.assert_allclose(preferences.threshold_counts(rewards, both), [[1, 1, .5, .5]])


def test_a_missing_component_has_no_say():
  # The first problem lacks the middle component, the second has all; to the first it is as if there were but two.
  rewards = np.array([[[1., 0., .5], [.2, 0., .9]], [[1., .3, .5], [.2, .6, .9]]])
  mask = np.array([[True, False, True], [True, True, True]])
  weights = np.array([[.4, .5, .1], [.1, .2, .7]])
  two, both = rewards[:1][..., [0, 2]], np.ones(2, bool)[None]
  for scores in (preferences.linear, preferences.tchebycheff):
    renormalised = weights[:, [0, 2]] / weights[:, [0, 2]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores(rewards, mask, weights)[:1], scores(two, both, renormalised))
    np.testing.assert_allclose(scores(rewards, mask, weights)[1:], scores(rewards[1:], mask[1:], weights))
  for scores in (preferences.minimum, preferences.threshold_counts):
    np.testing.assert_allclose(scores(rewards, mask)[:1], scores(two, both))
  np.testing.assert_allclose(preferences.linear(rewards, mask, weights)[0, 0], [(.4 + .05) / .5, (.1 + .35) / .8])
