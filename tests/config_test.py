"""Configs: overrides keep types, mistakes are named, and another run's workdir is refused."""

import json
import os
import re
import shutil
import subprocess
import sys

import jax
import pytest

from vpo_jax import config

FILE = '''
import ml_collections
from ml_collections import config_dict

def get_config(text='none'):
  c = ml_collections.ConfigDict()
  c.num_steps = 400
  c.text = text
  c.overlap = True
  c.kl_coef = config_dict.placeholder(float)
  c.resume_from = config_dict.placeholder(str)
  c.eos_ids = (1, 2)
  c.optimizer = dict(name='adam', learning_rate=1e-3)
  return c
'''


@pytest.fixture(name='file')
def config_file(tmp_path):
  path = tmp_path / 'run.py'
  path.write_text(FILE)
  return str(path)


def test_a_file_is_read_as_it_stands(file):
  assert config.plain(config.load(file)) == dict(
      num_steps=400, text='none', overlap=True, kl_coef=None, resume_from=None, eos_ids=(1, 2),
      optimizer=dict(name='adam', learning_rate=1e-3))
  assert config.load(file + ':some words').text == 'some words'


@pytest.mark.parametrize('argument,name,value', [
    ('--config.num_steps=2', 'num_steps', 2),
    ('--config.overlap=false', 'overlap', False),
    ('--config.kl_coef=0.05', 'kl_coef', .05),
    ('--config.kl_coef=-1', 'kl_coef', -1.),
    ('--config.eos_ids=(7,)', 'eos_ids', (7,)),
    ('--config.eos_ids=[1,2,3]', 'eos_ids', (1, 2, 3)),
    ('--config.resume_from=folder', 'resume_from', 'folder'),
    ('--config.resume_from=None', 'resume_from', None),
    ('--config.text=3', 'text', '3'),
    ('--config.text=a=b', 'text', 'a=b'),
    ('--config.optimizer.name=sgd', 'optimizer.name', 'sgd'),
    ('--config.optimizer.learning_rate=1', 'optimizer.learning_rate', 1.),
])
def test_an_override_has_the_type_of_its_field(file, argument, name, value):
  plain = config.plain(config.load(file, [argument]))
  spaced = config.plain(config.load(file, argument.split('=', 1)))
  for part in name.split('.'):
    plain, spaced = plain[part], spaced[part]
  assert plain == value and type(plain) is type(value)
  assert spaced == value


def test_boolean_flags_without_value_and_the_last_word(file):
  assert not config.load(file, ['--noconfig.overlap', '--config.num_steps=2']).overlap
  assert config.load(file, ['--config.overlap=false', '--config.overlap']).overlap
  assert config.load(file, ['--config.kl_coef=1', '--config.num_steps=3', '--config.num_steps=4']).num_steps == 4


