import dataclasses

import numpy as np
import pytest

from vpo_jax.evaluation.pool import Pool


def example_pool(**changes):
  """Two problems, two rollouts of two answers, listed out of order; the last answer of rollout 1 is missing."""
  fields = dict(
      rewards=np.array([[[1, .5], [1, 1.], [0, 0], [0, 0]], [[1, .2], [1, .4], [1, .6], [0, 0]]], np.float32),
      answer_mask=np.array([[True, True, True, False]] * 2),
      rollout=np.array([[0, 0, 1, 1], [0, 0, 1, 1]], np.int32),
      position=np.array([[1, 0, 0, 1], [0, 1, 0, 1]], np.int32),
      oracle=np.array([1., .8], np.float32), generated_tokens=17, components=('completion', 'gold'),
      scalar_weights=np.array([.5, .5], np.float32))
  return Pool(**fields | changes)


def test_scores_success_and_arrangement_by_rollout():
  pool = example_pool()
  assert (pool.num_rollouts, pool.answers_per_rollout) == (2, 2)
  np.testing.assert_allclose(pool.scores, [[.75, 1, 0, 0], [.6, .7, .8, 0]], rtol=1e-6)
  np.testing.assert_array_equal(pool.success, [[True, True, False, False], [True, True, True, False]])
  # Problem 0 lists position 1 of rollout 0 first.
  np.testing.assert_allclose(pool.by_rollout(pool.scores), [[[1, .75], [0, 0]], [[.6, .7], [.8, 0]]], rtol=1e-6)
  assert pool.by_rollout(pool.rewards).shape == (2, 2, 2, 2)


def test_a_missing_component_is_no_factor_in_scores_and_success():
  # Problem 0 has no gold, problem 1 no completion; answers succeed that have all there is.
  rewards = np.array([[[1, 0], [0, 0], [1, 0], [0, 0]], [[0, .2], [0, .4], [0, 0], [0, 0]]], np.float32)
  pool = example_pool(rewards=rewards, component_mask=np.array([[True, False], [False, True]]),
                      success_components=('completion', 'gold'))
  np.testing.assert_allclose(pool.scores, [[1, 0, 1, 0], [.2, .4, 0, 0]], rtol=1e-6)
  np.testing.assert_array_equal(pool.success, [[True, False, True, False], [True, True, False, False]])


def test_file_of_a_pool_without_component_mask_is_read_as_complete(tmp_path):
  pool = example_pool()
  optional = ('component_mask', 'success_components')
  np.savez(tmp_path / '1.npz', **{f.name: np.asarray(getattr(pool, f.name)) for f in dataclasses.fields(Pool)
                                  if f.name not in optional})
  loaded = Pool.load(tmp_path / '1.npz')
  assert loaded.component_mask.all() and loaded.success_components == ('completion',)


def test_file_gives_back_every_field(tmp_path):
  pool = example_pool()
  pool.save(tmp_path / 'eval' / '20.npz')
  loaded = Pool.load(tmp_path / 'eval' / '20.npz')
  for field in dataclasses.fields(Pool):
    before, after = getattr(pool, field.name), getattr(loaded, field.name)
    np.testing.assert_array_equal(after, before)
    assert type(after) is type(before)


def test_file_without_an_array_is_refused(tmp_path):
  np.savez(tmp_path / '1.npz', rewards=np.zeros((1, 1, 1)))
  with pytest.raises(ValueError, match=r"1\.npz must hold .*missing=\['answer_mask'"):
    Pool.load(tmp_path / '1.npz')


@pytest.mark.parametrize('changes, message', [
    (dict(rewards=np.zeros((2, 4), np.float32)), r'rewards.shape=\(2, 4\) must be \[problems'),
    (dict(oracle=np.ones(3, np.float32)), r'oracle.shape=\(3,\) must be \(2,\)'),
    (dict(components=('gold',)), 'must name the 2 components'),
    (dict(oracle=np.array([1, np.nan], np.float32)), 'oracle must be finite; problem 1 has nan'),
    (dict(answer_mask=np.zeros((2, 4), bool)), 'must be 0 where answer_mask is False'),
    (dict(component_mask=np.array([[True, False]] * 2)), 'must be 0 where component_mask is False'),
    (dict(component_mask=np.ones((2, 1), bool)), r'component_mask.shape=\(2, 1\) must be \(2, 2\)'),
    (dict(success_components=('silver',)), r"success_components=\('silver',\) must be among"),
    (dict(rewards=np.zeros((2, 4, 2), np.float32), component_mask=np.array([[True, True], [False, False]])),
     'problem 1 must have a component with a weight'),
    (dict(rollout=np.array([[0, 0, 1, 2]] * 2)), 'same number of answers'),
    (dict(rollout=np.array([[0, 0, 0, 1]] * 2)), 'one candidate at each position'),
    (dict(position=np.zeros((2, 4), np.int32)), 'one candidate at each position'),
])
def test_malformed_pools_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    example_pool(**changes)
