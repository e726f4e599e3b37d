"""The update against gradients taken of the model's own logits, in one piece, on one device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vpo_jax import learner as learner_lib
from vpo_jax import partition
from vpo_jax.learner import Batch, Learner, LossSettings
from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig

CONFIG = ModelConfig(vocab_size=12, d_model=8, num_layers=1, num_heads=4, num_kv_heads=2, head_dim=4, d_ff=16)
U, G, P, C = 8, 3, 4, 5


@functools.cache
def make_learner(num_devices=1, *, fsdp=1, tensor=1, micro_batches=1, updates_per_batch=1, kl_coef=0.0,
                 aggregation='token-mean', learning_rate=0.02):
  # `trace` without decay keeps the gradient itself in the state, where a test can read it.
  optimizer = optax.chain(optax.trace(decay=0.0), optax.sgd(learning_rate))
  loss = LossSettings(clip_low=0.2, clip_high=0.3, dual_clip=3.0, kl_coef=kl_coef, kl_kind='low_var_kl',
                      aggregation=aggregation)
  mesh = partition.make_mesh(fsdp=fsdp, tensor=tensor, devices=jax.devices()[:num_devices])
  return Learner(CONFIG, optimizer, loss, mesh, micro_batches=micro_batches, updates_per_batch=updates_per_batch)


@functools.cache
def some_params():
  return jax.device_get(make_learner().init(0).params)


def random_batch(seed=0, u=U, g=G):
  rng = np.random.default_rng(seed)
  return Batch(
      prompts=rng.integers(CONFIG.vocab_size, size=(u, P)).astype(np.int32),
      prompt_lengths=rng.integers(1, P + 1, size=u).astype(np.int32),
      tokens=rng.integers(CONFIG.vocab_size, size=(u, g, C)).astype(np.int32),
      lengths=rng.integers(1, C + 1, size=(u, g)).astype(np.int32),
      advantages=rng.standard_normal((u, g)).astype(np.float32))


def rows(batch, index):
  return jax.tree.map(lambda x: x[index], batch)


def updated(learner, batch, params=None, reference=None, temperature=1.0):
  """State and metrics after one update from `params`."""
  state = learner.start(some_params() if params is None else params)
  return learner.update(state, reference, partition.to_mesh(learner.pad(batch), learner.mesh), temperature)


def gradient(learner, batch, **keywords):
  return jax.device_get(updated(learner, batch, **keywords)[0].opt_state[0].trace)


def row_logprobs(params, batch, temperature=1.0):
  """`[U, G, C]` log-probs by the plain model on whole rows, and their mask: an independent road."""
  tokens = np.zeros((*batch.tokens.shape[:2], P + C), np.int32)
  for u, length in enumerate(batch.prompt_lengths):
    tokens[u, :, :length] = batch.prompts[u, :length]
    tokens[u, :, length : length + C] = batch.tokens[u]
  logits = transformer.logits(params, CONFIG, tokens.reshape(-1, P + C)).reshape(*tokens.shape, -1)
  at = batch.prompt_lengths[:, None, None] - 1 + np.arange(C)  # Position t scores token t + 1.
  logits = jnp.take_along_axis(logits, jnp.broadcast_to(at, batch.tokens.shape)[..., None], axis=2)
  logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits / temperature), batch.tokens[..., None], axis=-1)[..., 0]
  return logprobs, np.arange(C) < batch.lengths[..., None]


def assert_close(actual, expected, tolerance):
  """Every leaf agrees to `tolerance` of the largest entry of the whole tree."""
  scale = max(np.abs(x).max() for x in jax.tree.leaves(expected))
  assert scale > 0
  jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * scale), actual, expected)


@pytest.mark.parametrize('temperature', [0.6, 1.0, 1.3])
def test_gradient_at_ratio_one_is_the_policy_gradient(temperature):
  batch = random_batch()

  def objective(params, temperature):
    logprobs, mask = row_logprobs(params, batch, temperature)
    return -(mask * batch.advantages[..., None] * logprobs).sum() / mask.sum()

  expected = jax.device_get(jax.jit(jax.grad(objective))(some_params(), temperature))
  assert_close(gradient(make_learner(), batch, temperature=temperature), expected, 1e-5)


def test_demonstrations_get_the_gradient_of_their_likelihood():
  batch = random_batch().replace(advantages=np.ones((U, G), np.float32))
  learner = make_learner(aggregation='seq-mean-token-mean')

  def mean_logprob(params):
    logprobs, mask = row_logprobs(params, batch)
    return ((mask * logprobs).sum(-1) / mask.sum(-1)).mean()

  expected = jax.device_get(jax.jit(jax.grad(lambda params: -mean_logprob(params)))(some_params()))
  assert_close(gradient(learner, batch), expected, 1e-5)


@pytest.mark.parametrize('layout', [
    dict(micro_batches=4), dict(num_devices=2, micro_batches=2), dict(num_devices=4, fsdp=2),
    dict(num_devices=8, fsdp=2, tensor=2, micro_batches=2), dict(num_devices=8, tensor=4)], ids=str)
def test_layout_does_not_change_the_update(layout):
  batch = random_batch()
  state, metrics = updated(make_learner(**layout), batch)
  expected_state, expected_metrics = jax.device_get(updated(make_learner(), batch))
  assert_close(jax.device_get(state.opt_state[0].trace), expected_state.opt_state[0].trace, 1e-5)
  assert_close(jax.device_get(state.params), expected_state.params, 1e-5)
  for name, value in jax.device_get(metrics).items():
    np.testing.assert_allclose(value, expected_metrics[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_filler_changes_nothing():
  batch = rows(random_batch(), slice(6))
  learner = make_learner(4, fsdp=2)
  padded = learner.pad(batch)
  assert padded.prompts.shape == (8, P) and not padded.lengths[6:].any()
  assert batch.lengths.all()
  poisoned = padded.replace(advantages=np.where(padded.lengths > 0, padded.advantages, np.nan))
  expected_state, expected = jax.device_get(updated(make_learner(), batch))
  for filled in (padded, poisoned):
    state, metrics = jax.device_get(updated(learner, filled))
    assert_close(state.opt_state[0].trace, expected_state.opt_state[0].trace, 1e-5)
    for name in expected:
      np.testing.assert_allclose(metrics[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
  assert expected['tokens'] == batch.lengths.sum()


@pytest.mark.parametrize('other', [1, 4])
def test_tokens_are_counted_over_the_whole_batch(other):
  batch = random_batch()
  lengths, advantages = np.zeros((U, G), np.int32), np.zeros((U, G), np.float32)
  lengths[0, 0], advantages[0, 0] = 1, -1
  lengths[other, :2] = 5, 4  # In another micro-batch (prompt 1), or on the other device (prompt 4).
  _, metrics = updated(
      make_learner(2, micro_batches=2), batch.replace(lengths=lengths, advantages=advantages))
  # One token of loss 1 among ten; a mean of means would be 1/2 or 1/4.
  np.testing.assert_allclose(metrics['loss'], 0.1, rtol=1e-6)


def test_sequences_weigh_alike_where_asked():
  batch = random_batch()
  lengths, advantages = np.zeros((U, G), np.int32), np.zeros((U, G), np.float32)
  lengths[0, 0], advantages[0, 0], lengths[1, 1] = 1, -1, 5
  _, metrics = updated(
      make_learner(aggregation='seq-mean-token-mean'), batch.replace(lengths=lengths, advantages=advantages))
  np.testing.assert_allclose(metrics['loss'], 0.5, rtol=1e-6)


def test_second_update_is_held_against_the_policy_before_the_first():
  batch = random_batch()
  once, twice = make_learner(), make_learner(updates_per_batch=2)
  state = twice.start(some_params())
  state, metrics = twice.learn(state, None, partition.to_mesh(batch, twice.mesh), 1.0)
  old, mask = jax.device_get(row_logprobs(some_params(), batch))
  batch = batch.replace(old_logprobs=np.where(mask, old, 0))
  expected, first = once.update(once.start(some_params()), None, rows(batch, slice(0, None, 2)), 1.0)
  expected, second = once.update(expected, None, rows(batch, slice(1, None, 2)), 1.0)
  np.testing.assert_allclose(first['ratio'], 1, rtol=1e-5)
  assert abs(second['ratio'] - 1) > 1e-3
  np.testing.assert_allclose(metrics['ratio'], second['ratio'], rtol=1e-5)
  assert_close(jax.device_get(state.params), jax.device_get(expected.params), 1e-5)
  assert state.step == 2 and metrics['finite']


def test_a_broken_second_update_is_reported_even_if_followed_by_a_good_one():
  batch = random_batch()
  batch.advantages[0] = np.nan  # In the first update's share.
  twice = make_learner(updates_per_batch=2)
  state, metrics = twice.learn(twice.start(some_params()), None, partition.to_mesh(batch, twice.mesh), 1.0)
  assert not metrics['finite'] and np.isfinite(metrics['loss']) and state.step == 1


@pytest.mark.parametrize('temperature', [0.6, 1.0, 1.3])
def test_temperature_is_in_every_logprob(temperature):
  batch, learner = random_batch(), make_learner()
  old = learner.logprobs(some_params(), batch, temperature)
  expected, mask = row_logprobs(some_params(), batch, temperature)
  np.testing.assert_allclose(old, np.where(mask, expected, 0), atol=1e-5)
  reference = make_learner(kl_coef=0.01).start(some_params()).params
  _, metrics = updated(
      make_learner(kl_coef=0.01), batch.replace(old_logprobs=old), reference=reference, temperature=temperature)
  np.testing.assert_allclose(metrics['ratio'], 1, rtol=1e-5)
  np.testing.assert_allclose(metrics['kl_reference'], 0, atol=1e-9)


@pytest.mark.parametrize('ratio,advantage,loss,metric', [
    (2.0, 1.0, -1.3, 'clip_fraction'), (0.5, -1.0, 0.8, 'clip_fraction'), (5.0, -1.0, 3.0, 'dual_clip_fraction')])
def test_each_clip_bounds_its_side(ratio, advantage, loss, metric):
  learner, batch = make_learner(kl_coef=0.01), random_batch()
  old = learner.logprobs(some_params(), batch, 1.0) - np.log(ratio)
  batch = batch.replace(old_logprobs=old, advantages=np.full((U, G), advantage, np.float32))
  state, metrics = updated(learner, batch, reference=learner.start(some_params()).params)
  np.testing.assert_allclose(metrics['loss'], loss, rtol=1e-5)
  assert metrics[metric] == 1
  for gradient in jax.tree.leaves(jax.device_get(state.opt_state[0].trace)):
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_entropy_is_that_of_the_tempered_policy():
  batch = random_batch()
  flat = some_params() | {'embedding': np.zeros_like(some_params()['embedding'])}
  np.testing.assert_allclose(updated(make_learner(), batch, params=flat)[1]['entropy'], np.log(12), rtol=1e-6)


def test_reference_outlives_donated_updates_and_holds_the_policy_back():
  batch = random_batch()
  batch = batch.replace(old_logprobs=make_learner().logprobs(some_params(), batch, 1.0))
  final = {}
  for kl_coef in (0.01, 3.0):
    learner = make_learner(kl_coef=kl_coef)
    params = learner.init(0).params
    reference, state = learner.start(params).params, learner.start(params)
    del params
    kls = []
    for _ in range(8):
      state, metrics = learner.update(state, reference, batch, 1.0)
      kls.append(float(metrics['kl_reference']))
    assert kls[0] == 0 and min(kls[1:]) > 0
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(reference), some_params())
    final[kl_coef] = kls[-1]
  assert final[3.0] < 0.7 * final[0.01]


def test_start_copies():
  learner = make_learner()
  params = learner.init(0).params
  state, other = learner.start(params), learner.start(params)
  learner.update(state, None, partition.to_mesh(random_batch(), learner.mesh), 1.0)
  for tree in (params, other.params):
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(tree), some_params())


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_an_update_that_is_not_finite_is_not_made(bad):
  batch = random_batch()
  batch.advantages[1, 2] = bad
  state, metrics = updated(make_learner(), batch)
  assert not metrics['finite']
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(state.params), some_params())
  assert state.step == 0
  assert updated(make_learner(), random_batch())[1]['finite']


def test_chunks_of_the_head_change_neither_value_nor_gradient(monkeypatch):
  rng = np.random.default_rng(0)
  hidden = rng.standard_normal((U, G, C, CONFIG.d_model)).astype(np.float32)
  tokens = rng.integers(CONFIG.vocab_size, size=(U, G, C)).astype(np.int32)
  weights = rng.standard_normal((U, G, C)).astype(np.float32)
  params = {'embedding': some_params()['embedding']}

  def scored(params, hidden):
    logprobs, entropy = learner_lib.token_logprobs(params, CONFIG, hidden, tokens, np.float32(0.7))
    return (weights * logprobs).sum(), (logprobs, entropy)

  compute = lambda: jax.jit(jax.value_and_grad(lambda *x: scored(*x), argnums=(0, 1), has_aux=True))(params, hidden)
  whole = jax.device_get(compute())
  monkeypatch.setattr(learner_lib, '_CHUNK_ELEMENTS', 2 * U * G * CONFIG.vocab_size)  # Two token indices: 2 + 2 + 1.
  assert 'scan' in str(jax.make_jaxpr(lambda *x: scored(*x))(params, hidden))
  jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5), jax.device_get(compute()), whole)


def test_devices_share_the_work_of_a_chunk(monkeypatch):
  monkeypatch.setattr(learner_lib, '_CHUNK_ELEMENTS', 1)  # Chunks of one token index.
  config = ModelConfig(vocab_size=512, d_model=8, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=4, d_ff=4)

  def flops(num_devices):
    mesh = partition.make_mesh(devices=jax.devices()[:num_devices])
    by_prompt, everywhere = partition.batch_sharding(mesh), jax.NamedSharding(mesh, jax.P())
    score = lambda embedding, hidden, tokens: learner_lib.token_logprobs(
        {'embedding': embedding}, config, hidden, tokens, jnp.float32(1))
    shapes = (512, 8), (U, G, C, 8), (U, G, C)
    args = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, 'ffi', strict=True)]
    compiled = jax.jit(score, in_shardings=(everywhere, by_prompt, by_prompt), out_shardings=by_prompt).lower(*args)
    return compiled.compile().cost_analysis()['flops']

  assert flops(4) < 0.3 * flops(1)


@pytest.mark.parametrize('field,value', [
    ('clip_low', -0.1), ('clip_low', 1.5), ('clip_high', -1.0), ('dual_clip', 1.0), ('kl_coef', float('nan')),
    ('kl_kind', 'k4'), ('aggregation', 'mean')])
def test_settings_out_of_range_are_named(field, value):
  fine = dict(clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=0.0, kl_kind='k3', aggregation='token-mean')
  LossSettings(**fine)
  with pytest.raises(ValueError, match=f'loss.{field}={value!r}'):
    LossSettings(**fine | {field: value})


@pytest.mark.parametrize('field,value', [
    ('learning_rate', 0.0), ('warmup_steps', -1), ('decay_steps', -1), ('b1', 1.0), ('b2', -0.1), ('eps', 0.0),
    ('weight_decay', -1.0), ('clip_norm', 0.0)])
def test_optimizer_out_of_range_is_named(field, value):
  fine = dict(learning_rate=1e-3, warmup_steps=1, decay_steps=2, b1=0.9, b2=0.9, eps=1e-8, weight_decay=0.0,
              clip_norm=1.0)
  learner_lib.adamw(**fine)
  with pytest.raises(ValueError, match=f'optimizer.{field}={value}'):
    learner_lib.adamw(**fine | {field: value})


def test_learning_rate_warms_up_and_decays():
  def step_sizes(**schedule):
    optimizer = learner_lib.adamw(
        learning_rate=0.1, b1=0.0, b2=0.0, eps=1e-8, weight_decay=0.0, clip_norm=1.0, **schedule)
    state, sizes = optimizer.init(jnp.ones(1)), []
    for _ in range(5):
      update, state = optimizer.update(jnp.ones(1), state, jnp.ones(1))
      sizes.append(-float(update[0]))  # Without memory Adam steps by the rate.
    return sizes

  np.testing.assert_allclose(step_sizes(warmup_steps=0, decay_steps=0), [0.1] * 5, rtol=1e-5)
  np.testing.assert_allclose(step_sizes(warmup_steps=2, decay_steps=0), [0, 0.05, 0.1, 0.1, 0.1], atol=1e-7)
  # Half a cosine from step 2 to step 4.
  np.testing.assert_allclose(step_sizes(warmup_steps=2, decay_steps=4), [0, 0.05, 0.1, 0.05, 0], atol=1e-7)


@pytest.mark.parametrize('field', ['micro_batches', 'updates_per_batch'])
def test_numbers_of_parts_are_at_least_one(field):
  with pytest.raises(ValueError, match=f'{field}=0 must be at least 1'):
    make_learner(**{field: 0})
