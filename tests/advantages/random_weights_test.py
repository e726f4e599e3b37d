import jax
import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.advantages.weights import simplex_weights

compute = jax.jit(advantages.compute, static_argnames='name')


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
