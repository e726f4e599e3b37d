import functools

import jax
import numpy as np
import pytest

from vpo_jax import advantages

compute = jax.jit(functools.partial(advantages.compute, 'grpo'), static_argnames=('baseline', 'normalize'))


def test_standardised_scalars():
  # Scalars 1, 2, 3 under (1, 1): the sample deviation is 1.
  rewards = np.array([[1, 0], [1, 1], [0, 3]], float)[None, :, None]
  values, metrics = compute(rewards, scalar_weights=np.ones(2))
  np.testing.assert_allclose(values[0], [-1, 0, 1], atol=1e-5)
  np.testing.assert_allclose([metrics['set_reward'], metrics['pool_best'], metrics['group_std']], [2, 3, 1])


def test_several_answers_count_by_the_mean_of_those_given():
  rewards = np.array([[0, 1], [.2, 9]])[None, :, :, None]
  answer_mask = np.array([[[True, True], [True, False]]])
  values, _ = compute(rewards, answer_mask=answer_mask, baseline='none', normalize='none')
  np.testing.assert_allclose(values[0], [.5, .2], rtol=1e-6)


def test_the_expected_gradient_without_deviation():
  """E of the mean of A_i ∇log p(y_i) is (1 - 1/N) times the gradient of the expected reward, over all pairs."""
  probs, rewards = np.array([.3, .7]), np.array([1., .4])
  pairs = np.array([(i, j) for i in range(2) for j in range(2)])
  for baseline, factor in (('mean', .5), ('loo', 1), ('none', 1)):
    values, _ = compute(
        rewards[pairs][:, :, None, None], baseline=baseline, normalize='none')
    estimate = np.einsum('b,bg,bga->a', probs[pairs].prod(axis=1), values, np.eye(2)[pairs] - probs) / 2
    gradient = probs * (rewards - probs @ rewards)
    np.testing.assert_allclose(estimate, factor * gradient, atol=1e-6)


@pytest.mark.parametrize('name', sorted(advantages.ESTIMATORS))
def test_one_rollout_a_prompt_is_refused(name):
  with pytest.raises(ValueError, match='one rollout a prompt'):
    advantages.compute(name, np.ones((2, 1, 1, 1)))
