import jax
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages.weights import simplex_weights

compute = jax.jit(advantages.compute, static_argnames=('name', 'redraw'))


def test_grpo_on_the_weighting_of_the_prompt_and_the_step():
  rewards = np.random.default_rng(0).random((2, 5, 1, 3)).astype(np.float32)
  for step in (0, 1):
    key = jax.random.fold_in(jax.random.key(0), step)
    actual = compute('random_weights', rewards, key, prompt_ids=np.array([8, 3]))
    for b, prompt in enumerate((8, 3)):
      weights = simplex_weights(jax.random.fold_in(key, prompt), 1, 3)[0]
      expected = compute('grpo', rewards, scalar_weights=weights)
      np.testing.assert_allclose(actual.values[b], expected.values[b], atol=1e-4)


def test_needs_a_key():
  with pytest.raises(ValueError, match='key=None'):
    advantages.compute('random_weights', np.ones((1, 2, 1, 1)))


def test_a_weighting_may_stay_with_its_prompt():
  rewards = np.random.default_rng(1).random((2, 5, 1, 3)).astype(np.float32)
  ids = np.array([8, 3])
  values = lambda key, **kw: compute('random_weights', rewards, jax.random.key(key), prompt_ids=ids, **kw).values
  kept = values(0, redraw='never')
  np.testing.assert_array_equal(kept, values(1, redraw='never'))
  for b in range(2):
    weights = simplex_weights(jax.random.fold_in(jax.random.key(0), ids[b]), 1, 3)[0]
    np.testing.assert_allclose(kept[b], compute('grpo', rewards, scalar_weights=weights).values[b], atol=1e-4)
  assert np.abs(kept - values(0, redraw='never', seed=1)).max() > .01
  assert np.abs(values(0) - values(1)).max() > .01
  no_key = compute('random_weights', rewards, prompt_ids=ids, redraw='never').values
  np.testing.assert_array_equal(no_key, kept)


def test_what_stays_needs_the_prompts_name():
  with pytest.raises(ValueError, match="redraw='never' needs prompt_ids"):
    advantages.compute('random_weights', np.ones((1, 2, 1, 1)), jax.random.key(0), redraw='never')
  with pytest.raises(ValueError, match="redraw='epoch' must be one of step, never"):
    advantages.compute('random_weights', np.ones((1, 2, 1, 1)), jax.random.key(0), redraw='epoch')