@pytest.mark.parametrize('argument,message', [
    ('--config.num_stepz=3', 'config.num_stepz must be a field of the config; did you mean config.num_steps?'),
    ('--config.learning_rate=3', 'did you mean config.optimizer.learning_rate?'),
    ('--config.zzz=3', 'the fields are eos_ids, kl_coef, num_steps'),
    ('--config.optimizer=sgd', 'config.optimizer must be set field by field: optimizer.learning_rate, optimizer.name'),
    ('--config.num_steps=3.5', '--config.num_steps=3.5'),
    ('--config.kl_coef=low', '--config.kl_coef=low'),
    ('--config.num_steps=None', 'config.num_steps=None must be of type int'),
    ('--config.text=None', 'config.text=None must be of type str'),
    ('--wrokdir=x', "argument='--wrokdir=x' must look like --config.field=value"),
])
def test_a_wrong_override_is_named(file, argument, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    config.load(file, [argument])


def test_a_locked_config_takes_no_new_field(file):
  with pytest.raises(AttributeError, match='num_stepz'):
    config.load(file).num_stepz = 3


@pytest.mark.parametrize('line,message', [
    ('c.kl = None', r'config.kl=None must have a type: .*placeholder'),
    ('c.optimizer.betas = [.9, .99]', 'config.optimizer.betas must be a tuple'),
])
def test_fields_without_a_type_are_refused(tmp_path, line, message):
  (tmp_path / 'run.py').write_text(FILE.replace('  return c', f'  {line}\n  return c'))
  with pytest.raises(ValueError, match=message):
    config.load(str(tmp_path / 'run.py'))


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(ValueError, match=r'must be a Python file that defines get_config\(\); there is no .*nowhere.py'):
    config.load(str(tmp_path / 'nowhere.py'))


def test_a_config_read_back_from_json_is_the_same_and_can_be_overridden(file):
  original = config.load(file, ['--config.num_steps=7'])
  content = json.loads(json.dumps(config.plain(original)))
  assert config.plain(config.load(content)) == config.plain(original)
  again = config.load(content, ['--config.kl_coef=.5', '--config.eos_ids=(3,)', '--config.optimizer.name=sgd'])
  assert (again.kl_coef, again.eos_ids, again.optimizer.name) == (.5, (3,), 'sgd')
  with pytest.raises(ValueError, match=r'did you mean config.num_steps\?'):
    config.load(content, ['--config.num_step=3'])


def test_a_record_survives_json_and_says_what_ran(file):
  record = config.record(config.load(file), warm_start='abc')
  assert json.loads(json.dumps(record))['config']['optimizer'] == dict(name='adam', learning_rate=1e-3)
  assert record['versions']['jax'] == jax.__version__
  assert record['devices'] == dict(platform='cpu', kind='cpu', count=8, processes=1)
  assert record['threads'] >= 1
  assert record['warm_start'] == 'abc'


def test_a_resume_compares_configs(file):
  saved = json.loads(json.dumps(config.record(config.load(file))))
  assert config.require_same_run(saved, config.record(config.load(file))) == []
  other = config.record(config.load(file, ['--config.eos_ids=(1,)', '--config.optimizer.name=sgd',
                                           '--config.num_steps=500']), warm_start='abc')
  with pytest.raises(ValueError) as caught:
    config.require_same_run(saved, other, may_change=['num_steps'])
  assert '  eos_ids: [1, 2] in the workdir, [1] now\n' in str(caught.value)
  assert "  optimizer.name: 'adam' in the workdir, 'sgd' now\n" in str(caught.value)
  assert "  warm_start: '' in the workdir, 'abc' now\n" in str(caught.value)
  assert 'num_steps' not in str(caught.value)
  with pytest.raises(ValueError, match='num_steps: 400 in the workdir, 500 now'):
    config.require_same_run(saved, other)
  longer = config.record(config.load(file, ['--config.num_steps=500']))
  assert config.require_same_run(saved, longer, may_change=['num_steps']) == []


def test_a_resume_compares_fields_that_only_one_side_has_and_types(file):
  saved = config.record(config.load(file))
  older = saved | {'config': {key: value for key, value in saved['config'].items() if key != 'overlap'}}
  with pytest.raises(ValueError, match="overlap: 'absent' in the workdir, True now"):
    config.require_same_run(older, saved)
  with pytest.raises(ValueError, match='overlap: True in the workdir, 1 now'):
    config.require_same_run(saved, saved | {'config': saved['config'] | {'overlap': 1}})


def test_many_differences_are_cut_at_five():
  record = dict(config={f'f{i}': i for i in range(9)}, warm_start='')
  other = dict(config={f'f{i}': -i for i in range(9)}, warm_start='')
  with pytest.raises(ValueError, match=r'f5: 5 in the workdir, -5 now\n  and 3 more'):
    config.require_same_run(record, other)


def test_other_devices_and_versions_are_told_not_refused(file):
  saved = config.record(config.load(file))
  other = saved | {'devices': saved['devices'] | {'count': 4}, 'threads': saved['threads'] + 1}
  notes = config.require_same_run(saved, other)
  assert len(notes) == 2
  assert notes[0] == 'Resuming with devices.count 4 instead of 8: the results will not be bit-identical.'


def test_the_commit_is_that_of_the_package_or_none(tmp_path):
  def state(package_folder):
    code = 'from vpo_jax import config; print(*config._git_state())'
    environment = os.environ | {'PYTHONPATH': str(package_folder)}
    return subprocess.run([sys.executable, '-c', code], env=environment, cwd='/', capture_output=True, text=True,
                          check=True).stdout.split()

  def git(*arguments):
    identity = ('-c', 'user.name=n', '-c', 'user.email=e')
    return subprocess.run(['git', '-C', tmp_path, *identity, *arguments], capture_output=True, text=True,
                          check=True).stdout.strip()

  package = tmp_path / 'vpo_jax'
  package.mkdir()
  for name in ('__init__.py', 'config.py'):
    source = os.path.join(os.path.dirname(config.__file__), name)
    shutil.copy(source, package / name)
  git('init', '-q')
  git('commit', '-q', '--allow-empty', '-m', 'other work')
  assert state(tmp_path) == ['None', 'None']  # A copy that the surrounding checkout does not track.
  git('add', 'vpo_jax')
  git('commit', '-q', '-m', 'package')
  assert state(tmp_path) == [git('rev-parse', 'HEAD'), 'False']
  with open(package / '__init__.py', 'a') as file:
    file.write('\n')
  assert state(tmp_path) == [git('rev-parse', 'HEAD'), 'True']


def test_a_call_names_what_is_unknown_or_missing():
  def make(*, learning_rate, clip_norm=1.):
    return learning_rate * clip_norm

  assert config.call(make, {'learning_rate': 3., 'clip_norm': 2.}, 'config.optimizer') == 6.
  with pytest.raises(ValueError, match=r'optimizer.learning_rat=3 must be a field; did you mean learning_rate\?'):
    config.call(make, {'learning_rat': 3}, 'config.optimizer')
  with pytest.raises(ValueError, match=r'optimizer.zz=3 must be a field; the fields are learning_rate, clip_norm'):
    config.call(make, {'zz': 3}, 'config.optimizer')
  with pytest.raises(ValueError, match=r'config.optimizer.learning_rate must be set'):
    config.call(make, {}, 'config.optimizer')
