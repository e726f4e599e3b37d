import json
import sys
import time
import types

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from experiments import findings, plans, results, side_by_side, sweep, tables, vectors_and_scalars
from experiments import job as jobs
from vpo_jax import config
from vpo_jax.evaluation import compare
from vpo_jax.evaluation.pool import Pool

SMALL = plans.GROUPS['maze_small']


@pytest.mark.parametrize('group', plans.GROUPS.values(), ids=plans.GROUPS)
def test_tuning_is_fair_and_apart_from_the_tables(group):
  tuning = plans.tuning_jobs(group)
  assert {job.split for job in tuning} == {'tuning'}
  assert {sum(job.method == method for job in tuning) for method in group.methods} == {len(group.grid)}
  chosen = {job.method: job.overrides for job in tuning}
  planned = [job for setting in group.seeds for job in plans.table_jobs(group, setting, chosen)]
  weak = plans.weak_jobs(group, chosen) if group.paid else []
  assert len(planned) == sum(group.seeds.values()) * len(group.methods) * group.warm_starts
  assert plans.TUNING_SEED not in {job.seed for job in [*planned, *weak]}
  names = [job.name for job in [*tuning, *planned, *weak, *plans.base_jobs(group)]]
  assert len(set(names)) == len(names)


def test_runs_differ_in_workdir_exactly_if_they_train_differently():
  planned = [job for setting in ('kl0', 'paper') for job in plans.table_jobs(SMALL, setting)]
  assert len({job.workdir for job in planned}) == len(planned)
  chosen = {method: {plans.RATE: 7e-4, plans.KL: 0.} for method in plans.METHODS}
  alike = {job.workdir for job in plans.table_jobs(SMALL, 'tuned', chosen)}
  assert {job.workdir for job in plans.table_jobs(SMALL, 'kl0')} < alike


def test_the_core_is_18_runs_of_the_table_kl0():
  core = sweep.core_jobs(SMALL)
  assert len(core) == 18 and {job.method for job in core} == {'grpo', 'vpo', 'multi_rlvr'}
  assert set(map(repr, core)) < set(map(repr, plans.table_jobs(SMALL, 'kl0')))


@pytest.mark.parametrize('group', plans.GROUPS.values(), ids=plans.GROUPS)
def test_every_override_is_a_field_of_its_config(group):
  paper = plans.table_jobs(group, 'paper') if 'paper' in group.seeds else []
  for job in [*plans.tuning_jobs(group), *(job for job in paper if job.seed == 0)]:
    loaded = config.load(f'experiments/{group.name}/{job.method}.py',
                         [f'--config.{name}={value}' for name, value in job.overrides.items()])
    assert loaded.loss.kl_coef == job.overrides[plans.KL]


def test_weak_verifiers_change_what_pays_and_nothing_else():
  group = plans.GROUPS['programs']
  chosen = {job.method: job.overrides for job in plans.tuning_jobs(group)}
  weak = plans.weak_jobs(group, chosen)
  assert len(weak) == len(group.paid) * len(plans.WEAKLY_PAID) * group.seeds['tuned']
  for job in weak:
    assert {name: job.overrides[name] for name in chosen[job.method]} == chosen[job.method]
    loaded = config.load(f'experiments/programs/{job.method}.py',
                         [f'--config.{name}={value}' for name, value in job.overrides.items()])
    assert job.setting == f'paid_{loaded.task.rewarded}'


def test_answers_to_reach_a_pass_rate():
  curve = {'1': .1, '10': .2, '100': .6}
  reach = lambda level: tables.answers_to_reach(curve, level)
  # Halfway between .2 and .6 lies, in log k, halfway between 10 and 100.
  np.testing.assert_allclose([reach(.05), reach(.2), reach(.4), reach(.6)], [1, 10, 10**1.5, 100])
  assert reach(.61) is None


def test_groups_with_unequal_tuning_are_refused():
  with pytest.raises(ValueError, match='one tuning budget'):
    plans.Group('x', 3, dict(tuned=1), 1, plans.product(kl=(0., .1)), plans.product(kl=(0., .1), k=(2, 3)))


