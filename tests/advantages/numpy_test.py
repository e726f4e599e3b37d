"""Kernels for code without JAX: the same values whatever the arrays are, one program for all steps, NumPy out."""

import jax
import ml_dtypes
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages import numpy as border
from vpo_jax.advantages.numpy import compute

# One prompt, two rollouts of two answers, two components: the mean scalars are 1 and 0.
REWARDS = [[[[1, 1], [1, 1]], [[0, 0], [0, 0]]]]
HALF = .5 / np.sqrt(.5)  # Their deviations ±1/2 over the sample deviation √(1/2).


class Foreign:
  """An array of another library: nothing to it but DLPack."""

  def __init__(self, values, device=None):
    self._values, self._device = np.asarray(values), device
    self.ndim = self._values.ndim

  def __dlpack__(self, **keywords):
    return self._values.__dlpack__(**({} if self._device else keywords))

  def __dlpack_device__(self):
    return self._device or self._values.__dlpack_device__()


def spaced(values):
  """The same values with gaps between the entries, read from the end."""
  return np.repeat(np.asarray(values, float), 2, axis=1)[:, ::-2][:, ::-1]


def programs(name, **settings):
  return border._compiled(name, advantages.ESTIMATORS[name], **settings)._cache_size()


@pytest.mark.parametrize('rewards', [
    REWARDS, np.array(REWARDS), np.array(REWARDS, float), np.array(REWARDS, np.float16), spaced(REWARDS),
    np.array(REWARDS, ml_dtypes.bfloat16), np.array(REWARDS, bool), Foreign(np.array(REWARDS, float)),
    Foreign(np.array(REWARDS, np.uint8)), Foreign(np.array(REWARDS, bool)), np.broadcast_to(REWARDS, (1, 2, 2, 2))])
def test_values_do_not_depend_on_what_holds_the_rewards(rewards):
  values, _ = compute('grpo', rewards)
  np.testing.assert_allclose(values, [[HALF, -HALF]], rtol=1e-5)


def test_nothing_of_jax_comes_out():
  values, metrics = compute('grpo', REWARDS)
  assert type(values) is np.ndarray and values.dtype == np.float32 and values.flags.writeable
  assert {type(x) for x in metrics.values()} == {float}
  assert metrics['group_size'] == 2 and metrics['invalid_entries'] == 0


def test_64_bits_stay_where_jax_has_them():
  halves = lambda: compute('grpo', [[[[1 / 3]], [[0.]]]], normalize='none').values
  assert halves().dtype == np.float32
  with jax.enable_x64(True):
    np.testing.assert_allclose(halves(), [[1 / 6, -1 / 6]], rtol=1e-15)


@pytest.mark.parametrize('kind', [list, np.array, Foreign])
def test_masks_and_ids_reach_the_kernel(kind):
  rewards = np.array([[[[2.], [2.]], [[1.], [1.]], [[9.], [9.]]]])
  values, _ = compute(
      'multi_rlvr', rewards, rollout_mask=kind([[True, True, False]]), normalize='none',
      answer_mask=kind([[[True, True], [True, False], [True, True]]]),
      answer_ids=kind([[[7, 7], [1, 2], [1, 2]]]))
  np.testing.assert_allclose(values, [[.5, -.5, 0]], atol=1e-6)  # Sums: one of the copies, 2; the one given, 1.


@pytest.mark.parametrize('kind', [np.array, Foreign])
def test_integers_are_32_bits_inside(kind):
  ids = border._array('answer_ids', kind([-2**31, 2**31 - 1]))
  assert ids.dtype == np.int32 and ids.tolist() == [-2**31, 2**31 - 1]


