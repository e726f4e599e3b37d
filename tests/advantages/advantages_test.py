import inspect

import jax
import numpy as np
import pytest

from vpo_jax import advantages


def test_every_estimator_has_the_contracts_signature():
  for name, estimator in advantages.ESTIMATORS.items():
    parameters = list(inspect.signature(estimator).parameters.values())
    assert [p.name for p in parameters[:5]] == ['rewards', 'key', 'rollout_mask', 'answer_mask', 'component_mask'], name
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[2:])


def test_settings_say_what_train_may_pass():
  assert 'prompt_ids' in advantages.settings_of('vpo') and 'scalar_weights' not in advantages.settings_of('vpo')
  assert advantages.settings_of('vpo')['num_weights'] == 100
  assert advantages.settings_of('grpo')['ddof'] == 1
  assert 'answer_ids' in advantages.settings_of('multi_rlvr')


def test_misspelt_names_are_met_with_a_suggestion():
  rewards = np.ones((1, 2, 1, 1))
  with pytest.raises(ValueError, match=r"name='max_at_n' is no estimator. Did you mean max_at_k\?"):
    advantages.compute('max_at_n', rewards)
  with pytest.raises(ValueError, match='There are: diversity_bonus, dr_grpo'):
    advantages.settings_of('actor_critic')
  with pytest.raises(ValueError, match=r"vpo has no setting 'num_weight'. Did you mean num_weights"):
    advantages.compute('vpo', rewards, num_weight=3)
  with pytest.raises(ValueError, match=r"grpo has no setting 'k'"):
    advantages.compute('grpo', rewards, k=1)


# Settings under which an estimator draws.
DRAWS = {'poly_epo': {'num_sets': 2}, 'hypervolume': {'method': 'monte_carlo'}}


@pytest.mark.parametrize('name', sorted(advantages.ESTIMATORS))
def test_static_faults_are_named(name):
  for fault in (dict(ddof=3), dict(eps=-1.), dict(baseline='best'), dict(normalize='max'), dict(alpha=-1.),
                dict(num_weights=0), dict(weight_sampler='sobl'), dict(scalar_weights=np.array([-1.])), dict(k=9),
                dict(answer_mask=np.ones((1, 2), bool)), dict(prompt_ids=np.zeros(2, int))):
    field, = fault
    if field in advantages.settings_of(name):
      with pytest.raises(ValueError, match=field):
        advantages.compute(name, np.ones((1, 4, 1, 1)), jax.random.key(0), **fault, **DRAWS.get(name, {}))
