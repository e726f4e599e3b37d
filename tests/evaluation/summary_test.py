import itertools
import json
import time

import moocore
import numpy as np
import pytest
from scipy.spatial import distance

from vpo_jax.evaluation import preferences, summary
from vpo_jax.evaluation.pool import Pool

COMPONENTS = ('completion', 'gold', 'diamond')


def random_pool(problems, rollouts, m, d=3, levels=5, seed=0, oracle=1.):
  rng = np.random.default_rng(seed)
  shape = (problems, rollouts * m)
  mask = rng.random(shape) < .9
  rewards = rng.integers(0, levels + 1, (*shape, d)) / levels
  rewards[..., 0] = rewards[..., 0] > .3
  rewards *= (mask & (rewards[..., 0] > 0))[..., None]
  return Pool(
      rewards=rewards.astype(np.float32), answer_mask=mask,
      rollout=np.broadcast_to(np.repeat(np.arange(rollouts), m), shape).astype(np.int32),
      position=np.broadcast_to(np.tile(np.arange(m), rollouts), shape).astype(np.int32),
      oracle=np.full(problems, oracle, np.float32), generated_tokens=1234,
      components=(*COMPONENTS, 'avoid_lava')[:d], scalar_weights=np.full(d, 1 / d, np.float32))


def brute(scores, k):
  return np.mean([np.max(subset) for subset in itertools.combinations(scores, k)])


@pytest.fixture(scope='module')
def pool():
  return random_pool(problems=3, rollouts=3, m=2)


@pytest.fixture(scope='module')
def result(pool):
  return summary.summary(pool)


def test_curves_are_means_over_problems_of_all_subsets(pool, result):
  scores = pool.rewards.astype(np.float64).mean(axis=-1)
  success = pool.rewards[..., 0] > 0
  assert list(result['best_at_k']) == ['1', '2', '3', '5']
  assert list(result['best_at_k_rollouts']) == ['1', '2', '3']
  for k in (1, 2, 3, 5):
    np.testing.assert_allclose(result['best_at_k'][str(k)], np.mean([brute(s, k) for s in scores]), rtol=1e-6)
    np.testing.assert_allclose(result['pass_at_k'][str(k)], np.mean([brute(s, k) for s in success]), rtol=1e-6)
    np.testing.assert_allclose(result['regret'][str(k)], 1 - result['best_at_k'][str(k)], rtol=1e-6)
  for k in (1, 2, 3):
    blocks = [[max(s[:2]), max(s[2:4]), max(s[4:])] for s in scores]
    np.testing.assert_allclose(result['best_at_k_rollouts'][str(k)], np.mean([brute(b, k) for b in blocks]), rtol=1e-6)
  for name, family in preferences.families(COMPONENTS).items():
    utilities = family(pool.rewards, pool.component_mask)  # [3, 6, K]
    expected = np.mean([brute(utilities[p, :, w], 2) for p in range(3) for w in range(utilities.shape[-1])])
    np.testing.assert_allclose(result['expected_best'][name]['2'], expected, rtol=1e-6)


def test_scalars(pool, result):
  rows = pool.rewards.astype(np.float64)
  success = rows[..., 0] > 0
  mean_l1 = lambda masks: np.mean([distance.pdist(r[m], 'cityblock').mean() if m.sum() > 1 else 0.
                                   for r, m in zip(rows, masks, strict=True)])
  np.testing.assert_allclose(result['diversity_l1'], mean_l1(pool.answer_mask), rtol=1e-6)
  np.testing.assert_allclose(result['diversity_l1_valid'], mean_l1(success), rtol=1e-6)
  within = [distance.cityblock(r[i], r[i + 1]) if m[i] and m[i + 1] else 0.
            for r, m in zip(rows, pool.answer_mask, strict=True) for i in (0, 2, 4)]
  np.testing.assert_allclose(result['diversity_l1_within_rollout'], np.mean(within), rtol=1e-6)
  np.testing.assert_allclose(result['completion'], success.mean())
  np.testing.assert_allclose(result['first_answer'], rows[:, ::2].mean(), rtol=1e-6)
  volumes = [moocore.hypervolume(r, ref=-.1, maximise=True) for r in rows]
  np.testing.assert_allclose(result['hypervolume'], np.mean(volumes), rtol=1e-5)
  counts = [moocore.is_nondominated(np.unique(r[m], axis=0), maximise=True).sum()
            for r, m in zip(rows, success, strict=True)]
  np.testing.assert_allclose(result['pareto_count'], np.mean(counts))
  np.testing.assert_allclose(sum(result['position_share'].values()), 1)
  assert 0 <= result['position_information'] <= np.log(2)
  sizes = ('num_problems', 'num_candidates', 'answers_per_rollout', 'generated_tokens')
  assert [result[name] for name in sizes] == [3, 6, 2, 1234]