@hypothesis.given(hnp.arrays(np.float64, 5, elements=st.floats(0, 3)))
def test_values_of_problems_survive_as_text(values):
  again = jobs.decode(json.loads(json.dumps(jobs.encode(values))))
  np.testing.assert_allclose(again, values, atol=max(values.max(), 1e-9) / 131_000)


def test_which_values_are_kept():
  assert jobs.kept('best_at_k/30') and jobs.kept('hypervolume') and jobs.kept('expected_best/minimum/30')
  assert not jobs.kept('pass_at_k_rollouts/30') and not jobs.kept('expected_best/minimum/3')


class FakePolicy:
  """Three checkpoints; the better the later but for the last. Notes which splits are sampled."""

  steps = (50, 100, 135)
  quality = types.MappingProxyType({50: .2, 100: .6, 135: .4})

  def __init__(self, asked):
    self.asked = asked

  def pool(self, step, split, num_answers, **how):
    self.asked.append(split)
    n = 60 - 60 % num_answers
    rewards = np.full((4, n, 4), self.quality[step], np.float32)
    candidate = np.broadcast_to(np.arange(n), (4, n))
    return Pool(rewards, np.ones((4, n), bool), candidate // num_answers, candidate % num_answers,
                np.full(4, .75, np.float32), 100, ('completion', 'gold', 'diamond', 'avoid_lava'),
                np.full(4, .25, np.float32))