def test_draws_are_those_of_seed_and_step():
  rewards = np.random.default_rng(0).random((2, 3, 2, 2), np.float32)
  settings = dict(num_weights=2)
  draw = lambda **keywords: compute('vpo', rewards, **keywords, **settings).values
  key = jax.random.fold_in(jax.random.key(5), 7)
  expected = advantages.compute('vpo', rewards, key, **settings).values
  np.testing.assert_allclose(draw(seed=5, step=7), expected, rtol=1e-5)
  assert not np.allclose(draw(seed=5, step=8), expected, atol=1e-3)
  assert not np.allclose(draw(seed=2**32 - 1, step=7), expected, atol=1e-3)
  assert programs('vpo', **settings) == 1  # New steps and seeds compile nothing.


def test_new_arrays_of_the_same_shapes_compile_nothing():
  for weights in ([.5, .5], [.25, .75], np.array([1., 0.])):
    values, _ = compute('set_max', [[[[0., 1.]], [[1., 0.]]]], scalar_weights=weights, normalize='none')
    np.testing.assert_allclose(values, [[.5 - weights[0], weights[0] - .5]], atol=1e-6)
  assert programs('set_max', normalize='none') == 1


@pytest.mark.parametrize('name', advantages.ESTIMATORS)
def test_a_kernel_draws_from_a_seed_or_none(name):
  rewards = np.ones((1, 3, 1, 2), np.float32)
  credited = border._compiled(name, advantages.ESTIMATORS[name])
  shapes = lambda seed: credited.eval_shape(rewards, {}, seed, np.uint32(0)).values.shape  # Traces, compiles nothing.
  assert shapes(np.uint32(0)) == (1, 3)
  try:
    assert shapes(None) == (1, 3)
  except ValueError:
    with pytest.raises(ValueError, match=f'^seed=None must be a whole number: {name} draws'):
      compute(name, rewards)


def test_a_kernel_with_a_seed_of_its_own_gets_it():
  weighting = lambda seed: compute(
      'random_weights', [[[[1., 0.]], [[0., 1.]]]], seed=seed, redraw='never', prompt_ids=[3], normalize='none').values
  expected = advantages.compute(
      'random_weights', np.array([[[[1., 0.]], [[0., 1.]]]]), redraw='never', prompt_ids=np.array([3]),
      normalize='none', seed=11).values
  np.testing.assert_allclose(weighting(11), expected, atol=1e-6)
  assert not np.allclose(weighting(12), expected, atol=1e-3)


@pytest.mark.parametrize('name, keywords, rule', [
    ('gpro', {}, "name='gpro' is no estimator. Did you mean"),
    ('grpo', dict(ep=1e-4), "grpo has no setting 'ep'. Did you mean eps"),
    ('grpo', dict(clusters=[[1, 2]]), "grpo has no setting 'clusters'"),
    ('grpo', dict(eps=0.), 'eps=0.0 must be a positive number'),
    ('grpo', dict(ddof=np.float64(2)), 'ddof=2.0 must be 0'),
    ('grpo', dict(scalar_weights=[-1, 2]), r'scalar_weights=\[-1.0, 2.0\] must not be negative'),
    ('grpo', dict(scalar_weights=np.ones(2)), r'scalar_weights=\[1.0, 1.0\] must not be negative and must sum to 1'),
    ('grpo', dict(scalar_weights=[1, 1, 1]), r'scalar_weights has shape \(3,\); it must be \(2,\)'),
    ('grpo', dict(rollout_mask=[[True]]), r'rollout_mask has shape \(1, 1\); it must be \(1, 2\)'),
    ('grpo', dict(rollout_mask=np.array([['yes', 'no']])), 'rollout_mask has dtype <U3; it must hold real numbers'),
    ('multi_rlvr', dict(answer_ids=[[[0, 2**40], [0, 1]]]), r'answer_ids spans \[0, 1099511627776\]'),
    ('multi_rlvr', dict(answer_ids=[[[0, 2**31], [0, 1]]]), 'answer_ids spans'),
    ('multi_rlvr', dict(answer_ids=[[[0, -2**31 - 1], [0, 1]]]), 'answer_ids spans'),
    ('multi_rlvr', dict(answer_ids=np.array([[[0, 2**63], [0, 1]]], np.uint64)), 'integers must fit 32 bits'),
    ('multi_rlvr', dict(answer_ids=Foreign([[[0, -2**40], [0, 1]]])), 'answer_ids spans'),
    ('vpo', dict(seed=-1), r'seed=-1 must be a whole number in \[0, 2\^32\)'),
    ('vpo', dict(seed=2**32), 'seed=4294967296 must be a whole number'),
    ('vpo', dict(seed=0, step=.5), 'step=0.5 must be a whole number'),
    ('vpo', dict(seed=0, num_weights=0), 'num_weights=0 must be a whole number, at least 1'),
])
def test_faults_are_named_before_compilation(name, keywords, rule, monkeypatch):
  monkeypatch.setattr(jax.stages.Lowered, 'compile', None)
  with pytest.raises(ValueError, match=rule):
    compute(name, REWARDS, **keywords)


