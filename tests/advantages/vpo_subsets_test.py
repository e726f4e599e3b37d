import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax import advantages
from vpo_jax.advantages import subset_credit
from vpo_jax.advantages.set_reward import best_scores

compute = jax.jit(
    advantages.compute, static_argnames=('name', 'k', 'baseline', 'normalize', 'num_weights', 'weight_sampler'))

# Two specialists, a compromise drawn twice, a failure; four users.
REWARDS = np.array([[1, 0], [0, 1], [.6, .6], [.6, .6], [0, 0]])
USERS = np.array([[1, 0], [0, 1], [.5, .5], [.25, .75]])


def golden_credit(k, baseline):
  """c_i = k/N · u_i, averaged over the users."""
  with jax.enable_x64(True):
    scores = best_scores(jnp.array(REWARDS)[:, None], jnp.array(USERS), jnp.ones((5, 1), bool))
    tables, everyone = jnp.asarray(subset_credit.subset_tables(5, k)), jnp.ones(5, bool)
    credit = lambda row: subset_credit.subset_credit(row, everyone, tables, baseline=baseline)
    credits = jax.jit(jax.vmap(credit))(scores)
    return np.asarray(credits.mean(axis=0)) * k / 5


class VpoSubsetsTest(parameterized.TestCase):

  @parameterized.parameters(
      (1, [.0875, .1125, .12, .12, 0], None),
      (2, [.265, .285, .26375, .26375, .22], [.08875, .12125, .10375, .10375, 0]),
      (3, [.45875, .47, .43125, .43125, .42875], [.075, .10625, .04625, .04625, 0]),
      (4, [.6425, .65, .6225, .6225, .6225], [.08, .11, .005, .005, 0]))
  def test_golden_credits(self, k, raw, marginal):
    # From k = 2 to 3 the compromise falls from above the mean to below it.
    np.testing.assert_allclose(golden_credit(k, 'none'), raw, atol=1e-12)
    centred = golden_credit(k, 'mean')
    np.testing.assert_allclose(centred - centred.mean(), np.subtract(raw, np.mean(raw)), atol=1e-12)
    if marginal:
      np.testing.assert_allclose(golden_credit(k, 'loo_1'), marginal, atol=1e-12)

  @parameterized.parameters(('mean', 'dirichlet'), ('none', 'dirichlet'), ('mean', 'lattice'), ('none', 'sobol'))
  def test_subsets_of_one_are_vpo(self, baseline, sampler):
    rewards, key = np.random.default_rng(0).random((2, 6, 3, 2)), jax.random.key(0)
    kw = dict(num_weights=8, baseline=baseline, normalize='none', weight_sampler=sampler)
    np.testing.assert_allclose(
        compute('vpo_subsets', rewards, key, k=1, **kw).values,
        compute('vpo', rewards, key, **kw).values, atol=1e-6)

  @parameterized.parameters('loo_1', 'none')
  def test_one_component_is_max_at_k(self, baseline):
    rewards = np.random.default_rng(1).random((2, 6, 2, 1))
    kw = dict(k=3, baseline=baseline, normalize='none')
    np.testing.assert_allclose(  # In units of u = N/k · c.
        compute('vpo_subsets', rewards, jax.random.key(0), num_weights=2, **kw).values,
        compute('max_at_k', rewards, **kw).values * 2, atol=1e-6)

  def test_near_ties_are_tamed_and_counted(self):
    rewards = np.full((1, 6, 1, 2), .5, np.float32)
    rewards[0, 0] += 1e-8
    values, metrics = compute('vpo_subsets', rewards, jax.random.key(0), k=2)
    np.testing.assert_array_equal(values, 0)
    rewards[0, 0] += 1e-4  # The deviation of the credits is below 1e-4 = eps, so all stay below a half of √5.
    values, metrics = compute('vpo_subsets', rewards, jax.random.key(0), k=2)
    self.assertLess(np.abs(values).max(), 1.12)
    self.assertEqual((metrics['flat_groups'], metrics['near_flat_groups']), (0, 1))
    two = np.concatenate([rewards, rewards])  # One rollout of the first is padding, all of the second.
    mask = np.array([[True] * 5 + [False], [False] * 6])
    _, metrics = compute('vpo_subsets', two, jax.random.key(0), k=2, rollout_mask=mask)
    self.assertEqual(metrics['near_flat_groups'], 1)
    _, metrics = compute('vpo_subsets', two, jax.random.key(0), k=2)  # A share, not a number of groups.
    self.assertEqual(metrics['near_flat_groups'], 1)
    self.assertAlmostEqual(float(metrics['set_reward']), .5, delta=1e-4)

  def test_a_bonus_on_one_component_cancels(self):
    rewards = np.random.default_rng(2).random((1, 6, 2, 3))
    kw = dict(key=jax.random.key(0), k=3, num_weights=4)
    np.testing.assert_allclose(
        compute('vpo_subsets', rewards + [.5, 0, 0], **kw).values,
        compute('vpo_subsets', rewards, **kw).values, atol=1e-4)

  @parameterized.parameters((6, 'mean', r'\[1, 5\]'), (7, 'none', r'\[1, 6\]'), (1, 'loo_1', r'\[2, 6\]'))
  def test_k_that_leaves_no_signal_is_refused(self, k, baseline, message):
    with pytest.raises(ValueError, match=message):
      compute('vpo_subsets', np.zeros((1, 6, 1, 2)), jax.random.key(0), k=k, baseline=baseline)

  def test_the_integral_is_no_sampler_here(self):
    with pytest.raises(ValueError, match="weight_sampler='exact' must be one of dirichlet, lattice, sobol"):
      compute('vpo_subsets', np.zeros((1, 6, 1, 2)), jax.random.key(0), weight_sampler='exact')