def test_every_metric_has_an_interval_around_it(result):
  for name, (low, high) in result['confidence'].items():
    value = result
    for part in name.split('/'):
      value = value[part]
    assert low - 1e-6 <= value <= high + 1e-6 or name == 'position_information', name  # That one is biased upwards.
  assert set(result['confidence']) >= {'best_at_k/5', 'expected_best/minimum/2', 'hypervolume', 'position_information'}


def test_interval_is_that_of_the_mean_over_problems():
  pool = random_pool(problems=64, rollouts=4, m=1)
  values = summary.per_problem(pool)
  low, high = summary.summary(pool, values)['confidence']['best_at_k/2']
  half = 1.96 * values['best_at_k/2'].std() / 8
  np.testing.assert_allclose([low, high], values['best_at_k/2'].mean() + np.array([-half, half]), atol=.15 * half)


def test_failures_count_as_zeros_and_never_leave_the_denominator():
  # 100 items: 80 right, 10 wrong, 10 not given (time out, no parse): .8, not 80/90.
  rewards = (np.arange(100) < 80).astype(np.float32)[:, None, None]
  zeros = np.zeros((100, 1), np.int32)
  pool = Pool(rewards=rewards, answer_mask=(np.arange(100) < 90)[:, None], rollout=zeros, position=zeros,
              oracle=np.ones(100, np.float32), generated_tokens=0, components=('right',),
              scalar_weights=np.ones(1, np.float32))
  result = summary.summary(pool)
  np.testing.assert_allclose([result['completion'], result['pass_at_k']['1'], result['best_at_k']['1']], .8)
  assert result['diversity_l1'] == 0 and result['position_share'] == {'0': 1.}
  np.testing.assert_allclose(result['pareto_count'], .8)  # The vectors of failures are on no front.


def test_rewards_of_one_problem_in_another_order_give_the_same_summary(pool, result):
  swap = [2, 3, 0, 1, 5, 4]  # Whole rollouts, and a rollout's answers with their positions.
  fields = {name: getattr(pool, name)[:, swap] for name in ('rewards', 'answer_mask', 'rollout', 'position')}
  other = summary.summary(Pool(**fields, oracle=pool.oracle, generated_tokens=1234, components=pool.components,
                               scalar_weights=pool.scalar_weights))
  for name in ('best_at_k', 'best_at_k_rollouts', 'position_share'):
    for k, value in result[name].items():
      np.testing.assert_allclose(other[name][k], value, rtol=1e-6)


def test_written_files_hold_the_summary(tmp_path, pool, result):
  written = summary.write(pool, tmp_path, 40)
  assert json.loads((tmp_path / 'eval' / '40.json').read_text()) == written == result
  np.testing.assert_array_equal(Pool.load(tmp_path / 'eval' / '40.npz').rewards, pool.rewards)


def test_large_pool_takes_seconds():
  pool = random_pool(problems=256, rollouts=171, m=3, d=4)
  start = time.process_time()
  result = summary.summary(pool)
  assert time.process_time() - start < 10
  assert list(result['best_at_k']) == [str(k) for k in summary.K_GRID]
