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


@pytest.mark.parametrize('name', sorted(advantages.ESTIMATORS))
def test_one_rollout_a_prompt_is_refused(name):
  with pytest.raises(ValueError, match='one rollout a prompt'):
    advantages.compute(name, np.ones((2, 1, 1, 1)))