@pytest.fixture
def job_result(tmp_path, monkeypatch):
  """Function from a job to its result, without a training."""
  def train(workdir, settings):
    workdir.mkdir(parents=True)
    record = {'warm_start': 'abc', 'git_commit': 'c0ffee', 'git_dirty': False, 'versions': {},
              'devices': {'kind': 'cpu'}}
    (workdir / 'config.json').write_text(json.dumps(record))
    rows = [{'step': s, 'generated_tokens_total': 10 * s, 'cpu_seconds_total': s, 'seconds_total': s, 'entropy': 1.}
            for s in range(1, 136)]
    (workdir / 'metrics.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))

  monkeypatch.setattr(jobs, 'train', train)
  asked = []
  monkeypatch.setattr(jobs, 'Policy', lambda *_: FakePolicy(asked))
  return lambda job: (jobs.run(job, tmp_path / 'runs', tmp_path / 'results', []), set(asked))


def test_tuning_never_reads_the_test_split(job_result):
  result, splits = job_result(plans.tuning_jobs(SMALL)[0])
  assert splits == {'tuning'}
  assert result['metrics']['choice'] == pytest.approx({'50': .2, '100': .6, '135': .4})
  assert 'per_problem' not in result


def test_a_tuned_run_is_measured_at_the_checkpoint_that_tuning_chose(job_result):
  chosen = {'vpo': {plans.RATE: 7e-4, plans.KL: .03}}
  result, _ = job_result(plans.table_jobs(SMALL, 'tuned', chosen, methods=['vpo'])[0])
  assert (result['step'], result['tokens']) == (100, 1000)
  # 100 steps of 10 prompts x 12 rollouts of 3 answers, after a prompt of 16 tokens each.
  assert (result['rollouts'], result['answers'], result['prompt_tokens']) == (12_000, 36_000, 192_000)
  assert result['metrics']['best_at_k']['30'] == pytest.approx(.6)
  assert {row['split'] for row in result['decoding']} == {'tuning', 'test', 'shifted'}


def test_a_run_at_kl_0_is_measured_at_its_end_and_its_file_is_small(job_result, tmp_path):
  job = plans.table_jobs(SMALL, 'kl0', methods=['grpo'])[0]
  result, splits = job_result(job)
  assert result['step'] == 135 and splits == {'test'} and 'decoding' not in result
  path = tmp_path / 'results' / f'{job.name}.json'
  assert json.loads(path.read_text())['seed'] == 0 and path.stat().st_size < 60 * 1024


def made_result(method, best, seed=0, diversity=1., setting='kl0', warm_start=0):
  """A result of four problems that all score `best`."""
  names = ['best_at_k/1', 'best_at_k/30', 'oracle', 'hypervolume', 'diversity_l1_valid']
  names += [f'expected_best/{family}/30' for family in (
      'dirichlet_1', 'dirichlet_0.3', 'lopsided_gold', 'tchebycheff', 'minimum', 'threshold_counts')]
  per_problem = {name: jobs.encode(np.full(4, .75 if name == 'oracle' else best)) for name in names}
  return {'name': f'{setting}_{method}_w{warm_start}_s{seed}', 'method': method, 'setting': setting,
          'warm_start': f'start{warm_start}', 'warm_start_seed': warm_start, 'seed': seed, 'num_answers': 1,
          'tokens': 10, 'per_problem': per_problem,
          'history': {'generated_tokens_total': [1, 2], 'diversity_l1_valid': [1., 1.]},
          'metrics': {'best_at_k': {'1': best, '30': best}, 'oracle': .75, 'first_answer': best, 'completion': 1.,
                      'diversity_l1': diversity, 'diversity_l1_valid': diversity, 'pareto_count': 1.,
                      'position_information': 0., 'generated_tokens': 1280, 'num_problems': 4, 'num_candidates': 32,
                      'hypervolume': best,
                      'expected_best': {name.split('/')[1]: {'30': best} for name in names if 'expected' in name}}}


def test_bars_pass_fail_and_stay_open():
  found = [made_result(method, best, diversity=diversity) for method, best, diversity in (
      ('vpo', .70, .9), ('grpo', .68, .3), ('multi_rlvr', .68, .3))]
  # +.02 is enough against GRPO and too little against Multi-RLVR; GRPO is too diverse.
  assert [bar.holds for bar in findings.core_bars(found)] == [True, False, True, False]
  assert [bar.holds for bar in findings.core_bars(found[:1])] == [None, None, True, None]


def test_differences_take_the_pairs_there_are():
  runs = [findings.as_run(made_result(method, best, seed)) for method, best, seed in (
      ('vpo', .7, 0), ('vpo', .6, 1), ('vpo', .1, 2), ('grpo', .5, 0), ('grpo', .6, 1))]
  found, = findings.differences(runs, 'best_at_k/30', 'grpo')
  assert found.difference == pytest.approx(.1, abs=1e-4) and found.num_runs == 2  # (.2 + 0) / 2


def test_the_best_cell_is_chosen_once_all_are_there():
  cells = [job for job in plans.tuning_jobs(SMALL) if job.method == 'vpo']
  found = [{'name': job.name, 'setting': 'tuning', 'metrics': {'choice': {'50': .5, '100': .5 + .01 * (i == 5)}}}
           for i, job in enumerate(cells)]
  assert findings.chosen(found, SMALL) == {'vpo': cells[5].overrides}
  assert findings.chosen(found[1:], SMALL) == {}


def test_a_partial_report_says_what_is_missing_and_a_loss_is_written_as_one(tmp_path):
  folder = tmp_path / 'runs'
  folder.mkdir()
  def add(seed):
    for result in (made_result('vpo', .6, seed), made_result('grpo', .65, seed), made_result('set_max', .66, seed)):
      (folder / f'{result["name"]}.json').write_text(json.dumps(result))

  add(0)
  add(1)  # Two pairs of runs: differences, but no interval and no sentence.
  text = results.write(SMALL, folder, tmp_path)[1].read_text()
  assert 'No comparison is complete yet.' in text and '| best@30 | +0.010 | -0.050 |' in text
  add(2)
  written = results.write(SMALL, folder, tmp_path)
  text = written[1].read_text()
  assert 'VPO is behind GRPO (-0.050' in text and 'VPO gains nothing over GRPO here' in text
  assert 'kl0: 33 of 42 runs' in text and 'tuned: waits for the tuning of grpo' in text
  assert '0.600 ± 0.000 (0.150)' in text  # Best@30 and its regret.
  assert len(json.loads(written[0].read_text())) == 9
  assert {path.name for path in written[2:]} == {'best_at_k_kl0.png', 'diversity_kl0.png'}


def test_methods_below_their_warm_start_are_told_apart():
  made = lambda method, best, n, setting='tuned': made_result(method, best, setting=setting) | {'num_answers': n}
  base = [made('warm_start', .5, 1, 'base'), made('warm_start', .3, 3, 'base')]
  runs = [made('grpo', .4, 1), made('vpo', .4, 3)]
  assert results.against_the_start(runs, base) == (
      'Best@30 of the warm start is 0.500 (1 a rollout), 0.300 (3 a rollout). Above it, of 2 methods tuned '
      'from it: VPO.')
  assert 'it: all.' in results.against_the_start(runs[1:], base)
  assert 'it: none.' in results.against_the_start(runs[:1], base)
  assert not results.against_the_start(runs, [])


def test_an_empty_report_is_one_too(tmp_path):
  (tmp_path / 'runs').mkdir()
  assert 'No comparison is complete yet.' in results.write(SMALL, tmp_path / 'runs', tmp_path)[1].read_text()


def test_commands_run_side_by_side_and_failures_are_named(tmp_path, capsys):
  say = lambda code: [sys.executable, '-c', code]
  env = side_by_side.environment(tmp_path / 'compiled')
  start = time.monotonic()
  failed = side_by_side.run(
      {'a': say('import time; time.sleep(1.5); print("fine")'), 'b': say('import time; time.sleep(1.5)'),
       'c': say('import os; print(os.environ["XLA_FLAGS"]); raise SystemExit(3)')},
      logs=tmp_path / 'logs', env=env, at_a_time=3)
  assert failed == ['c'] and time.monotonic() - start < 3
  assert side_by_side.tail(tmp_path / 'logs' / 'a.log') == 'fine'
  assert '--xla_cpu_multi_thread_eigen=false' in side_by_side.tail(tmp_path / 'logs' / 'c.log')
  assert 'c FAILED' in capsys.readouterr().out


def test_done_runs_are_skipped(tmp_path, monkeypatch, capsys):
  for job in sweep.core_jobs(SMALL):
    (tmp_path / f'{job.name}.json').write_text('{}')
  monkeypatch.setattr(side_by_side, 'slots', lambda: 1)
  monkeypatch.setattr(side_by_side, 'run', lambda *_, **__: pytest.fail('nothing was missing'))
  sweep.Sweep(SMALL, tmp_path / 'work', tmp_path, []).do('Core', sweep.core_jobs(SMALL))
  assert '18 of them already' in capsys.readouterr().out


def test_policies_are_trained_after_their_warm_start_and_once(tmp_path, monkeypatch):
  ran = []
  monkeypatch.setattr(side_by_side, 'slots', lambda: 1)
  monkeypatch.setattr(side_by_side, 'run', lambda commands, **_: ran.extend(commands) or [])
  jobs = sweep.core_jobs(SMALL)[:2]
  done = tmp_path / jobs[1].workdir / 'trained'
  done.parent.mkdir()
  done.touch()
  sweep.Sweep(SMALL, tmp_path, tmp_path, []).train(jobs)
  assert ran == ['start_warm_start_w0_s0', jobs[0].name]


def test_a_vector_method_is_set_against_the_scalar_method_that_is_best_at_that_k():
  found = {'grpo': (.5, .6), 'max_at_k': (.4, .7), 'random_weights': (.9, .9), 'vpo': (.55, .68)}
  runs = [compare.Run(f'{method}_{seed}', method, 'same', seed, np.ones(4), {
              'best_at_k/1': np.full(4, at_1), 'best_at_k/30': np.full(4, at_30)})
          for method, (at_1, at_30) in found.items() for seed in range(3)]
  leads = [vectors_and_scalars.lead(runs, f'best_at_k/{k}', 'vpo') for k in (1, 30)]
  assert [c.baseline for c in leads] == ['grpo', 'max_at_k']
  np.testing.assert_allclose([c.difference for c in leads], [.05, -.02], atol=1e-9)
  page = vectors_and_scalars.page({'maze_small, best@k': {
      f'k = {k}': dict.fromkeys(vectors_and_scalars.VECTORS, c) for k, c in zip((1, 30), leads, strict=True)}})
  assert '| k = 1 | +0.050 [+0.050, +0.050] to GRPO |' in page and '-0.020 [-0.020, -0.020] to Max@K' in page
