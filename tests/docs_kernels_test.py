"""The pages about kernels: complete, with settings that exist, and a road for newcomers that leads where it says."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from vpo_jax import advantages
from vpo_jax.experience import check_advantage

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ROOT / 'docs' / 'kernels'
TINY = ['--config.num_steps=2', '--config.model.d_model=8', '--config.model.num_layers=1', '--config.model.d_ff=8',
        '--config.model.num_heads=1', '--config.model.num_kv_heads=1', '--config.model.head_dim=8']
FEW = {'warm_start': ['--config.experience.prompts=(2,2)'],
       'grpo': ['--config.experience.prompts=2', '--config.experience.rollouts=3']}


@pytest.mark.parametrize('name', advantages.ESTIMATORS)
def test_every_kernel_has_a_page_with_equation_picture_use_cost_and_settings_that_exist(name):
  text = (PAGES / f'{name}.md').read_text()
  assert text.startswith(f'# `{name}`') and '$' in text and f'(figures/{name}.png)' in text
  for part in ('When', 'Cost'):
    assert re.search(rf'\*\*{part}\.\*\*|^## {part}', text, re.MULTILINE), part
  assert f']({name}.md)' in (PAGES / 'README.md').read_text()
  settings = eval(re.search(r'^    advantage=(dict\(.*\))$', text, re.MULTILINE).group(1))
  assert settings['name'] == name
  check_advantage(settings, rollouts=36, num_answers=1, components=2)


@pytest.mark.parametrize('name', advantages.ESTIMATORS)
def test_every_setting_is_named_where_a_reader_looks(name):
  arrays = {'rollout_mask', 'answer_mask', 'component_mask', 'scalar_weights', 'answer_ids', 'prompt_ids', 'clusters',
            'lengths'}
  shared = {'ddof', 'eps', 'baseline', 'normalize'}
  page, common = ((PAGES / f'{file}.md').read_text() for file in (name, 'README'))
  named = lambda text: set(re.findall(r"[`(,] ?(\w+)(?=[`=])", text))
  assert shared <= named(common)
  assert set(advantages.settings_of(name)) - arrays - shared <= named(page)


def test_links_lead_to_files():
  for page in [*PAGES.glob('*.md'), *(ROOT / 'docs').glob('*.md')]:
    for target in re.findall(r'\]\((?!https?:)([^)#]+)\)', page.read_text()):
      assert (page.parent / target).exists(), (page.name, target)


def test_dynamic_weights_change_what_a_kernel_pays():
  block, = re.findall(r'```python\n(.*?)```', (PAGES / 'dynamic_weights.md').read_text(), re.DOTALL)
  names = {}
  exec(block, names)
  front, rewards = names['front'], names['rewards']
  assert front.used.any() and names['values'].shape == (8, 4)
  preferred = rewards[:, :, 0] @ [.25, .75]
  factor = names['values'] / (preferred - preferred.mean(axis=1, keepdims=True))  # `dr_grpo` has no deviation.
  np.testing.assert_allclose(factor, factor[0, 0], rtol=1e-3)
  assert .5 <= factor[0, 0] < 2


def test_the_road_from_a_file_to_a_training(tmp_path):
  text = (PAGES / 'add_a_kernel.md').read_text()
  kernel, table = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
  laws, training = re.findall(r'```sh\n(.*?)```', text, re.DOTALL)
  for part in ('vpo_jax', 'experiments', 'tests'):
    shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns('__pycache__', 'runs', 'figures'))
  shutil.copy(ROOT / 'pyproject.toml', tmp_path)

  path, = re.findall(r'\*\*1\. The file\*\* `(.*?)`', text)
  (tmp_path / path).write_text(kernel)
  importing, entry = (line for line in table.splitlines() if line)
  init = tmp_path / 'vpo_jax' / 'advantages' / '__init__.py'
  before, after = init.read_text().split('ESTIMATORS = {\n')
  init.write_text(before.replace('\nimport inspect\n', f'\nimport inspect\n\n{importing}\n')
                  + f'ESTIMATORS = {{\n{entry}\n' + after)

  def run(line, *more):
    command = [sys.executable, *shlex.split(line)[1:], *more]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout

  assert re.search(r'\d+ passed', run(laws.strip(), '-p', 'no:cacheprovider', '-p', 'no:xdist'))
  for line in training.strip().splitlines():
    config = re.search(r'maze_small/(\w+)\.py', line).group(1)
    run(line, *TINY, *FEW[config])
  assert '"step": 2' in (tmp_path / 'runs' / 'weakest' / 'metrics.jsonl').read_text()
