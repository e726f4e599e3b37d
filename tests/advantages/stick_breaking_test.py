import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from absl.testing import parameterized

from vpo_jax.advantages.stick_breaking import beta_logit_table, beta_rest, broken_stick

property_test = hypothesis.settings(deadline=None, max_examples=50)
broken = jax.jit(broken_stick, static_argnames='alpha')


class BrokenStickTest(parameterized.TestCase):

  def test_by_hand(self):
    # Three components: the first leaves √.64 = .8, the second half of that.
    points = np.array([[.64], [.5]], np.float32)
    np.testing.assert_allclose(broken(points, np.ones(3, bool), alpha=1.), [[.2, .4, .4]], rtol=1e-6)
    # Of the first and last: what the first leaves is .64 itself.
    np.testing.assert_allclose(broken(points, np.array([True, False, True]), alpha=1.), [[.36, 0, .64]], rtol=1e-6)
    np.testing.assert_allclose(broken(points, np.array([True, True, False]), alpha=1.), [[.36, .64, 0]], rtol=1e-6)
    np.testing.assert_array_equal(broken(points, np.array([False, True, False]), alpha=1.), [[0, 1, 0]])
    np.testing.assert_array_equal(broken(points, np.zeros(3, bool), alpha=1.), [[0, 0, 0]])
    np.testing.assert_array_equal(broken(np.zeros((0, 2), np.float32), np.ones(1, bool), alpha=.5), [[1], [1]])

  @parameterized.parameters(.05, .3, 1.5, 40.)
  def test_quantiles_are_scipys(self, alpha):
    u = np.linspace(1e-4, 1 - 1e-4, 501)
    for later in (1, 3, 31):
      with jax.enable_x64(True):
        actual = beta_rest(jnp.array(u), jnp.array(later), 32, alpha=alpha)
      # 1 - v of v ~ Beta(alpha, alpha · later), so at 1 - u.
      np.testing.assert_allclose(actual, scipy.stats.beta(alpha * later, alpha).ppf(1 - u), atol=1e-5)

  def test_the_table_agrees_with_the_closed_form_at_alpha_1(self):
    # v = 1 - (1-u)^(1/l) at u = 1/2, the middle node.
    middle = beta_logit_table(4, 1.)[:, 2048]
    v = 1 - .5**(1 / np.arange(1, 4))
    np.testing.assert_allclose(middle, np.log(v / (1 - v)), atol=1e-5)

  @parameterized.parameters(1e-6, 1e-3, 1e4, 1e8)
  def test_extreme_alphas_stay_on_the_simplex(self, alpha):
    points = np.random.default_rng(0).random((3, 64), np.float32)
    weights = broken(points, np.ones(4, bool), alpha=alpha)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    if alpha < 1:
      self.assertGreater(weights.max(axis=1).mean(), .95)
    else:
      np.testing.assert_allclose(weights, .25, atol=.02)


@property_test
@hypothesis.given(
    hnp.arrays(np.float32, (5, 8), elements=st.floats(2**-25, 1 - 2**-24, width=32)), hnp.arrays(bool, 6),
    st.sampled_from([.3, 1.]))
def test_on_the_simplex_of_present_components(points, components, alpha):
  weights = broken(points, components, alpha=alpha)
  assert (weights >= 0).all() and (weights[:, ~components] == 0).all()
  np.testing.assert_allclose(weights.sum(axis=1), float(components.any()), atol=1e-6)
