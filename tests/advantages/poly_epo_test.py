import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages
from vpo_jax.advantages import poly_epo

compute = jax.jit(functools.partial(advantages.compute, 'poly_epo'), static_argnames=(
    'n', 'num_sets', 'aggregate', 'zero_if_single', 'junk_id', 'set_score'))
polychromic = jax.jit(poly_epo.polychromic, static_argnames='zero_if_single')


def group(rewards, clusters):
  """Rewards and clusters of one group, given as texts: '110' and 'AAB'."""
  rewards = np.array([[float(r) for r in rewards]], np.float32)[:, :, None, None]
  return {'rewards': rewards, 'clusters': np.array([[ord(c) for c in clusters]])}


class PolyEpoTest(parameterized.TestCase):

  @parameterized.parameters(
      ('11110000', 'AABBCCDD', 2, [.1786] * 4 + [-.1786] * 4),
      ('11110000', 'AABBCCDD', 4, [.05] * 4 + [-.05] * 4),
      ('11110000', 'AABBCCDD', 6, [.0146] * 4 + [-.0146] * 4),
      ('11111000', 'AAAAABCD', 2, [.0536] * 5 + [-.0893] * 3),
      ('11111000', 'AAAAABCD', 4, [0] * 8),
      ('11111000', 'AAAAABCD', 6, [-.0020] * 5 + [.0033] * 3),
      ('10000000', 'ABBBBCDE', 2, [.375] + [-.0536] * 7),
      ('10000000', 'ABBBBCDE', 4, [.1018] + [-.0214] * 4 + [-.0054] * 3),
      ('10000000', 'ABBBBCDE', 6, [.0288] + [-.0069] * 4 + [-.0003] * 3),
      ('11111000', 'AAAABCDE', 2, [.0536] * 4 + [.2679] + [-.1607] * 3),
      ('11111000', 'AAAABCDE', 4, [-.0036] * 4 + [.0839] + [-.0232] * 3),
      ('11111000', 'AAAABCDE', 6, [-.0030] * 4 + [.0248] + [-.0043] * 3),
      ('11110000', 'AAAAAAAA', 2, [.1071] * 4 + [-.1071] * 4),
      ('11110000', 'AAAAAAAA', 4, [.0179] * 4 + [-.0179] * 4),
      ('11110000', 'AAAAAAAA', 6, [.0040] * 4 + [-.0040] * 4),
      ('11110000', 'ABCDEFGH', 2, [.2143] * 4 + [-.2143] * 4),
      ('11110000', 'ABCDEFGH', 4, [.0714] * 4 + [-.0714] * 4),
      ('11110000', 'ABCDEFGH', 6, [.0238] * 4 + [-.0238] * 4))
  def test_golden_groups(self, rewards, clusters, n, expected):
    values, _ = compute(**group(rewards, clusters), n=n)
    np.testing.assert_allclose(values[0], expected, atol=6e-5)
    np.testing.assert_allclose(values.sum(), 0, atol=1e-6)

  def test_half_the_group_is_the_default_and_the_mean_its_aggregate(self):
    one = group('11111000', 'AAAABCDE')
    np.testing.assert_array_equal(compute(**one).values, compute(**one, n=4).values)
    # Each rollout is in C(7, 3) = 35 sets of 4.
    np.testing.assert_allclose(compute(**one, aggregate='sum').values, 35 * compute(**one).values, atol=1e-6)

  @parameterized.parameters((1, 1.), (2, 6 / 14), (4, 1 / 7))
  def test_rollouts_in_clusters_of_their_own_get_a_share_of_dr_grpo(self, n, share):
    rewards = np.random.default_rng(0).random((2, 8, 3, 2))
    expected = np.asarray(jax.jit(advantages.compute, static_argnums=0)('dr_grpo', rewards).values)
    for clusters in (None, np.tile(np.arange(8), (2, 1))):
      np.testing.assert_allclose(compute(rewards, n=n, clusters=clusters).values, share * expected, atol=1e-6)

  def test_only_who_is_alike_matters(self):
    rewards, clusters = '11010010', 'AABBCDCE'
    np.testing.assert_array_equal(
        compute(**group(rewards, clusters)).values, compute(**group(rewards, 'XXCCADAB')).values)

  def test_one_cluster_may_score_nothing(self):
    values, metrics = compute(**group('11110000', 'AAAAAAAA'), zero_if_single=True)
    np.testing.assert_array_equal(values, 0)
    assert metrics['flat_groups'] == 1
    assert np.abs(compute(**group('11110000', 'AAAAAAAB'), zero_if_single=True).values).max() > .01

  def test_junk_is_no_cluster(self):
    clusters = np.array([[100, 100, 1, 1]])
    values, _ = compute(np.ones((1, 4, 1, 1)), clusters=clusters, n=2)
    # Pairs score 0 (junk alone), 1/2 (four mixed ones) and 1/2: the mean is 5/12. Junk: (0 + 1/2 + 1/2)/3.
    np.testing.assert_allclose(values[0], [-1 / 12, -1 / 12, 1 / 12, 1 / 12], atol=1e-6)
    again, _ = compute(np.ones((1, 4, 1, 1)), clusters=clusters + 7, junk_id=107, n=2)
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(compute(np.ones((1, 4, 1, 1)), clusters=clusters * 0 + 100, n=2).values, 0)

  def test_padding_is_in_no_set(self):
    rng = np.random.default_rng(1)
    rewards, clusters = rng.random((3, 6, 1, 1)), rng.integers(0, 3, (3, 6))
    mask = np.array([[True, False, True, True, True, False], [True, True] + [False] * 4, [True] * 3 + [False] * 3])
    for aggregate in ('mean', 'sum'):
      values, metrics = compute(rewards, rollout_mask=mask, clusters=clusters, n=2, aggregate=aggregate)
      np.testing.assert_allclose(
          values[0][mask[0]],
          compute(rewards[:1, mask[0]], clusters=clusters[:1, mask[0]], n=2, aggregate=aggregate).values[0], atol=1e-6)
      np.testing.assert_array_equal(values[~mask], 0)
      np.testing.assert_array_equal(values[1], 0)  # One set.
      assert np.abs(values[2]).max() > .01
      np.testing.assert_allclose(metrics['groups_without_sets'], 1 / 3, rtol=1e-6)
    _, metrics = compute(rewards[1:2], rollout_mask=mask[1:2], clusters=clusters[1:2], n=2)
    assert metrics['groups_without_sets'] == 1

  def test_a_score_of_ones_own(self):
    best_that_counts = lambda rewards, clusters, junk: jnp.where(junk, 0, rewards).max()
    values, _ = compute(
        np.array([0., 1., 2., 9.])[None, :, None, None], clusters=np.array([[0, 0, 0, 100]]), n=3,
        set_score=best_that_counts)
    # Sets of three: 2 where the third is in, 1 in the one without. The mean is 7/4.
    np.testing.assert_allclose(values[0], [-1 / 12, -1 / 12, .25, -1 / 12], atol=1e-6)


