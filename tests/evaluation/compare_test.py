import numpy as np
import pytest

from vpo_jax.evaluation import compare


def run(method, warm_start, seed, values, oracle=None):
  values = np.asarray(values, np.float64)
  return compare.Run(f'{method}-{warm_start}-{seed}', method, warm_start, seed,
                     np.ones(len(values)) if oracle is None else oracle, {'best_at_k/30': values})


def test_holm_by_hand():
  # Ascending .01 .03 .04 times 3 2 1: .03 .06 .04, made monotone: .03 .06 .06.
  np.testing.assert_allclose(compare.holm([.01, .04, .03]), [.03, .06, .06])
  np.testing.assert_allclose(compare.holm([.5, .9]), [1., 1.])


def test_pairing_removes_what_problems_and_seeds_share():
  rng = np.random.default_rng(0)
  runs = []
  for seed in range(4):
    shared = rng.normal(size=50) + rng.normal()  # Far larger than the gain of .1.
    noise = .01 * rng.normal(size=50)
    runs += [run('grpo', 'a', seed, shared), run('vpo', 'a', seed, shared + .1 + noise)]
  result, = compare.compare(runs, 'best_at_k/30', baseline='grpo', resamples=1000)
  assert (result.method, result.baseline, result.num_runs, result.num_problems) == ('vpo', 'grpo', 4, 50)
  np.testing.assert_allclose(result.difference, .1, atol=.005)
  assert .09 < result.low < result.difference < result.high < .11
  np.testing.assert_allclose(result.p_value, 2 / 1001)


def test_interval_covers_runs_as_well_as_problems():
  # Every problem agrees within a run, so all spread is between runs: differences 0, 1, 2, 3.
  runs = [run('vpo', 'a', seed, np.full(9, seed)) for seed in range(4)]
  runs += [run('grpo', 'a', seed, np.zeros(9)) for seed in range(4)]
  result, = compare.compare(runs, 'best_at_k/30', baseline='grpo', resamples=4000)
  # Means of 4 of (0, 1, 2, 3) drawn with replacement have deviation √(5/4)/2 = .559.
  normal = [1.5 - 1.96 * .559, 1.5 + 1.96 * .559]
  np.testing.assert_allclose([result.low, result.high], normal, atol=.16)  # The mean goes in steps of .25.


def test_equal_methods_do_not_differ():
  runs = [run(method, 'a', 0, np.arange(5)) for method in ('grpo', 'vpo')]
  result, = compare.compare(runs, 'best_at_k/30', baseline='grpo', resamples=100)
  assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_false_alarms_keep_to_their_rate():
  # 40 pairs of the same method, 8 runs of 40 problems: at 5 %, more than 9 alarms has chance 1e-4.
  rng = np.random.default_rng(0)
  alarms = 0
  for _ in range(40):
    runs = [run(method, 'a', seed, rng.normal(size=40)) for method in ('grpo', 'vpo') for seed in range(8)]
    alarms += compare.compare(runs, 'best_at_k/30', baseline='grpo', resamples=400)[0].p_value < .05
  assert alarms <= 9


def test_holm_spans_the_methods_of_one_call():
  runs = [run('grpo', 'a', 0, np.zeros(20)), run('vpo', 'a', 0, np.ones(20)), run('maxrl', 'a', 0, np.ones(20))]
  results = compare.compare(runs, 'best_at_k/30', baseline='grpo', resamples=99)
  np.testing.assert_allclose([(r.p_value, r.p_holm) for r in results], [[.02, .04]] * 2)


@pytest.mark.parametrize('other, message', [
    (run('vpo', 'bbb', 0, np.ones(3)), "grpo-aaa-0 .grpo. and vpo-bbb-0 .vpo. must start.*'aaa' and 'bbb'"),
    (run('vpo', 'aaa', 1, np.ones(3)), 'vpo-aaa-1 .*seed 1. must have a partner of grpo, but grpo-aaa-0'),
    (run('vpo', 'aaa', 0, np.ones(4)), 'grpo-aaa-0 and vpo-aaa-0 must be evaluated on the same problems'),
    (run('vpo', 'aaa', 0, np.ones(3), oracle=np.array([1, 1, .5])), 'grpo-aaa-0 and vpo-aaa-0 must be evaluated'),
])
def test_runs_that_cannot_be_paired_are_refused_by_name(other, message):
  with pytest.raises(ValueError, match=message):
    compare.compare([run('grpo', 'aaa', 0, np.zeros(3)), other], 'best_at_k/30', baseline='grpo')


def test_the_same_run_twice_is_refused():
  twice = [run('grpo', 'a', 0, np.zeros(3)), run('vpo', 'a', 0, np.zeros(3)), run('vpo', 'a', 0, np.zeros(3))]
  with pytest.raises(ValueError, match='vpo-a-0 and vpo-a-0 must be different runs'):
    compare.compare(twice, 'best_at_k/30', baseline='grpo')


def test_unknown_metric_and_baseline_are_refused():
  runs = [run('grpo', 'a', 0, np.zeros(3)), run('vpo', 'a', 0, np.zeros(3))]
  with pytest.raises(ValueError, match='must be one of'):
    compare.compare(runs, 'best_at_k/7', baseline='grpo')
  with pytest.raises(ValueError, match="No run of 'gpro'"):
    compare.compare(runs, 'best_at_k/30', baseline='gpro')
