"""Points of the unit cube -> weightings distributed Dir(alpha), by breaking a stick.

Component j takes the share v_j ~ Beta(alpha, alpha · l_j) of what the components before it left, l_j being the number
of components after it. That takes one dimension less than there are components, later ones matter ever less, and a
small move of the point is a small move of the weighting: of the maps from the cube (sorted gaps, logarithms) it keeps
the evenness of the points best. Axes: K weightings, d components.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

# The quantiles of v are tabulated in logits over logits, where they are smooth, with straight ends. Beyond: u < 1e-9.
LOGIT_RANGE, LOGIT_NODES = 21., 4097


def broken_stick(points: jax.Array, components: jax.Array, *, alpha: float) -> jax.Array:
  """Weightings `[K, d]` of the `points` `[d - 1, K]` in (0, 1).

  Args:
    points: one coordinate for each component but the last; those of absent components are not looked at.
    components: `[d]` bool; the others get weight 0, the last present one takes what is left.
    alpha: concentration of the Dirichlet; 1 is uniform over the simplex.

  Returns:
    Rows sum to 1 (to 0 where there is no component).
  """
  d, = components.shape
  later = jnp.cumsum(components[::-1])[::-1] - components

  def broken_off(left, stick):
    points, present, later = stick
    if alpha == 1 or d == 1:  # 1 - v ~ Beta(l, 1)
      rest = jnp.exp(jnp.log(points) / jnp.maximum(later, 1).astype(points.dtype))
    else:
      rest = beta_rest(points, jnp.maximum(later, 1), d, alpha=alpha)
    remains = left * jnp.where(present, jnp.where(later > 0, rest, 0), 1)
    return remains, left - remains

  left, weights = jax.lax.scan(
      broken_off, jnp.ones_like(points, shape=points.shape[1:]), (points, components[:-1], later[:-1]))
  return jnp.concatenate([weights, jnp.where(components[-1], left, 0)[None]]).T


def beta_rest(points: jax.Array, later: jax.Array, d: int, *, alpha: float) -> jax.Array:
  """1 - v at the quantiles `points` `[K]` of v ~ Beta(alpha, alpha · later), `later` `[]` in 1..d-1."""
  table = jnp.asarray(beta_logit_table(d, alpha), points.dtype)[later - 1]
  logits = jnp.log(points) - jnp.log1p(-points)
  place = jnp.clip((logits + LOGIT_RANGE) * ((LOGIT_NODES - 1) / (2 * LOGIT_RANGE)), 0, LOGIT_NODES - 1)
  node = jnp.minimum(place.astype(jnp.int32), LOGIT_NODES - 2)
  low, high = table[node], table[node + 1]
  return jax.nn.sigmoid(-(low + (high - low) * (place - node)))


@functools.lru_cache(maxsize=16)
def beta_logit_table(d: int, alpha: float) -> np.ndarray:
  """Logit of the quantile of Beta(alpha, alpha · l) at the nodes, for l = 1..d-1: `[d - 1, nodes]` float64."""
  nodes = np.linspace(-LOGIT_RANGE, LOGIT_RANGE, LOGIT_NODES)
  rows = []
  for later in range(1, d):
    a, b = alpha, alpha * later
    # t = logit v has the density σ(t)^a σ(-t)^b / B(a, b): exponential ends e^(at), e^(-bt), a peak at log a/b.
    width = np.sqrt(1 / a + 1 / b)
    ends = 50 / a + 10 * width, 50 / b + 10 * width  # Less than e^-20 of the mass lies beyond.
    step = min(width, 1)
    s = np.linspace(-np.arcsinh(ends[0] / step), np.arcsinh(ends[1] / step), 2**14)
    t = np.log(a / b) + step * np.sinh(s)
    log_density = -a * np.logaddexp(0, -t) - b * np.logaddexp(0, t)
    density = np.exp(log_density - log_density.max())
    pieces = (density[1:] * np.cosh(s[1:]) + density[:-1] * np.cosh(s[:-1])) * (step * np.diff(s) / 2)
    below = np.cumsum(np.concatenate([density[:1] / a, pieces]))  # Both from their small ends: no cancellation.
    above = np.cumsum(np.concatenate([density[-1:] / b, pieces[::-1]]))[::-1]
    rows.append(np.interp(nodes, np.log(below) - np.log(above), t))
  return np.array(rows)
