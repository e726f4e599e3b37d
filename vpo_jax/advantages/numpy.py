"""The estimators for code without JAX: NumPy, lists and DLPack tensors in, NumPy out.

Axes: B prompts, G rollouts of a prompt, m answers in each, d reward components.
"""

import functools
import numbers

import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax import advantages
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.weights import scalar_weighting


def compute(name: str, rewards, *, seed: int | None = None, step: int = 0, **keywords) -> Advantages:
  """Advantages by the estimator called `name`, compiled once for its settings and the shapes.

  The arrays (rewards, masks, ids, lengths, `scalar_weights`) may be lists, NumPy arrays or whatever has `__dlpack__`,
  such as torch tensors; those stay on their device until the result is read. Gradients are dropped. Floats are
  computed in float32, unless JAX runs with `jax_enable_x64`.

  Args:
    name: a key of `ESTIMATORS`.
    rewards: `[B, G, m, d]` reward vector of every answer.
    seed: of the estimators that draw, in [0, 2^32); also of those that have a setting of this name.
    step: in [0, 2^32); each step draws anew.
    **keywords: what `settings_of(name)` lists. A function (`set_score`) compiles anew for every new function object.

  Returns:
    Values `[B, G]`, a NumPy array of its own memory; metrics, Python floats.

  Raises:
    ValueError: what `advantages.compute` refuses, before compilation; a seed that is missing or out of range; an array
      of no numbers, of integers beyond 32 bits, or on a device that JAX does not have.
  """
  advantages.settings_of(name)
  is_array = lambda x: isinstance(x, list | tuple) or getattr(x, 'ndim', 0) > 0
  arrays = {field: _array(field, x) for field, x in keywords.items() if is_array(x)}
  settings = {field: x.item() if hasattr(x, 'item') else x for field, x in keywords.items() if field not in arrays}
  rewards = _array('rewards', rewards)
  if 'scalar_weights' in arrays:  # Their values are checked where they are known: not inside jit.
    scalar_weighting(np.asarray(arrays['scalar_weights']), np.ones((1, *rewards.shape[-1:]), bool))
  if isinstance(rewards, jax.Array):  # A program runs on one device, and masks are often made elsewhere.
    arrays = jax.device_put(arrays, rewards.device)
  credited = _compiled(name, advantages.ESTIMATORS[name], **dict(sorted(settings.items())))
  try:
    values, metrics = jax.device_get(credited(rewards, arrays, _uint32('seed', seed), _uint32('step', step)))
  except ValueError as error:
    if not str(error).startswith('key=None'):
      raise
    raise ValueError(f'{seed=} must be a whole number: {name} draws at random, from (seed, step).') from None
  return Advantages(np.array(values), {metric: float(x) for metric, x in metrics.items()})


@functools.lru_cache(maxsize=64, typed=True)  # Typed: k=1 and k=True are two settings, one of them refused.
def _compiled(name, estimator, /, **settings):
  del estimator  # In the cache's key: another function registered under the same name is another program.
  takes_seed = 'seed' in advantages.settings_of(name)

  def credited(rewards, arrays, seed, step):
    key = None if seed is None else jax.random.fold_in(jax.random.key(seed), step)
    own_seed = {'seed': seed} if takes_seed and seed is not None else {}
    return advantages.compute(name, rewards, key, **arrays, **own_seed, **settings)

  return jax.jit(credited)


def _array(field, x):
  """`x` with a dtype that JAX computes in by default: on its device if it came by DLPack, else in NumPy."""
  if hasattr(x, 'detach'):  # torch exports neither what needs a gradient nor, to JAX, a view with gaps.
    x = x.detach().contiguous()
  wide = jax.config.jax_enable_x64
  with jax.enable_x64(True):  # Else 64 bits are cut to 32 without a look at what they hold.
    if hasattr(x, '__dlpack__') and not isinstance(x, np.ndarray):
      x = _from_dlpack(field, x)
    else:
      x = np.asarray(x)
    if x.dtype == bool:
      return x
    if jnp.issubdtype(x.dtype, jnp.floating):
      return x if wide else x.astype(np.float32)
    if not jnp.issubdtype(x.dtype, jnp.integer):
      raise ValueError(f'{field} has dtype {x.dtype}; it must hold real numbers or booleans.')
    low, high = (int(x.min()), int(x.max())) if x.size else (0, 0)
    if low < -2**31 or high >= 2**31:
      raise ValueError(f'{field} spans [{low}, {high}]; integers must fit 32 bits. np.unique(.., return_inverse=True) '
                       'numbers hashes and the like from 0.')
    return x.astype(np.int32)


def _from_dlpack(field, x):
  try:
    return jax.dlpack.from_dlpack(x)
  except (BufferError, RuntimeError, TypeError, ValueError) as error:
    raise ValueError(f'{field} did not come through DLPack; it must be a dense array on a device that JAX has '
                     f'({", ".join(sorted({d.platform for d in jax.devices()}))}): {error}') from error


def _uint32(field, number):
  if number is None and field == 'seed':
    return None
  if not (isinstance(number, numbers.Integral) and 0 <= number < 2**32):
    raise ValueError(f'{field}={number} must be a whole number in [0, 2^32).')
  return np.uint32(number)
