import functools

import chex
import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import losses

property_test = hypothesis.settings(deadline=None, max_examples=50)
yes = functools.partial(jnp.ones, dtype=bool)
summed_loss = jax.jit(jax.value_and_grad(lambda *tokens: losses.policy_loss(*tokens, yes(1))[0].sum()))


class PolicyLossTest(chex.TestCase):

  @parameterized.parameters(
      # ratio, advantage, loss at clip .2 and c = 3, and its derivative in the log-prob (-A ρ, or 0 where clipped)
      (1., 2., -2., -2.),
      (1.1, 2., -2.2, -2.2),
      (1.5, 2., -2.4, 0.),  # Good and likelier than 1.2: no more reward.
      (.5, 2., -1., -1.),  # Good but less likely: pushed, not clipped.
      (1.5, -2., 3., 3.),  # Bad and likelier: pushed.
      (.5, -2., 1.6, 0.),  # Bad and less likely than .8: enough.
      (4., -2., 6., 0.),  # Bad and 4 times likelier: the dual clip stops at c = 3.
      (4., 0., 0., 0.))
  def test_golden_tokens(self, ratio, advantage, loss, slope):
    old = jnp.array([-1.5])
    value, grad = summed_loss(old + np.log(ratio).astype(np.float32), old, jnp.array([advantage]))
    np.testing.assert_allclose([value, grad[0]], [loss, slope], rtol=1e-5, atol=1e-7)

  def test_clips_are_asymmetric_and_the_dual_clip_can_be_left_out(self):
    loss = lambda ratio, advantage: losses.policy_loss(
        jnp.log(jnp.array([ratio])), jnp.zeros(1), jnp.array([advantage]), yes(1), clip_low=.1, clip_high=.3,
        dual_clip=None)[0][0]
    np.testing.assert_allclose([loss(2., 1.), loss(.5, -1.), loss(9., -1.)], [-1.3, .9, 9], rtol=1e-5)

  def test_on_policy_the_gradient_is_the_policy_gradient(self):
    logprobs, advantages = jnp.array([[-.3, -2.], [-1., -.1]]), jnp.array([[2.], [-3.]])
    loss = lambda x: losses.policy_loss(x, jax.lax.stop_gradient(x), advantages, yes((2, 2)))[0].sum()
    np.testing.assert_array_equal(jax.grad(loss)(logprobs), [[-2, -2], [3, 3]])

  def test_sums_count_tokens_by_what_happened_to_them(self):
    ratios = np.array([[1.5, .5, 4., 1., 9.], [1., 1., 1., 1., 1.]], np.float32)
    advantages = np.array([[1., -1., -1., 1., 1.], [1.] * 5], np.float32)
    mask = np.array([[True] * 4 + [False], [False] * 5])
    _, sums = losses.policy_loss(jnp.log(ratios), jnp.zeros((2, 5)), jnp.array(advantages), jnp.array(mask))
    expected = {'tokens': 4, 'clipped': 2, 'dual_clipped': 1, 'ratio': 7, 'kl_old': -np.log(1.5 * .5 * 4)}
    chex.assert_trees_all_close(sums, jax.tree.map(np.float32, expected), rtol=1e-6)

  @chex.variants(with_jit=True, without_jit=True)
  def test_what_is_masked_matters_to_neither_value_nor_gradient(self):
    bad = np.array([np.nan, np.inf, -np.inf, -1e30, 0], np.float32)
    mask = jnp.array([False] * 4 + [True])
    old = jnp.array([0., -jnp.inf, jnp.nan, 0., 0.])
    advantages = jnp.array([jnp.nan, 1., 1., jnp.inf, 2.])

    def loss(logprobs):
      tokens = losses.policy_loss(logprobs, old, advantages, mask)[0]
      tokens += losses.kl_penalty(logprobs, old, mask=mask)
      weights = losses.token_weights(mask[None], 'token-mean', num_tokens=1, num_sequences=1, max_length=5)
      return losses.weighted_sum(tokens[None], weights)

    value, grad = self.variant(jax.value_and_grad(loss))(jnp.array(bad))
    np.testing.assert_array_equal(value, -2)
    np.testing.assert_array_equal(grad, [0, 0, 0, 0, -2])

  def test_far_gaps_stay_finite(self):
    for gap in (-1e4, -100., 100., 1e4):
      for advantage in (-1., 1.):
        value, grad = summed_loss(jnp.array([gap]), jnp.zeros(1), jnp.array([advantage]))
        self.assertTrue(np.isfinite(value) and np.isfinite(grad).all())

  @parameterized.parameters(dict(clip_low=-.1), dict(clip_low=1.2), dict(clip_high=-.2), dict(dual_clip=1.))
  def test_clips_out_of_range_are_named(self, **clip):
    field, = clip
    with pytest.raises(ValueError, match=field):
      losses.policy_loss(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1), yes(1), **clip)