class SampledSetsTest(parameterized.TestCase):

  def test_all_sets_in_another_order_are_all_sets(self):
    one = group('11010010', 'AABBCDCE')
    np.testing.assert_allclose(
        compute(**one, key=jax.random.key(0), num_sets=70).values, compute(**one).values, atol=1e-6)

  def test_draws_follow_the_prompt_and_the_key(self):
    one = group('11010010', 'AABBCDCE')
    rewards, clusters = np.tile(one['rewards'], (3, 1, 1, 1)), np.tile(one['clusters'], (3, 1))
    draw = lambda key: compute(
        rewards, jax.random.key(key), clusters=clusters, num_sets=20, prompt_ids=np.array([4, 5, 4])).values
    np.testing.assert_array_equal(draw(0)[0], draw(0)[2])
    assert np.abs(draw(0)[0] - draw(0)[1]).max() > 1e-3 and np.abs(draw(0) - draw(1)).max() > 1e-3

  def test_no_set_is_drawn_twice(self):
    # Sets of one, worth 0 to 3: the one not drawn gets 0, the others their distance to the mean of the three.
    rewards = np.tile(np.arange(4.)[None, :, None, None], (50, 1, 1, 1))
    values = np.asarray(compute(rewards, jax.random.key(0), n=1, num_sets=3).values)
    drawn = [[r for r in range(4) if r != left_out] for left_out in range(4)]
    possible = np.array([[r - np.mean(rest) if r in rest else 0 for r in range(4)] for rest in drawn])
    distances = np.abs(values[:, None] - possible[None]).max(axis=-1)
    assert (distances.min(axis=1) < 1e-6).all()
    assert set(distances.argmin(axis=1)) == {0, 1, 2, 3}  # Each is left out with chance 1/4, 50 times.

  def test_the_sum_over_sampled_sets_is_known_up_to_a_factor(self):
    """Over all samples of S of the C(N, n) sets, its mean is (S - 1)/(C(N, n) - 1) times the sum over all sets."""
    sets = np.array(list(itertools.combinations(range(4), 2)))
    scores, everyone = jnp.array([.3, .9, 0., .5, .4, 1.]), jnp.ones(4, bool)
    advantage = functools.partial(poly_epo.marginal_advantages, rollouts=everyone, aggregate='sum')
    samples = np.array(list(itertools.combinations(range(6), 3)))
    sampled = jax.vmap(lambda sample: advantage(scores[sample], jnp.asarray(sets)[sample]))(samples)
    np.testing.assert_allclose(sampled.mean(axis=0), 2 / 5 * advantage(scores, jnp.asarray(sets)), atol=1e-6)

  def test_a_rollout_in_no_sampled_set_gets_zero(self):
    sets = jnp.array([[0, 1], [0, 2]])
    values = poly_epo.marginal_advantages(jnp.array([0., 1.]), sets, jnp.ones(4, bool), aggregate='mean')
    np.testing.assert_allclose(values, [0, -.5, .5, 0], atol=1e-7)


