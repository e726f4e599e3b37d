import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from vpo_jax.advantages import weights as weightings

draw = jax.jit(weightings.simplex_weights, static_argnums=(1, 2), static_argnames=('alpha', 'sampler'))


class SimplexWeightsTest(parameterized.TestCase):

  @parameterized.product(
      alpha=(.3, 1., 3.), active=([True, True, True], [True, False, True]), sampler=weightings.SAMPLERS)
  def test_moments_are_those_of_a_dirichlet_on_the_active_components(self, alpha, active, sampler):
    n, d = 4096, sum(active)
    weights = draw(jax.random.key(0), n, 3, alpha=alpha, components=np.array(active), sampler=sampler)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(weights[:, ~np.array(active)], 0)
    kept = weights[:, np.array(active)]
    variance = (d - 1) / (d**2 * (d * alpha + 1))
    np.testing.assert_allclose(kept.mean(axis=0), 1 / d, atol=5 * np.sqrt(variance / n))
    # Entries in [0, 1]: the squared deviation varies by at most 1/4 of its range, so 5 errors are below .04.
    np.testing.assert_allclose(kept.var(axis=0), variance, rtol=.15)

  def test_tiny_alphas_give_corners(self):
    weights = weightings.simplex_weights(jax.random.key(0), 256, 4, alpha=1e-3)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    self.assertGreater(weights.max(axis=1).mean(), .99)

  @parameterized.product(alpha=(.5, 1.), sampler=weightings.SAMPLERS)
  def test_a_lone_component_weighs_one_and_none_weighs_nothing(self, alpha, sampler):
    weights = lambda components: draw(
        jax.random.key(1), 64, 2, alpha=alpha, components=np.array(components), sampler=sampler)
    np.testing.assert_array_equal(weights([False, True]), np.tile([0, 1], (64, 1)))
    np.testing.assert_array_equal(weights([False, False]), 0)

  @parameterized.parameters('lattice', 'sobol')
  def test_even_weightings_miss_the_mean_by_far_less_than_draws(self, sampler):
    # 256 draws of Dir(1) in R^4 err by √(3/80/256) = .012 in each component; K points evenly spread by about 1/K.
    weights = draw(jax.random.key(0), 256, 4, sampler=sampler)
    np.testing.assert_allclose(weights.mean(axis=0), .25, atol=.012 / 5)

  def test_keys_move_the_points(self):
    one, other = (draw(jax.random.key(seed), 8, 3, sampler='lattice') for seed in (0, 1))
    self.assertGreater(np.abs(one - other).max(), .01)

  def test_draws_follow_the_prompt_not_its_place(self):
    keys = weightings.prompt_keys(jax.random.key(3), np.array([7, 4]), 2)
    swapped = weightings.prompt_keys(jax.random.key(3), np.array([4, 7]), 2)
    np.testing.assert_array_equal(jax.random.key_data(keys[0]), jax.random.key_data(swapped[1]))
    np.testing.assert_array_equal(jax.random.key_data(keys[1]), jax.random.key_data(swapped[0]))

  def test_keys_and_ids_are_checked(self):
    with pytest.raises(ValueError, match='key=None'):
      weightings.prompt_keys(None, None, 2)
    with pytest.raises(ValueError, match='prompt_ids'):
      weightings.prompt_keys(jax.random.key(0), np.zeros(3, int), 2)
    with pytest.raises(ValueError, match='float32'):
      weightings.prompt_keys(jax.random.key(0), np.zeros(2, np.float32), 2)

  @parameterized.parameters(
      dict(num_weights=0), dict(num_weights=1.5), dict(alpha=0.), dict(alpha=float('nan')), dict(alpha=float('inf')),
      dict(weight_sampler='sobl'))
  def test_unknown_settings_are_named(self, **change):
    with pytest.raises(ValueError, match=next(iter(change))):
      weightings.check_settings(**dict(num_weights=4, alpha=1., weight_sampler='dirichlet') | change)


class ScalarWeightingTest(parameterized.TestCase):

  def test_uniform_over_what_the_prompt_has(self):
    actual = weightings.scalar_weighting(None, jnp.array([[True, True], [True, False], [False, False]]))
    np.testing.assert_allclose(actual, [[.5, .5], [1, 0], [0, 0]])

  def test_given_weights_keep_their_sum(self):
    # Without the second, 1 and 2 of a sum of 6 grow by 6/3.
    actual = weightings.scalar_weighting(jnp.array([1., 3., 2.]), jnp.array([[True, True, True], [True, False, True]]))
    np.testing.assert_allclose(actual, [[1, 3, 2], [2, 0, 4]])

  @parameterized.parameters(
      ([2., -1.],), ([0., 0.],), ([1., 1.],), ([.5, .498],), ([np.nan, 1.],), ([np.inf, 0.],), ([.2, .3, .5],))
  def test_faults_are_named(self, given):
    for weights in (given, np.array(given)):
      with pytest.raises(ValueError, match='scalar_weights'):
        weightings.scalar_weighting(weights, jnp.ones((1, 2), bool))
    weightings.scalar_weighting([1 / 3, 2 / 3], jnp.ones((1, 2), bool))

  def test_traced_weights_pass(self):
    weighting = jax.jit(lambda w: weightings.scalar_weighting(w, jnp.ones((1, 2), bool)))
    np.testing.assert_allclose(weighting(np.array([.25, .75], np.float32)), [[.25, .75]])
