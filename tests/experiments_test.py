"""Every config under `experiments/` trains, and every field of it is read or refused."""

import ast
import copy
import functools
import inspect
import pathlib
import textwrap
import types

import pytest

from tests import tiny_run
from vpo_jax import advantages, config, partition, tasks
from vpo_jax import evaluate as evaluate_lib
from vpo_jax import train as train_lib
from vpo_jax.experience import Demonstrations, SampledAnswers
from vpo_jax.learner import LossSettings, adamw
from vpo_jax.models.config import ModelConfig

FILES = sorted(path.relative_to(tiny_run.ROOT) for path in (tiny_run.ROOT / 'experiments').glob('*/*.py')
               if 'def get_config(' in path.read_text())
# Sizes that take a second; every other field is the experiment's own.
TINY = dict(model=dict(d_model=8, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=4, d_ff=8), num_steps=2)
EXPERIENCE = {
    'rollouts': dict(prompts=4, rollouts=4, max_new_tokens=8, segments=1),
    'demonstrations': dict(prompts=(4, 4))}


def load(path):
  return config.load(tiny_run.ROOT / path)


def tiny(path, **fields):
  settings = load(path)
  settings.update(copy.deepcopy(TINY) | dict(experience=EXPERIENCE[settings.experience.kind]) | fields)
  if 'k' in settings.experience.get('advantage', ()):
    settings.experience.advantage.k = 2
  return settings


@pytest.fixture(scope='module')
def warm_starts(tmp_path_factory):
  """`folder(group)` of a trained tiny start of a group's methods."""
  @functools.cache
  def folder(group):
    workdir = tmp_path_factory.mktemp('warm') / group
    train_lib.train(workdir, tiny(f'experiments/{group}/warm_start.py'))
    return str(workdir)
  return folder


def test_there_are_experiments():
  assert len(FILES) >= 17


@pytest.mark.parametrize('path', FILES, ids=str)
def test_every_experiment_trains(path, warm_starts, tmp_path):
  with tiny_run.devices(1):
    fields = dict(init_from=warm_starts(path.parent.name)) if load(path).init_from else {}
    train_lib.train(tmp_path, tiny(path, **fields))
  first, second = tiny_run.rows(tmp_path)
  assert first['tokens'] > 0 and first['entropy'] > 1 and second['step'] == 2


def leaves(fields, place=()):
  """Places of all fields in nested dicts."""
  for name, value in fields.items():
    yield from leaves(value, (*place, name)) if isinstance(value, dict) else [(*place, name)]


def test_every_field_is_refused_under_another_name(monkeypatch):
  # What comes after the learner does not depend on its programs.
  stub = types.SimpleNamespace(config=None, updates_per_batch=1, mesh=partition.make_mesh())
  monkeypatch.setattr(train_lib, 'Learner', lambda *args, **keywords: stub)
  monkeypatch.setattr('vpo_jax.experience.RolloutLoop', lambda *args, **keywords: None)
  checked = set()
  for path in FILES:
    plain = config.plain(load(path))
    config.call(train_lib.make_run, plain, 'config')  # As it stands it is fine.
    for place in leaves(plain):
      variety = (place, plain['experience']['kind'], plain['experience'].get('advantage', {}).get('name'))
      if variety in checked:
        continue
      checked.add(variety)
      renamed = copy.deepcopy(plain)
      parent = functools.reduce(dict.__getitem__, place[:-1], renamed)
      parent[f'{place[-1]}_x'] = parent.pop(place[-1])
      with pytest.raises(ValueError, match=f'{place[-1]}'):
        if place[0] == 'eval':
          config.call(evaluate_lib.sample_pool, dict(task=0, model=0, params=0, mesh=0) | renamed['eval'], 'eval')
        else:
          config.call(train_lib.make_run, renamed, 'config')
  assert len(checked) > 50


def loaded_names(function):
  """Names that the body of a function reads, inner functions included."""
  tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
  return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


@pytest.mark.parametrize('function', [
    train_lib.make_run, train_lib._checkpoint_fields, evaluate_lib.sample_pool, adamw, partition.make_mesh,
    SampledAnswers.__init__, Demonstrations.__init__, *advantages.ESTIMATORS.values()],
    ids=lambda function: function.__qualname__)
def test_every_keyword_is_read(function):
  keywords = {name for name, parameter in inspect.signature(function).parameters.items() if name not in ('self', 'key')}
  # `evaluate` reads the part `eval`; the masks that an estimator has no use for it names all the same.
  assert keywords - loaded_names(function) - {'eval'} == set()


@pytest.mark.parametrize('record', [LossSettings, ModelConfig, *tasks.TASKS.values()])
def test_every_field_of_a_record_is_read(record):
  package = pathlib.Path(train_lib.__file__).parent
  read = set()
  for path in package.rglob('*.py'):
    tree = ast.parse(path.read_text())
    checks = [node for node in ast.walk(tree) if getattr(node, 'name', '') == '__post_init__']
    for node in set(ast.walk(tree)) - {node for check in checks for node in ast.walk(check)}:  # To check is not to use.
      if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        read.add(node.attr)
  assert set(record.__dataclass_fields__) - read == set()
