"""The bandit lab: its engine by hand, its claims with few seeds and few updates."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl.testing import absltest

from experiments.bandits import __main__ as lab
from experiments.bandits import (
    collinearity,
    deceptive_valley,
    hidden_context,
    rare_behaviour,
    subsets,
    tabular,
    three_answers,
    two_rewards,
)
from vpo_jax.advantages import compute
from vpo_jax.advantages.weights import simplex_weights

QUESTIONS = (three_answers, deceptive_valley, hidden_context, rare_behaviour, two_rewards, collinearity, subsets)


def chosen(methods, *labels):
  return [method for method in methods if method.label in labels]


class TabularTest(absltest.TestCase):

  def test_expected_best_against_enumeration(self):
    rng = np.random.default_rng(0)
    probs, scores = rng.dirichlet(np.ones(3), 2), rng.integers(0, 3, (4, 3)) / 2
    pairs = list(itertools.product(range(3), repeat=2))
    of_pair = np.array([probs[0, a] * probs[1, b] for a, b in pairs])
    best = np.array([[max(s[a], s[b]) for a, b in pairs] for s in scores])
    of_two = np.array([p * q for p, q in itertools.product(of_pair, repeat=2)])
    best_of_two = np.array([[max(a, b) for a, b in itertools.product(user, repeat=2)] for user in best])
    expected = [(scores @ probs.mean(axis=0)).mean(), (best @ of_pair).mean(), (best_of_two @ of_two).mean()]
    np.testing.assert_allclose(tabular.expected_best(probs, scores, (1, 2, 4)), expected, rtol=1e-12)
    with pytest.raises(ValueError, match='n=3 must be 1 or a multiple of m=2'):
      tabular.expected_best(probs, scores, (3,))

  def test_bit_strings_and_their_chances(self):
    strings = np.array(list(itertools.product((0, 1), repeat=3)))
    np.testing.assert_array_equal(tabular.bit_strings(strings), strings @ [1, 2, 4])
    logits = np.random.default_rng(0).normal(size=(2, 3, 2))
    bits = tabular.probs_of(logits)
    for slot, string in itertools.product(range(2), strings):
      np.testing.assert_allclose(
          tabular.string_probs(logits)[slot, string @ [1, 2, 4]], np.prod(bits[slot, np.arange(3), string]), rtol=1e-12)

  def test_one_update_is_the_policy_gradient(self):
    method = tabular.Method('', 'dr_grpo', {'scalar_weights': (1.,)})
    seen = {}

    def reward(key, ids):
      jax.debug.callback(lambda ids: seen.update(ids=ids), ids)
      return (ids[..., None] == 2).astype(jnp.float32)

    logits, watched = tabular.train(
        jax.random.key(0), jnp.zeros((1, 3)), reward, method, rollouts=6, optimizer=optax.sgd(.5), num_updates=1,
        watch=lambda logits: logits.sum())
    jax.effects_barrier()
    won = np.asarray(seen['ids'])[0, :, 0] == 2
    self.assertBetween(won.sum(), 1, 5)
    advantages = won - won.mean()
    scores = np.eye(3)[np.asarray(seen['ids'])[0, :, 0]] - 1 / 3
    np.testing.assert_allclose(logits[0], .5 * (advantages[:, None] * scores).mean(axis=0), atol=1e-6)
    self.assertEqual(watched.shape, (1,))

  def test_tilts_change_what_is_drawn_and_not_how_it_is_scored(self):
    # Every rollout is steered to its own answer: all but certain draws. The score is that of equal chances.
    tilts = 50 * jnp.eye(3)[:, None]
    logits, _ = tabular.train(
        jax.random.key(0), jnp.zeros((1, 3)), lambda key, ids: (ids[..., None] == 0).astype(jnp.float32),
        tabular.Method('', 'dr_grpo'), rollouts=3, optimizer=optax.sgd(1.), num_updates=1, tilts=tilts)
    # Advantages (2, -1, -1) / 3, each on its own answer, mean of three.
    np.testing.assert_allclose(logits[0], np.array([2, -1, -1]) / 9, atol=1e-6)

  def test_first_updates(self):
    actual = tabular.first_updates(np.array([[False, True, False], [False, False, False], [True, True, True]]))
    self.assertEqual(actual, [2, None, 1])


class QuestionsTest(absltest.TestCase):

  def test_specialists_survive_under_vpo_and_not_under_grpo(self):
    methods = chosen(three_answers.METHODS, 'GRPO, 4 slots', 'VPO, 4 slots')
    _, grpo, vpo = three_answers.run(2, methods=methods)[''].values()
    for seed in range(2):
      self.assertGreater(grpo['compromise'][seed], .95)
      self.assertLess(grpo['best@4'][seed], .61)
      self.assertGreater(vpo['best@4'][seed], .74)  # 3/4, and .755 with a compromise beside the two.

  def test_rewards_of_the_valley(self):
    rewards = deceptive_valley.rewards()
    np.testing.assert_allclose(rewards[[0, -1]], [[.8] * 4, [1.] * 4])
    number = tabular.bit_strings(np.array([1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0]))
    np.testing.assert_allclose(rewards[number], [.4, 0, 1, .8])

  def test_vpo_crosses_the_valley_and_grpo_does_not(self):
    methods = chosen(deceptive_valley.METHODS, 'GRPO, 4 slots', 'VPO, 4 slots')
    _, grpo, vpo = deceptive_valley.run(3, 300, methods)[''].values()
    self.assertEqual(grpo['all ones'], [0] * 3)
    self.assertEqual(vpo['all ones'], [1] * 3)

  def test_poly_epo_keeps_what_dr_grpo_drops(self):
    methods = (chosen(hidden_context.ONE_REWARD, 'Dr. GRPO', 'Poly-EPO, n 4'), ())
    rows = hidden_context.run(2, (1500, 0), methods)['one reward']
    for seed in range(2):
      self.assertLess(rows['Dr. GRPO']['best@16'][seed], .75)
      self.assertGreater(rows['Poly-EPO, n 4']['best@16'][seed], .93)
      self.assertGreater(rows['Dr. GRPO']['best@1'][seed], rows['untrained']['best@1'][seed] + .05)

  def test_steering_finds_the_rare_behaviour_and_only_along_its_direction(self):
    labels = [method[0].label for method in rare_behaviour.METHODS]
    kept = [rare_behaviour.METHODS[labels.index(label)] for label in (
        'GRPO on the mean', 'steered GRPO, intensity', 'steered the other way, intensity')]
    plain, steered, opposite = rare_behaviour.run(2, 1500, kept, (1e-3,))[''].values()
    self.assertEqual(plain['updates, eps 0.001'] + opposite['updates, eps 0.001'], [None] * 4)
    self.assertLess(max(steered['updates, eps 0.001']), 1500)

  def test_first_logits_of_the_rare_behaviour(self):
    probs = tabular.probs_of(rare_behaviour.first_logits(1e-2))[0]
    np.testing.assert_allclose(probs[[6, 7, 18, 19]].sum(), 1e-2, rtol=1e-4)
    self.assertEqual((rare_behaviour.RIGHT & rare_behaviour.BEHAVIOUR).sum(), 2)

  def test_rates_of_the_two_rewards(self):
    np.testing.assert_allclose(two_rewards.REWARDS.mean(axis=0), [.9, .05])
    self.assertEqual((two_rewards.REWARDS.min(axis=1) == 1).sum(), 1)
    self.assertEqual(two_rewards.CONDITIONAL[:, 0].sum(), 1)

  def test_gdpo_finds_both_rewards_sooner_than_grpo(self):
    methods = [method for method in two_rewards.METHODS if method[0].label in ('GRPO', 'GDPO')]
    grpo, gdpo = two_rewards.run(2, 400, methods)[''].values()
    self.assertLess(max(gdpo['updates']), min(grpo['updates']))

  def test_no_gain_where_all_components_say_the_same(self):
    rows = collinearity.run(2, 200, chosen(collinearity.METHODS, 'set-max, 4 slots', 'VPO, 4 slots'))['']
    gain = lambda c: np.subtract(rows['VPO, 4 slots'][f'best@4, c {c}'], rows['set-max, 4 slots'][f'best@4, c {c}'])
    np.testing.assert_allclose(gain(1), 0, atol=2e-3)  # The same draws and the same ranks, but for rounding.
    self.assertGreater(gain(0).min(), .01)

  def test_subsets_know_what_hidden_users_want_and_max_at_k_does_not(self):
    methods, reward, problems = subsets.GROUPS[0]
    group = chosen(methods, 'Max@K, k 8', 'vpo_subsets, k 8'), reward, {'unequal': problems['unequal']}
    rows = subsets.run(2, 400, (group,))['unequal']
    for seed in range(2):
      self.assertGreater(rows['vpo_subsets, k 8']['Dir(.3) @16'][seed], rows['Max@K, k 8']['Dir(.3) @16'][seed] + .02)
      self.assertLess(rows['vpo_subsets, k 8']['Dir(1) @1'][seed], rows['Max@K, k 8']['Dir(1) @1'][seed])

  def test_volume_of_a_set(self):
    rewards, clusters = np.array([1., 1., .5, 1.]), np.array([0, 0, 1, 2])
    vectors = np.eye(3)[clusters[:3]] * rewards[:3, None]  # The last one is junk.
    actual = hidden_context.log_volume(jnp.array(rewards), jnp.array(clusters), jnp.array(clusters == 2))
    np.testing.assert_allclose(actual, np.linalg.slogdet(np.eye(3) + vectors @ vectors.T)[1], rtol=1e-6)
    np.testing.assert_allclose(actual, np.log(3) + np.log(1.25), rtol=1e-6)

  def test_the_judge_errs_on_the_poor_answers_only(self):
    ids = jnp.arange(8).reshape(1, 8, 1)
    table = jnp.asarray(subsets.judged(None), jnp.float32)
    errors = np.abs(subsets.judge(jax.random.key(0), ids, table) - table[ids])[0, :, 0].max(axis=-1)
    np.testing.assert_array_equal(errors > 0, np.arange(8) >= 4)

  def test_one_weighting_drawn_anew_is_max_at_k_under_it(self):
    rewards, key = jax.random.uniform(jax.random.key(1), (1, 8, 1, 3)), jax.random.key(2)
    weights = simplex_weights(jax.random.fold_in(key, 0), 1, 3)
    one = compute('vpo_subsets', rewards, key, k=3, num_weights=1).values
    scored = compute('max_at_k', rewards, k=3, scalar_weights=weights[0], ddof=0).values
    np.testing.assert_allclose(one, scored, atol=5e-3)  # The former adds 1e-4 to the deviation, the latter 1e-6.


class PageTest(absltest.TestCase):

  def test_cells(self):
    self.assertEqual(lab.cell([.5, .7]), '0.600 ± 0.141')
    self.assertEqual(lab.cell([100., 200., None]), '150 ± 71; 1 of 3 never')
    self.assertEqual(lab.cell([None, None]), 'never')

  def test_differences_are_paired(self):
    rows = {'a': {'x': [1., 2., 3.]}, 'b': {'x': [0., 1., 3.]}}
    line, = lab.differences(rows, (('a', 'b', 'x'), ('a', 'c', 'x'), ('a', 'b', 'y')))
    self.assertIn('+0.6667 ± 0.3333', line)
    self.assertIn('larger in 2 of 3 seeds', line)

  def test_the_committed_page_is_made_from_the_committed_results(self):
    results = json.loads((lab.FOLDER / 'results.json').read_text())
    self.assertEqual(list(results), list(lab.QUESTIONS))
    self.assertEqual((lab.FOLDER / 'RESULTS.md').read_text(), lab.page(results))
    for question, name in zip(QUESTIONS, lab.QUESTIONS, strict=True):
      labels = {label for rows in results[name]['tables'].values() for label in rows}
      measures = {m for rows in results[name]['tables'].values() for row in rows.values() for m in row}
      for one, other, measure in question.COMPARED:
        self.assertContainsSubset({one, other}, labels)
        self.assertIn(measure, measures)
