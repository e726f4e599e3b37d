"""Weightings of the reward components: drawn at random for each prompt, or the task's fixed one.

Axes: B prompts, K weightings, d reward components.
"""

import operator

import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax.advantages import low_discrepancy
from vpo_jax.advantages.stick_breaking import broken_stick

SAMPLERS = ('dirichlet', *low_discrepancy.SEQUENCES)


def prompt_keys(key, prompt_ids, num_prompts: int) -> jax.Array:
  """Keys `[B]`, `fold_in(key, prompt_id)`: a prompt's draws don't depend on where it stands in the batch.

  Raises:
    ValueError: there is no key, or the ids `[B]` don't fit the batch.
  """
  if key is None:
    raise ValueError('key=None must be a jax.random.key: this estimator draws weightings.')
  if prompt_ids is None:
    prompt_ids = jnp.arange(num_prompts)
  prompt_ids = jnp.asarray(prompt_ids)
  if prompt_ids.shape != (num_prompts,) or not jnp.issubdtype(prompt_ids.dtype, jnp.integer):
    raise ValueError(f'{prompt_ids.shape=}, {prompt_ids.dtype=} must be [{num_prompts}] integers, one for a prompt.')
  return jax.vmap(jax.random.fold_in, (None, 0))(key, prompt_ids)


def simplex_weights(
    key, num_weights: int, d: int, *, alpha=1., components=None, sampler='dirichlet', dtype=jnp.float32) -> jax.Array:
  """Draws `[K, d]` weightings from Dir(alpha), restricted to the components that the prompt has.

  Args:
    key: used up.
    num_weights: K.
    d: number of components.
    alpha: concentration; 1 is uniform over the simplex, less is more lopsided.
    components: `[d]` bool; the others get weight 0, and a Dirichlet restricted so is a Dirichlet on the rest.
    sampler: 'dirichlet', independent draws; 'lattice' or 'sobol', each weighting so distributed and all together
      spread evenly (`low_discrepancy`).
    dtype: of the weights.

  Returns:
    `[K, d]`, rows sum to 1 (to 0 where the prompt has no component).

  Raises:
    ValueError: 'sobol' with more than 32 components.
  """
  components = jnp.ones(d, bool) if components is None else components
  if sampler == 'dirichlet':
    return dirichlet(key, num_weights, d, alpha=alpha, components=components, dtype=dtype)
  if sampler == 'sobol' and d - 1 > low_discrepancy.MAX_SOBOL_DIMENSIONS:
    raise ValueError(
        f"{d=} must be at most {low_discrepancy.MAX_SOBOL_DIMENSIONS + 1} for 'sobol'; 'lattice' takes any number.")
  points = low_discrepancy.shifted_points(key, num_weights, d - 1, sequence=sampler, dtype=dtype)
  return broken_stick(points, components, alpha=alpha)


def dirichlet(key, num_weights: int, d: int, *, alpha, components, dtype) -> jax.Array:
  """Independent draws `[K, d]`, as in `simplex_weights`."""
  if alpha == 1:  # Normalised exponentials: no rejection loop.
    # A draw can be exactly 0 (1 in 2^23), and a lone component would then weigh 0/0.
    draws = jnp.maximum(jax.random.exponential(key, (num_weights, d), dtype), jnp.finfo(dtype).tiny)
  else:  # In logs: small alphas underflow otherwise.
    logs = jax.random.loggamma(key, alpha, (num_weights, d), dtype)
    draws = jnp.exp(logs - jnp.where(components[None], logs, -jnp.inf).max(axis=-1, keepdims=True))
  draws = jnp.where(components[None], draws, 0)
  total = draws.sum(axis=-1, keepdims=True)
  weights = draws / jnp.where(total > 0, total, 1)
  # XLA may multiply by a reciprocal, and x/x is then not always 1; a lone component should weigh exactly that.
  return jnp.where((draws == total) & (total > 0), 1, weights)


def scalar_weighting(scalar_weights, components, dtype=jnp.float32) -> jax.Array:
  """The fixed weighting `[B, d]` of each prompt: uniform by default.

  Where a prompt lacks components, the others' weights grow by one factor, so that the sum stays what it was.

  Args:
    scalar_weights: `[d]`, non-negative, or None for 1/d each. A list or NumPy array must sum to 1; what JAX computed,
      such as `dynamic_weights`, is taken as it is.
    components: `[B, d]` bool, components that each prompt has.
    dtype: of the weights.

  Raises:
    ValueError: wrong shape; or a list or NumPy array with a negative or non-finite weight, or of another sum.
  """
  d = components.shape[-1]
  if scalar_weights is None:
    scalar_weights = np.full(d, 1 / d)
  if not isinstance(scalar_weights, jax.Array):  # Values inside jit are not known, and others not without a wait.
    known = np.asarray(scalar_weights, np.float64)
    if known.shape == (d,) and not ((known >= 0).all() and abs(known.sum() - 1) < 1e-3):
      raise ValueError(f'scalar_weights={known.tolist()} must not be negative and must sum to 1.')
  weights = jnp.asarray(scalar_weights, dtype)
  if weights.shape != (d,):
    raise ValueError(f'scalar_weights has shape {weights.shape}; it must be ({d},), one for a component.')
  kept = jnp.where(components, weights[None], 0)
  total = kept.sum(axis=-1, keepdims=True)
  return kept * (weights.sum() / jnp.where(total > 0, total, 1))


def check_settings(*, num_weights, alpha, weight_sampler, samplers=('dirichlet',)):
  """Raises ValueError where a setting of the sampler is out of range."""
  try:
    in_range = operator.index(num_weights) >= 1
  except TypeError:
    in_range = False
  if not in_range:
    raise ValueError(f'{num_weights=} must be a whole number, at least 1.')
  if not 0 < alpha < float('inf'):
    raise ValueError(f'{alpha=} must be a positive number.')
  if weight_sampler not in samplers:
    raise ValueError(f'{weight_sampler=} must be one of {", ".join(samplers)} for this estimator.')
