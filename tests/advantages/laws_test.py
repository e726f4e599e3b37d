"""What holds for every estimator."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vpo_jax import advantages

B, G, M, D = 2, 5, 3, 2
# Names with the settings under test; `exact` replaces the draws.
CASES = [(name, {}) for name in advantages.ESTIMATORS] + [
    ('vpo', {'weight_sampler': 'exact'}), ('diversity_bonus', {'bonus': 'variance'}), ('gdpo', {'whiten': 'none'}),
    ('multi_rlvr', {'score': 'max_sum'}), ('multi_rlvr', {'score': 'set_coverage'}), ('poly_epo', {'aggregate': 'sum'})]
IDS = ['-'.join([name, *settings.values()]) for name, settings in CASES]
every_estimator = pytest.mark.parametrize('name, settings', CASES, ids=IDS)
property_test = hypothesis.settings(deadline=None, max_examples=10)
seeds = st.integers(0, 2**31 - 1)


@functools.cache
def jitted(name, settings):
  """One compilation an estimator: all arguments that it names are arrays, always given."""

  @jax.jit
  def compute(rewards, key, arrays):
    known = advantages.settings_of(name)
    return advantages.compute(name, rewards, key, **{k: v for k, v in arrays.items() if k in known}, **dict(settings))

  return compute


def values_of(name, settings, rewards, key=None, **arrays):
  arrays = {
      'rollout_mask': np.ones((B, G), bool),
      'answer_mask': np.ones((B, G, M), bool),
      'component_mask': np.ones((B, D), bool),
      'prompt_ids': np.arange(B, dtype=np.int32),
      'answer_ids': np.broadcast_to(np.arange(M, dtype=np.int32), (B, G, M)),
      'clusters': np.zeros((B, G), np.int32),  # All alike: tied rewards of unlike clusters are no tie.
      'lengths': np.ones((B, G), np.int32),
  } | arrays
  key = jax.random.key(0) if key is None else key
  return jitted(name, tuple(settings.items()))(np.asarray(rewards, np.float32), key, arrays)


def drawn(seed):
  """Rewards in fifths, so that ties are common, with masks."""
  rng = np.random.default_rng(seed)
  rewards = rng.integers(0, 6, (B, G, M, D)) / 5
  arrays = {
      'rollout_mask': rng.random((B, G)) < .8,
      'answer_mask': rng.random((B, G, M)) < .7,
      'answer_ids': rng.integers(0, 2, (B, G, M)).astype(np.int32),
      'clusters': rng.integers(0, 3, (B, G)).astype(np.int32),
      'lengths': rng.integers(1, 9, (B, G)).astype(np.int32),
      'prompt_ids': rng.integers(0, 100, B).astype(np.int32),
  }
  return rng, rewards, arrays


@every_estimator
@property_test
@hypothesis.given(seed=seeds)
def test_permuting_rollouts_permutes_values(name, settings, seed):
  rng, rewards, arrays = drawn(seed)
  order = rng.permutation(G)
  expected = values_of(name, settings, rewards, **arrays).values[:, order]
  moved = {k: v[:, order] if k != 'prompt_ids' else v for k, v in arrays.items()}
  np.testing.assert_allclose(values_of(name, settings, rewards[:, order], **moved).values, expected, atol=1e-5)


@every_estimator
@property_test
@hypothesis.given(seed=seeds)
def test_permuting_answers_changes_nothing(name, settings, seed):
  rng, rewards, arrays = drawn(seed)
  order = rng.permuted(np.tile(np.arange(M), (B, G, 1)), axis=-1)
  moved = {k: np.take_along_axis(v, order, 2) if v.ndim == 3 else v for k, v in arrays.items()}
  actual = values_of(name, settings, np.take_along_axis(rewards, order[..., None], 2), **moved)
  np.testing.assert_allclose(actual.values, values_of(name, settings, rewards, **arrays).values, atol=1e-5)


@every_estimator
@property_test
@hypothesis.given(seed=seeds)
def test_permuting_prompts_with_their_ids_permutes_values(name, settings, seed):
  _, rewards, arrays = drawn(seed)
  actual = values_of(name, settings, rewards[::-1], **{k: v[::-1] for k, v in arrays.items()})
  np.testing.assert_allclose(actual.values[::-1], values_of(name, settings, rewards, **arrays).values, atol=1e-5)


@pytest.mark.parametrize('name', sorted({*advantages.ESTIMATORS} - {'random_weights', 'vpo_subsets'}))
@property_test
@hypothesis.given(seed=seeds)
def test_permuting_components_changes_nothing_without_draws(name, seed):
  settings = {'weight_sampler': 'exact'} if name == 'vpo' else {}
  _, rewards, arrays = drawn(seed)
  actual = values_of(name, settings, rewards[..., ::-1], **arrays).values
  np.testing.assert_allclose(actual, values_of(name, settings, rewards, **arrays).values, atol=2e-5)


@every_estimator
@property_test
@hypothesis.given(seed=seeds, scale=st.sampled_from([.1, .7, 1., 35., -1.]))
def test_tied_groups_get_exact_zeros(name, settings, seed, scale):
  rng = np.random.default_rng(seed)
  rewards = np.broadcast_to(rng.random((B, 1, M, D)) * scale, (B, G, M, D))
  rewards = rng.permuted(rewards, axis=1)  # A no-op on tied rollouts; copies, so that rows stand on their own.
  values, metrics = values_of(name, settings, rewards)
  np.testing.assert_array_equal(values, 0)
  assert metrics['flat_groups'] == 1


@every_estimator
@property_test
@hypothesis.given(seed=seeds)
def test_padding_is_absent(name, settings, seed):
  rng, rewards, arrays = drawn(seed)
  rollout_mask = arrays['rollout_mask']
  values, metrics = values_of(name, settings, rewards, **arrays)
  rewards[~rollout_mask] = rng.choice([np.nan, np.inf, 7.])
  again, metrics_again = values_of(name, settings, rewards, **arrays)
  np.testing.assert_array_equal(values[~rollout_mask], 0)
  np.testing.assert_array_equal(again, values)
  assert {k: float(v) for k, v in metrics.items()} == {k: float(v) for k, v in metrics_again.items()}


@every_estimator
@property_test
@hypothesis.given(seed=seeds)
def test_broken_entries_are_answers_not_given(name, settings, seed):
  rng, rewards, arrays = drawn(seed)
  answer_mask = arrays['answer_mask'] & arrays['rollout_mask'][..., None]
  broken = rng.random((B, G, M)) < .3
  expected = values_of(name, settings, rewards, **arrays | {'answer_mask': answer_mask & ~broken})
  rewards[broken, 1] = rng.choice([np.nan, np.inf, -np.inf])
  actual = values_of(name, settings, rewards, **arrays)
  np.testing.assert_array_equal(actual.values, expected.values)
  assert np.isfinite(actual.values).all()
  assert actual.metrics['invalid_entries'] == (broken & answer_mask).sum()


@every_estimator
def test_an_empty_rollout_scores_as_one_zero_vector(name, settings):
  _, rewards, _ = drawn(3)
  rewards += .2
  nothing = np.ones((B, G, M), bool)
  nothing[:, 0] = False
  actual, metrics = values_of(name, settings, rewards, answer_mask=nothing)
  one = nothing.copy()
  one[:, 0, 1] = True
  rewards[:, 0] = 0
  np.testing.assert_allclose(actual, values_of(name, settings, rewards, answer_mask=one).values, atol=1e-6)
  np.testing.assert_allclose(metrics['empty_rollouts'], 1 / G)


@every_estimator
def test_one_live_rollout_or_none_gets_zero(name, settings):
  _, rewards, _ = drawn(0)
  mask = np.zeros((B, G), bool)
  mask[0, 2] = True
  values, metrics = values_of(name, settings, rewards, rollout_mask=mask)
  np.testing.assert_array_equal(values, 0)
  assert all(np.isfinite(v) for v in metrics.values())
  np.testing.assert_array_equal(values_of(name, settings, rewards, rollout_mask=mask & False).values, 0)
  estimator = jax.jit(functools.partial(advantages.ESTIMATORS[name], **settings))
  np.testing.assert_array_equal(estimator(rewards[:, :1], jax.random.key(0)).values, 0)


@every_estimator
def test_an_absent_component_is_not_looked_at(name, settings):
  _, rewards, _ = drawn(1)
  component_mask = np.array([[True, False], [True, True]])
  values, metrics = values_of(name, settings, rewards, component_mask=component_mask)
  rewards[0, ..., 1] = np.nan
  again, _ = values_of(name, settings, rewards, component_mask=component_mask)
  np.testing.assert_array_equal(again, values)
  assert metrics['invalid_entries'] == 0
  # What is left of the first prompt is one component: the weight on it is 1, whatever was drawn.
  same, _ = values_of(name, settings, rewards, key=jax.random.key(7), component_mask=component_mask)
  np.testing.assert_allclose(same[0], values[0], atol=1e-5)


@every_estimator
def test_shape_dtype_and_no_gradient(name, settings):
  _, rewards, _ = drawn(2)
  for dtype in (jnp.bfloat16, jnp.float32):
    values, metrics = values_of(name, settings, jnp.asarray(rewards, dtype))
    assert values.shape == (B, G) and values.dtype == jnp.float32
    assert np.isfinite(values).all() and all(v.shape == () for v in metrics.values())
  grad = jax.grad(lambda r: jnp.square(jitted(name, tuple(settings.items()))(r, jax.random.key(0), {}).values).sum())
  np.testing.assert_array_equal(grad(jnp.asarray(rewards, jnp.float32)), 0)


@every_estimator
def test_plain_calls_jit_vmap_and_four_devices_agree(name, settings):
  known = advantages.settings_of(name)
  if 'normalize' in known:  # The deviation would magnify rounding.
    settings = settings | {'normalize': 'none'}
  groups = [drawn(seed)[1:] for seed in range(4)]  # Four batches of two prompts, or one of eight.
  rewards = np.stack([rewards for rewards, _ in groups]).astype(np.float32)
  arrays = {k: np.stack([arrays[k] for _, arrays in groups]) for k in groups[0][1] if k in known}

  def values(rewards, arrays):
    return advantages.compute(name, rewards, jax.random.key(0), **arrays, **settings).values

  plain = [values(rewards[i], {k: v[i] for k, v in arrays.items()}) for i in range(4)]
  np.testing.assert_allclose(jax.jit(jax.vmap(values))(rewards, arrays), plain, atol=1e-6)
  together = jax.tree.map(lambda x: x.reshape(4 * B, *x.shape[2:]), (rewards, arrays))
  expected = jax.jit(values)(*together)
  mesh = jax.make_mesh((4,), ('data',), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
  by_prompt = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))
  sharded = jax.jit(values)(*jax.device_put(together, by_prompt))
  assert len(sharded.sharding.device_set) == 4
  np.testing.assert_allclose(sharded, expected, atol=1e-6)
  if settings.get('whiten', 'none') == 'none' and name != 'gdpo':  # Whitening is over the batch.
    np.testing.assert_allclose(expected.reshape(4, B, G), plain, atol=1e-6)


@every_estimator
def test_products_state_full_precision(name, settings):
  _, rewards, _ = drawn(0)
  jaxpr = jax.make_jaxpr(lambda r, key: advantages.compute(name, r, key, **settings))(rewards, jax.random.key(0))
  precisions = [eqn.params['precision'] for eqn in equations(jaxpr.jaxpr) if eqn.primitive.name == 'dot_general']
  highest = jax.lax.Precision.HIGHEST
  assert all(p in (highest, (highest, highest)) for p in precisions)
  assert precisions or name != 'grpo'  # Products are found where there are some.


def equations(jaxpr):
  for eqn in jaxpr.eqns:
    yield eqn
    for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, 'eqns')):
      if hasattr(inner, 'eqns'):  # A closed jaxpr has them too.
        yield from equations(inner)