class KlTest(parameterized.TestCase):

  @parameterized.parameters(('k1', 1.), ('k2', .5), ('k3', np.exp(-1)), ('low_var_kl', np.exp(-1)))
  def test_policy_minus_one_reference_minus_two(self, kind, expected):
    # x = -2 - -1 = -1: e^-1 + 1 - 1. With the sign of x wrong, k3 would be e - 2.
    actual = losses.kl_penalty(jnp.array([-1.]), jnp.array([-2.]), kind)
    np.testing.assert_allclose(actual, [expected], rtol=1e-6)

  @parameterized.product(kind=losses.KL_KINDS, gap=(-1e4, -100., 0., 100., 1e4), dtype=(jnp.float32, jnp.bfloat16))
  def test_far_gaps_stay_finite(self, kind, gap, dtype):
    logprobs = jnp.array([-1.], dtype)
    penalty = lambda x: losses.kl_penalty(x, logprobs + jnp.array(gap, dtype), kind).sum()
    value, grad = jax.jit(jax.value_and_grad(penalty))(logprobs)
    self.assertTrue(np.isfinite(value) and np.isfinite(grad).all())
    self.assertEqual(value.dtype, jnp.float32)

  def test_low_variance_is_cut_at_ten(self):
    actual = losses.kl_penalty(jnp.array([-101., -3.]), jnp.array([-1., -1.]), 'low_var_kl')
    np.testing.assert_allclose(actual, [10, np.exp(2) - 3], rtol=1e-6)

  def test_expected_values_and_gradients_over_a_whole_vocabulary(self):
    logits, ref = jnp.array([.3, -1., .8, 0.]), jax.nn.log_softmax(jnp.array([0., .5, -.2, .1]))
    probs = jax.nn.softmax(logits)
    kl = lambda logits: jnp.sum(jax.nn.softmax(logits) * (jax.nn.log_softmax(logits) - ref))
    reverse = lambda logits: jnp.sum(jnp.exp(ref) * (ref - jax.nn.log_softmax(logits)))

    def expected(kind, logits):  # Tokens are drawn from a fixed policy: no gradient through their chances.
      return jnp.sum(probs * losses.kl_penalty(jax.nn.log_softmax(logits), ref, kind))

    for kind in ('k1', 'k3'):
      np.testing.assert_allclose(expected(kind, logits), kl(logits), rtol=1e-5)
    gradient = lambda kind: jax.jit(jax.grad(expected, argnums=1), static_argnums=0)(kind, logits)
    np.testing.assert_allclose(gradient('k1'), 0, atol=1e-6)
    np.testing.assert_allclose(gradient('k2'), jax.grad(kl)(logits), atol=1e-6)
    np.testing.assert_allclose(gradient('k3'), jax.grad(reverse)(logits), atol=1e-6)

  def test_unknown_kinds_are_named(self):
    with pytest.raises(ValueError, match="kind='k4' must be one of k1, k2, k3"):
      losses.kl_penalty(jnp.zeros(1), jnp.zeros(1), 'k4')


