"""The README's code runs as it stands: the kernel gives advantages, the task trains, the commands exist."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from experiments.maze_small import grpo
from vpo_jax import advantages, tasks
from vpo_jax.train import train

README = (pathlib.Path(__file__).parents[1] / 'README.md').read_text()


def python_blocks() -> list[str]:
  return re.findall(r'```python\n(.*?)```', README, re.DOTALL)


def test_the_kernel_pays_the_best_component(monkeypatch):
  names = {}
  exec(python_blocks()[0], names)
  monkeypatch.setitem(advantages.ESTIMATORS, 'best_component', names['best_component'])
  rewards = jnp.array([[[[0., 1.]], [[.5, .5]]]])  # One prompt, two rollouts of one answer: credits 1 and .5.
  values, _ = advantages.compute('best_component', rewards)
  np.testing.assert_allclose(values, [[1, -1]], atol=1e-4)


def test_the_task_trains(monkeypatch, tmp_path):
  names = dict(dataclasses=dataclasses, np=np, jnp=jnp)
  exec(python_blocks()[1], names)
  monkeypatch.setitem(tasks.TASKS, 'digits', names['Digits'])
  config = ml_collections.ConfigDict(grpo.get_config().to_dict())
  with config.unlocked():
    config.task = dict(name='digits')
    config.model = dict(d_model=16, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=16, d_ff=16)
    config.init_from, config.num_steps, config.mesh = '', 2, dict(data=8, fsdp=1, tensor=1)
    config.experience.update(prompts=8, rollouts=2, max_new_tokens=2, advantage=dict(name='grpo'))
  with jax.numpy_rank_promotion('allow'):  # A sketch for readers, not under the strictness of this package's code.
    assert int(train(tmp_path, config).step) == 2


def test_the_commands_exist():
  for module in sorted(set(re.findall(r'python -m (vpo_jax[\w.]*)', README))):
    done = subprocess.run([sys.executable, '-m', module, '--help'], capture_output=True, text=True)
    assert done.returncode == 0 and 'usage' in done.stdout, (module, done.stderr)


def test_the_links_lead_to_files():
  root = pathlib.Path(__file__).parents[1]
  for target in re.findall(r'\]\((?!https?:)([^)#]+)\)', README):
    assert (root / target).exists(), target
