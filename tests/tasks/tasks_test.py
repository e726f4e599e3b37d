"""The table of tasks: contract, errors, and no JAX on the host road."""

import subprocess
import sys

import numpy as np
import pytest

from vpo_jax import tasks


@pytest.mark.parametrize('name', tasks.TASKS)
def test_every_task_keeps_the_contract(name):
  task = tasks.make(name)
  d = len(task.components)
  assert task.name == name
  assert task.scalar_weights.shape == (d,) and task.scalar_weights.sum() == pytest.approx(1)
  example = task.examples('tuning')[0]
  rng = np.random.default_rng(0)
  for num_answers in (1, 3):
    tokens = task.demonstration(example, num_answers, rng)
    assert tokens.dtype == np.int32 and len(tokens) <= task.response_width(num_answers) and tokens[-1] in task.stop_ids
    prompt = task.prompt_tokens(example, num_answers)
    assert prompt.dtype == np.int32 and len(prompt) <= task.prompt_width and prompt.max() < task.vocab_size
  vectors = task.best_vectors(example)
  mask = task.component_mask(example)
  assert vectors.shape[1] == d and mask.shape == (d,) and task.evaluation_mask(example).shape == (d,)
  assert task.oracle(example) == pytest.approx((vectors @ (mask * task.scalar_weights)).max() / mask.mean())
  assert set(task.success_components) <= set(task.components)
  other = task.examples('train')[1]
  assert {k: (v.shape, v.dtype) for k, v in example.items()} == {k: (v.shape, v.dtype) for k, v in other.items()}


def test_scoring_imports_no_jax():
  program = '''
import sys
from vpo_jax import tasks
for name in tasks.TASKS:
  task = tasks.make(name)
  example = task.examples('test')[0]
  answers = task.parse('<route_1>RIGHT 1</route_1> <program_1>x sort</program_1>', 2)
  task.reward(example, answers[0]), task.canonical(example, answers[0]), task.messages(example, 2), task.oracle(example)
assert 'jax' not in sys.modules
'''
  subprocess.run([sys.executable, '-c', program], check=True)


def test_unknown_names_are_errors_with_a_suggestion():
  with pytest.raises(ValueError, match=r"name='maze_smal'.*did you mean 'maze_small'"):
    tasks.make('maze_smal')
  with pytest.raises(ValueError, match=r"lavas=3 .*did you mean 'lava'"):
    tasks.make('maze_hard', lavas=3)