@property_test
@hypothesis.given(hnp.arrays(np.float32, (2, 8), elements=st.floats(-30, 0, width=32)))
def test_k3_is_never_negative_and_zero_at_equality(logprobs):
  assert (losses.kl_penalty(jnp.array(logprobs[0]), jnp.array(logprobs[1]), 'k3') >= 0).all()
  nearby = jnp.array(logprobs[0]) * (1 + 1e-7)
  assert (losses.kl_penalty(jnp.array(logprobs[0]), nearby, 'k3') >= 0).all()
  np.testing.assert_array_equal(losses.kl_penalty(jnp.array(logprobs[0]), jnp.array(logprobs[0]), 'k3'), 0)


@functools.partial(jax.jit, static_argnames=('mode', 'parts', 'max_length'))
def batch_loss(values, mask, mode, parts, max_length=10):
  """Loss of the batch, added up over `parts` of its rows, (start, end) each."""
  parts = [slice(*part) for part in parts]
  counts = [losses.token_counts(mask[rows]) for rows in parts]
  num_tokens, num_sequences = (sum(c) for c in zip(*counts, strict=True))
  return sum(
      losses.weighted_sum(values[rows], losses.token_weights(
          mask[rows], mode, num_tokens=num_tokens, num_sequences=num_sequences, max_length=max_length))
      for rows in parts)


class AggregationTest(parameterized.TestCase):

  @parameterized.parameters(
      ('token-mean', 16 / 5),  # (1 + 2 + 3 + 4 + 6)/5
      ('seq-mean-token-mean', 3.5),  # (2 + 5)/2
      ('seq-mean-token-sum-norm', .8))  # (6/10 + 10/10)/2
  def test_golden(self, mode, expected):
    values = jnp.array([[1., 2., 3.], [4., 6., jnp.nan], [jnp.nan] * 3])
    mask = jnp.array([[True] * 3, [True, True, False], [False] * 3])
    for parts in (((0, 3),), ((0, 1), (1, 3)), ((0, 1), (1, 2), (2, 3))):
      np.testing.assert_allclose(batch_loss(values, mask, mode, parts), expected, rtol=1e-6)

  def test_no_mean_of_means(self):
    # One token of loss 1, then nine of loss 0: .1, where the mean of the parts' means is .5.
    mask = jnp.arange(9)[None] < jnp.array([[1], [9]])
    values = jnp.array([[1.] * 9, [0.] * 9])
    np.testing.assert_allclose(batch_loss(values, mask, 'token-mean', ((0, 1), (1, 2))), .1, rtol=1e-6)

  @parameterized.parameters(*losses.AGGREGATIONS)
  def test_rows_left_out_do_not_dilute_the_rest(self, mode):
    values, mask = jnp.ones((2, 10)), jnp.arange(10)[None] < jnp.array([[0], [5]])
    alone = batch_loss(values[1:], mask[1:], mode, ((0, 1),))
    np.testing.assert_allclose(batch_loss(values, mask, mode, ((0, 2),)), alone)

  @parameterized.parameters(*losses.AGGREGATIONS)
  def test_a_batch_without_tokens_has_no_loss_and_no_gradient(self, mode):
    loss = lambda values: batch_loss(values, jnp.zeros((2, 3), bool), mode, ((0, 2),))
    value, grad = jax.value_and_grad(loss)(jnp.full((2, 3), jnp.nan))
    np.testing.assert_array_equal(value, 0)
    np.testing.assert_array_equal(grad, 0)

  def test_unknown_modes_are_named(self):
    with pytest.raises(ValueError, match="mode='mean' must be one of token-mean"):
      losses.token_weights(yes((1, 2)), 'mean', num_tokens=2, num_sequences=1, max_length=2)


@pytest.mark.parametrize('mode', losses.AGGREGATIONS)
@property_test
@hypothesis.given(
    hnp.arrays(np.float32, (8, 4), elements=st.floats(-2, 2, width=32)),
    hnp.arrays(np.int32, 8, elements=st.integers(0, 4)))
def test_every_split_gives_the_same_loss(mode, values, lengths):
  mask = jnp.arange(4)[None] < jnp.array(lengths)[:, None]
  whole = batch_loss(jnp.array(values), mask, mode, ((0, 8),))
  for size in (1, 4):
    parts = tuple((i, i + size) for i in range(0, 8, size))
    np.testing.assert_allclose(batch_loss(jnp.array(values), mask, mode, parts), whole, atol=1e-5)
