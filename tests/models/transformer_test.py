import dataclasses
import functools

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from absl.testing import parameterized

from tests.counting_model import counting_model
from tests.tiny_model import CONFIG, PLAIN, random_params
from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig

logits = jax.jit(transformer.logits, static_argnums=1)
prefill = jax.jit(transformer.prefill, static_argnums=1)
continuation = jax.jit(transformer.continuation, static_argnums=1)
head = jax.jit(transformer.head, static_argnums=1)
init = jax.jit(transformer.init, static_argnums=1)


def reference_logits(params, config, tokens):
  """`[T, V]` by loops over positions and heads in float64; a rotary pair is one complex number that turns."""
  params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
  norm = lambda x, scale: x / np.sqrt(np.mean(x**2) + config.norm_eps) * scale
  half, group = config.head_dim // 2, config.num_heads // config.num_kv_heads

  def turned(x, position):
    pairs = x[:half] + 1j * x[half:]
    turned = [z * np.exp(1j * position * config.rope_theta ** (-i / half)) for i, z in enumerate(pairs)]
    return np.concatenate([np.real(turned), np.imag(turned)])

  stream = [params['embedding'][token].copy() for token in tokens]
  for layer in range(config.num_layers):
    w = {name: x[layer] for name, x in params['layers'].items()}
    heads = {'q': [], 'k': [], 'v': []}
    for position, x in enumerate(stream):
      h = norm(x, w['attention_norm'])
      for name, rows in heads.items():
        row = []
        for n in range(w[name].shape[1]):
          y = h @ w[name][:, n]
          if config.qkv_bias:
            y = y + w[f'{name}_bias'][n]
          if name != 'v':
            y = norm(y, w[f'{name}_norm']) if config.qk_norm else y
            y = turned(y, position)
          row.append(y)
        rows.append(row)
    for t, x in enumerate(stream):
      for n in range(config.num_heads):
        scores = np.array([heads['q'][t][n] @ heads['k'][s][n // group] for s in range(t + 1)]) / config.head_dim**.5
        weights = np.exp(scores) / np.exp(scores).sum()
        x += sum(weights[s] * heads['v'][s][n // group] for s in range(t + 1)) @ w['o'][n]
      h = norm(x, w['mlp_norm'])
      gate = h @ w['gate']
      x += (gate / (1 + np.exp(-gate)) * (h @ w['up'])) @ w['down']
  head = params['embedding'].T if config.tie_embeddings else params['head']
  return np.array([norm(x, params['final_norm']) @ head for x in stream])


class LogitsTest(parameterized.TestCase):

  @parameterized.parameters(CONFIG, PLAIN)
  def test_equal_a_forward_pass_by_loops(self, config):
    params = random_params(config)
    tokens = np.random.default_rng(1).integers(config.vocab_size, size=(2, 7))
    expected = [reference_logits(params, config, row) for row in tokens]
    actual = logits(params, config, tokens)
    assert actual.dtype == jnp.float32
    np.testing.assert_allclose(actual, expected, atol=2e-4)

  def test_scanned_layers_equal_unrolled_ones(self):
    scanned = dataclasses.replace(CONFIG, scan_layers=True)
    params = random_params()
    tokens = np.random.default_rng(1).integers(13, size=(2, 7))
    chex.assert_trees_all_close(
        prefill(params, CONFIG, tokens), prefill(params, scanned, tokens), atol=1e-5)
    args = (tokens[:, :3], np.array([3, 2]), tokens[:, None, 3:])
    np.testing.assert_allclose(continuation(params, CONFIG, *args), continuation(params, scanned, *args), atol=1e-5)

  def test_live_positions_see_no_padding_and_dead_ones_are_zero(self):
    params = random_params()
    tokens = np.random.default_rng(1).integers(13, size=(2, 7))
    garbage = tokens.copy()
    garbage[0, 4:] = (garbage[0, 4:] + 1) % 13
    lengths = np.array([4, 7])
    full = logits(params, CONFIG, tokens)
    actual = logits(params, CONFIG, garbage, lengths)
    np.testing.assert_array_equal(actual[0, :4], full[0, :4])
    np.testing.assert_array_equal(actual[1], full[1])
    np.testing.assert_array_equal(actual[0, 4:], 0)

  def test_compute_dtype_changes_neither_parameters_nor_the_dtype_of_logits(self):
    half = dataclasses.replace(CONFIG, dtype='bfloat16')
    params = random_params()
    tokens = np.random.default_rng(1).integers(13, size=(2, 7))
    hidden, kv = prefill(params, half, tokens)
    assert hidden.dtype == kv.k.dtype == kv.v.dtype == jnp.bfloat16
    assert logits(params, half, tokens).dtype == jnp.float32
    full, _ = prefill(params, CONFIG, tokens)
    # Eight bits of mantissa, some ten roundings deep.
    error = np.abs(np.asarray(hidden, np.float32) - full)
    assert error.max() < .15 and error.mean() < .02, (error.max(), error.mean())

  def test_head_multiplies_in_full_float32(self):
    # On a CPU every precision computes the same; a TPU would multiply in bfloat16 by default.
    for config in (CONFIG, PLAIN):
      scores = functools.partial(transformer.head, random_params(config), config)
      jaxpr = jax.make_jaxpr(scores)(np.ones((3, 12), np.float32))
      products = [eqn for eqn in jaxpr.jaxpr.eqns if eqn.primitive.name == 'dot_general']
      assert [eqn.params['precision'] for eqn in products] == [(transformer.HIGHEST,) * 2]


class ContinuationTest(parameterized.TestCase):

  @parameterized.parameters(4, 9)
  def test_equals_the_logits_of_contiguous_rows(self, prompt_width):
    params = random_params()
    rng = np.random.default_rng(2)
    lengths = np.array([1, 4, 3])
    prompts = rng.integers(13, size=(3, prompt_width))  # Behind the lengths: garbage.
    tokens = rng.integers(13, size=(3, 2, 5))
    hidden = continuation(params, CONFIG, prompts, lengths, tokens)
    actual = head(params, CONFIG, hidden)
    for u, n in enumerate(lengths):
      rows = np.concatenate([np.broadcast_to(prompts[u, :n], (2, n)), tokens[u]], axis=1)
      rows = np.pad(rows, ((0, 0), (0, 9 - rows.shape[1])))
      # The state that predicts the first token is the prompt's last.
      np.testing.assert_allclose(actual[u], logits(params, CONFIG, rows)[:, n - 1 : n + 4], atol=2e-5)

  def test_one_token_needs_the_prompt_only(self):
    params = random_params()
    prompts = np.random.default_rng(2).integers(13, size=(3, 4))
    hidden = continuation(params, CONFIG, prompts, np.array([1, 4, 3]), np.zeros((3, 2, 1), np.int32))
    actual = head(params, CONFIG, hidden)
    full = logits(params, CONFIG, prompts)
    for u, n in enumerate([1, 4, 3]):
      np.testing.assert_allclose(actual[u, :, 0], np.stack([full[u, n - 1]] * 2), atol=1e-5)

  @hypothesis.settings(max_examples=15)
  @hypothesis.given(st.lists(st.integers(1, 6), min_size=2, max_size=2), st.integers(0, 2**32 - 1))
  def test_what_lies_behind_the_prompt_and_later_in_the_response_matters_not(self, lengths, seed):
    params = random_params()
    rng = np.random.default_rng(seed)
    lengths = np.array(lengths)
    prompts, tokens = rng.integers(13, size=(2, 6)), rng.integers(13, size=(2, 2, 5))
    live_prompts = np.where(np.arange(6) < lengths[:, None], prompts, rng.integers(13, size=(2, 6)))
    cut = rng.integers(1, 5)
    changed = np.where(np.arange(5) < cut, tokens, rng.integers(13, size=(2, 2, 5)))
    before = continuation(params, CONFIG, prompts, lengths, tokens)
    after = continuation(params, CONFIG, live_prompts, lengths, changed)
    np.testing.assert_allclose(before[:, :, : cut + 1], after[:, :, : cut + 1], atol=1e-6)

  def test_gradient_equals_that_of_contiguous_rows(self):
    params = random_params()
    rng = np.random.default_rng(3)
    prompts, tokens = rng.integers(13, size=(1, 3)), rng.integers(13, size=(1, 2, 4))
    rows = np.concatenate([np.broadcast_to(prompts, (2, 3)), tokens[0]], axis=1)

    def by_continuation(params):
      hidden = transformer.continuation(params, CONFIG, prompts, np.array([3]), tokens)
      scores = jax.nn.log_softmax(transformer.head(params, CONFIG, hidden))
      return jnp.take_along_axis(scores, tokens[..., None], axis=-1).sum()

    def by_rows(params):
      scores = jax.nn.log_softmax(transformer.logits(params, CONFIG, rows))[:, 2:-1]
      return jnp.take_along_axis(scores, tokens[0][..., None], axis=-1).sum()

    expected, actual = jax.jit(jax.grad(by_rows))(params), jax.jit(jax.grad(by_continuation))(params)
    chex.assert_trees_all_close(actual, expected, rtol=1e-3, atol=1e-4)

  @parameterized.parameters(1, 4)
  def test_token_is_scored_by_the_position_before_it(self, length):
    params, config = counting_model()
    prompts = np.where(np.arange(6) < length, np.arange(6), 0)[None]
    tokens = (length + np.arange(3))[None, None]  # Goes on counting.
    hidden = continuation(params, config, prompts, np.array([length]), tokens)
    logprobs = scipy.special.log_softmax(head(params, config, hidden), axis=-1)
    scores = np.take_along_axis(logprobs, tokens[..., None], axis=-1)[0, 0, :, 0]
    np.testing.assert_allclose(scores, 0, atol=1e-6)


class InitTest(parameterized.TestCase):

  def test_counts_of_parameters_by_hand(self):
    # Embedding and head 13·12 each, final norm 12; a layer: q and o 12·24, k and v 12·12, biases 24 + 12 + 12, head
    # norms 6 + 6, norms 12 + 12, feed-forward 3·12·20.
    layer = 2 * 288 + 2 * 144 + 48 + 12 + 24 + 720
    assert transformer.num_params(CONFIG) == 2 * 156 + 12 + 2 * layer
    assert transformer.num_params(PLAIN) == 156 + 12 + 2 * (4 * 288 + 24 + 720)

  def test_deviations_follow_the_fan_in(self):
    config = ModelConfig(
        vocab_size=64, d_model=64, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, d_ff=128,
        tie_embeddings=False)
    params = jax.device_get(init(jax.random.key(0), config))
    # A normal cut at ±3 has deviation .987; residual outputs are smaller by √(2 · 2 layers) = 2.
    expected = dict(q=64, k=64, v=64, o=32 * 4, gate=64, up=64, down=128 * 4)
    for name, fan_in in expected.items():
      np.testing.assert_allclose(params['layers'][name].std() * fan_in**.5, .987, rtol=.05, err_msg=name)
    for name in ('embedding', 'head'):
      np.testing.assert_allclose(params[name].std() * 8, .987, rtol=.05, err_msg=name)
    assert all(x.dtype == np.float32 for x in jax.tree.leaves(params))

  def test_keys_differ_and_no_two_matrices_are_alike(self):
    leaves = [x for seed in (0, 1) for x in jax.tree.leaves(jax.device_get(init(jax.random.key(seed), CONFIG)))
              if x.ndim > 1 and x.std() > 0]
    first = [float(x.reshape(-1)[0]) * x.shape[0] for x in leaves]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize('leaf', jax.tree_util.tree_leaves_with_path(
    transformer.LOGICAL_AXES, is_leaf=lambda x: isinstance(x, tuple)), ids=lambda leaf: jax.tree_util.keystr(leaf[0]))
def test_axes_name_every_dimension_of_every_parameter(leaf):
  path, axes = leaf
  shape = functools.reduce(lambda tree, key: tree[key.key], path, random_params()).shape
  sizes = {'vocab': 13, 'embed': 12, 'norm': 12, 'layers': 2, 'heads': 4, 'kv_heads': 2, 'head_dim': 6, 'mlp': 20}
  assert shape == tuple(sizes[a] for a in axes)


def test_no_parameter_is_without_axes():
  axes = jax.tree.map(len, transformer.LOGICAL_AXES, is_leaf=lambda x: isinstance(x, tuple))
  assert axes == jax.tree.map(jnp.ndim, random_params())  # The same tree, with as many names as dimensions.