class PolychromicTest(parameterized.TestCase):

  @parameterized.parameters(
      ([1, 1, 1, 1], False, .25), ([1, 1, 1, 1], True, 0), ([1, 2, 1, 3], False, .75), ([1, 2, 1, 3], True, .75),
      ([100, 100, 100, 100], False, 0), ([100, 1, 1, 100], False, .25), ([100, 1, 1, 100], True, 0))
  def test_mean_reward_times_share_of_clusters(self, clusters, zero_if_single, share):
    clusters = jnp.array(clusters)
    actual = polychromic(jnp.array([.2, .6, 1., .2]), clusters, clusters == 100, zero_if_single=zero_if_single)
    np.testing.assert_allclose(actual, .5 * share, rtol=1e-6)

  def test_junk_in_place_of_a_member_adds_no_cluster(self):
    rng = np.random.default_rng(0)
    for _ in range(20):
      clusters, junk = rng.integers(0, 3, 4), rng.random(4) < .3
      score = polychromic(jnp.ones(4), clusters, junk)
      for i in range(4):
        assert polychromic(jnp.ones(4), clusters, junk | (np.arange(4) == i)) <= score


class PolyEpoSettingsTest(parameterized.TestCase):

  @parameterized.parameters(
      (dict(n=4), r'n=4 must be in \[1, 3\] for groups of 4'), (dict(n=0), 'n=0'),
      (dict(aggregate='max'), 'aggregate='),
      (dict(num_sets=1), r'num_sets=1 must be in \[2, 6\]'), (dict(num_sets=7), 'num_sets=7'),
      (dict(num_sets=3), 'key=None'), (dict(clusters=np.zeros((1, 3), int)), 'clusters.shape'))
  def test_faults_are_named(self, change, message):
    with pytest.raises(ValueError, match=message):
      compute(np.ones((1, 4, 1, 1)), **change)

  def test_too_many_sets_are_refused(self):
    assert math.comb(24, 12) > poly_epo.MAX_SETS
    with pytest.raises(ValueError, match='n=12 makes 2704156 sets of 24'):
      compute(np.ones((1, 24, 1, 1)))
    assert poly_epo.set_size(4, 36) == 4