@pytest.mark.parametrize('rewards, rule', [
    ([[1., 2.]], r'rewards.shape=\(1, 2\) must be'), (np.ones((1, 1, 1, 1)), 'one rollout a prompt'),
    (np.ones((1, 2, 1, 1), complex), 'rewards has dtype complex128'), (None, 'rewards has dtype object'),
    (Foreign(np.ones((1, 2, 1, 1), '>f8')), 'rewards did not come through DLPack.*byte order'),
    (Foreign(np.ones((1, 2, 1, 1)), device=(2, 0)), 'rewards did not come through DLPack.*cpu')])  # 2: CUDA
def test_rewards_that_are_none_are_refused(rewards, rule):
  with pytest.raises(ValueError, match=rule):
    compute('grpo', rewards)


def test_another_kernel_under_the_same_name_is_not_the_old_one(monkeypatch):
  def doubled(rewards, key=None, **keywords):
    values, metrics = advantages.grpo.grpo(rewards, key, **keywords)
    return advantages.Advantages(2 * values, metrics)

  compute('grpo', REWARDS)
  monkeypatch.setitem(advantages.ESTIMATORS, 'grpo', doubled)
  np.testing.assert_allclose(compute('grpo', REWARDS).values, [[2 * HALF, -2 * HALF]], rtol=1e-5)


def test_equal_numbers_of_other_types_are_other_settings():
  assert border._compiled('pkpo', advantages.ESTIMATORS['pkpo'], k=1) is not (
      border._compiled('pkpo', advantages.ESTIMATORS['pkpo'], k=1.))


@pytest.mark.parametrize('case', ['plain', 'spaced', 'transposed', 'offset', 'gradient', 'double', 'bfloat16', 'int'])
def test_torch_tensors_come_in(case):
  torch = pytest.importorskip('torch', reason='needs torch: pip install torch==2.13.0')
  rewards = torch.tensor(REWARDS, dtype=torch.float32)
  rewards = {
      'plain': lambda: rewards,
      'spaced': lambda: torch.repeat_interleave(rewards, 2, dim=2)[:, :, ::2],
      'transposed': lambda: rewards.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
      'offset': lambda: torch.cat([torch.zeros(1, 2, 2, 2), rewards])[1:],
      'gradient': lambda: rewards.clone().requires_grad_() * 1,
      'double': rewards.double, 'bfloat16': rewards.bfloat16, 'int': rewards.long}[case]()
  values, _ = compute(
      'multi_rlvr', rewards, rollout_mask=torch.ones(1, 2, dtype=torch.bool), eps=torch.tensor(1e-6),
      answer_mask=torch.tensor([[[True, True], [False, True]]]), answer_ids=torch.tensor([[[0, 1], [0, 1]]]))
  np.testing.assert_allclose(values, [[HALF, -HALF]], rtol=1e-5)
  assert torch.from_numpy(values).shape == (1, 2)
  assert rewards.requires_grad == (case == 'gradient')
