"""The page for other code bases: its blocks run as they stand. tunix's is run by adopt_tunix_test.py."""

import pathlib
import re

import numpy as np
import pytest

PAGE = (pathlib.Path(__file__).parents[1] / 'docs' / 'adopt.md').read_text()


def run_block(section: str) -> dict:
  """What the names of the section's only block stand for after it ran."""
  block, = re.findall(r'```python\n(.*?)```', PAGE.split(f'\n## {section}\n')[1].split('\n## ')[0], re.DOTALL)
  names = {}
  exec(block, names)
  return names


def test_no_section_with_a_block_is_left_out():
  parts = PAGE.split('\n## ')
  assert [part.split('\n')[0] for part in parts if '```' in part] == ['NumPy', 'torch', 'tunix', 'Your own set score']


def test_numpy():
  names = run_block('NumPy')
  # Uniform weights: the third rollout earned nothing; specialists sum to 1, and so does the compromise.
  np.testing.assert_allclose(names['values'], np.array([[1, 1, -2]]) / np.sqrt(3), rtol=1e-4)
  np.testing.assert_allclose(names['metrics']['missing_answers'], 1 / 6)


def test_torch():
  torch = pytest.importorskip('torch', reason='needs torch: pip install torch==2.13.0')
  advantages = run_block('torch')['advantages']
  assert advantages.shape == (2, 4) and advantages.dtype == torch.float32
  np.testing.assert_allclose(advantages.sum(axis=1), 0, atol=1e-5)


def test_own_set_score():
  # Sets {0,1}, {0,2}, {1,2} score 0, 0, 1, their mean is 1/3; a rollout lies in two of them.
  np.testing.assert_allclose(run_block('Your own set score')['values'], [[-1 / 3, 1 / 6, 1 / 6]], atol=1e-6)
