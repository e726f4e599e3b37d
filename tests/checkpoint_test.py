"""Checkpoints: what comes back, what is refused, and what a kill leaves behind."""

import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from vpo_jax import checkpoint


class State(flax.struct.PyTreeNode):
  step: jax.Array
  params: dict
  moments: optax.OptState
  key: jax.Array


def make_state(step=0, seed=0):
  params = {
      'layers': {'query': jax.random.normal(jax.random.key(seed), (4, 8))},
      'embedding': jnp.arange(6, dtype=jnp.bfloat16),
  }
  return State(jnp.int32(step), params, optax.adam(1e-3, mu_dtype=jnp.bfloat16).init(params), jax.random.key(seed + 7))


def assert_same(actual, expected):
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
    assert a.dtype == e.dtype
    if jnp.issubdtype(e.dtype, jax.dtypes.prng_key):
      a, e = jax.random.key_data(a), jax.random.key_data(e)
    assert np.asarray(a).tobytes() == np.asarray(e).tobytes()


def test_everything_comes_back_bit_for_bit(tmp_path):
  state = make_state(step=16777217)  # The first int32 that float32 cannot hold.
  with checkpoint.Checkpoints(tmp_path / 'new' / 'folder', every=5, keep=2) as checkpoints:
    assert checkpoints.latest_step() is None
    checkpoints.save(3, state, {'seed': 0, 'note': 'x'})
  with checkpoint.Checkpoints(tmp_path / 'new' / 'folder', every=5, keep=2) as checkpoints:
    step, restored, meta = checkpoints.restore(jax.eval_shape(lambda: state))
  assert (step, meta) == (3, {'seed': 0, 'note': 'x'})
  assert_same(restored, state)
  np.testing.assert_array_equal(jax.random.bits(restored.key, (3,)), jax.random.bits(state.key, (3,)))


def test_legacy_keys_come_back(tmp_path):
  key = jax.random.PRNGKey(5)
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
    checkpoints.save(1, {'key': key}, {})
    assert_same(checkpoints.restore({'key': key})[1], {'key': key})


def test_state_may_be_donated_while_it_is_written(tmp_path):
  state = {'x': jnp.arange(1 << 20, dtype=jnp.float32)}
  add_one = jax.jit(lambda s: {'x': s['x'] + 1}, donate_argnums=0)
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
    checkpoints.save(1, state, {})
    for _ in range(20):
      state = add_one(state)
    _, restored, _ = checkpoints.restore({'x': jax.ShapeDtypeStruct((1 << 20,), jnp.float32)})
  np.testing.assert_array_equal(restored['x'], np.arange(1 << 20))


@pytest.mark.parametrize('num_devices,axes', [(1, ('fsdp', None)), (2, (None, 'fsdp')), (8, (None, 'fsdp'))])
def test_a_checkpoint_opens_on_another_mesh(tmp_path, num_devices, axes):
  def on(devices, spec):
    return NamedSharding(jax.make_mesh((len(devices),), ('fsdp',), devices=devices), PartitionSpec(*spec))

  state = {'params': jnp.arange(32.).reshape(4, 8), 'step': jnp.int32(9)}
  saved = jax.device_put(state, {'params': on(jax.devices()[:4], ('fsdp', None)), 'step': on(jax.devices()[:4], ())})
  target = {
      'params': jax.ShapeDtypeStruct((4, 8), jnp.float32, sharding=on(jax.devices()[:num_devices], axes)),
      'step': jax.ShapeDtypeStruct((), jnp.int32, sharding=on(jax.devices()[:num_devices], ())),
  }
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
    checkpoints.save(1, saved, {})
    _, restored, _ = checkpoints.restore(target)
  assert_same(restored, state)
  assert restored['params'].sharding == target['params'].sharding
  params = checkpoint.restore_params(tmp_path, target['params'])
  assert_same(params, state['params'])
  assert params.sharding == target['params'].sharding


def test_parameters_are_read_alone(tmp_path):
  state = make_state()
  with checkpoint.Checkpoints(tmp_path, every=1, keep=2) as checkpoints:
    checkpoints.save(1, state, {'seed': 1})
    checkpoints.save(2, state.replace(params=jax.tree.map(lambda x: x + 1, state.params)), {'seed': 2})
  abstract = jax.eval_shape(lambda: state.params)
  assert checkpoint.latest_step(tmp_path) == 2
  assert_same(checkpoint.restore_params(tmp_path, abstract, step=1), state.params)
  assert_same(checkpoint.restore_params(tmp_path, abstract), jax.tree.map(lambda x: x + 1, state.params))
  assert checkpoint.restore_meta(tmp_path) == (2, {'seed': 2})
  assert checkpoint.restore_meta(tmp_path, 1) == (1, {'seed': 1})
  with pytest.raises(ValueError, match=r"leaf 'params/layers/query' is float32\[4,8\] there and must be bfloat16"):
    checkpoint.restore_params(tmp_path, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.bfloat16), abstract))


def test_another_dtype_shape_or_tree_is_an_error_that_names_the_leaf(tmp_path):
  state = {'step': jnp.int32(16777217), 'w': jnp.zeros((4, 3))}
  shape = jax.ShapeDtypeStruct
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
    checkpoints.save(1, state, {})
    for wanted, message in [
        ({'step': shape((), jnp.float32), 'w': state['w']}, r"'step' is int32\[\] there and must be float32\[\]"),
        (state | {'w': shape((3, 4), jnp.float32)}, r"'w' is float32\[4,3\] there and must be float32\[3,4\]"),
        ({'step': state['step']}, r"'w' is float32\[4,3\] there and must be absent"),
        (state | {'b': shape((2,), jnp.float32)}, r"'b' is absent there and must be float32\[2\]"),
    ]:
      with pytest.raises(ValueError, match=message):
        checkpoints.restore(wanted)


def test_the_newest_and_the_best_are_kept(tmp_path):
  with checkpoint.Checkpoints(tmp_path, every=1, keep=2) as checkpoints:
    for step, score in enumerate([float('nan'), .9, .8, None, .7], start=1):
      checkpoints.save(step, {'x': jnp.float32(step)}, {}, score=score)
    checkpoints.wait()
    assert checkpoints.steps() == [2, 4, 5]
    assert checkpoints.latest_step() == 5
    for step in (2, 5):
      assert checkpoints.restore({'x': jnp.float32(0)}, step)[1]['x'] == step
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:  # The scores are read back.
    checkpoints.save(6, {'x': jnp.float32(6)}, {}, score=.95)
    checkpoints.wait()
    assert checkpoints.steps() == [6]


def test_due_steps(tmp_path):
  with checkpoint.Checkpoints(tmp_path, every=3, keep=1) as checkpoints:
    assert [step for step in range(10) if checkpoints.due(step)] == [3, 6, 9]
    checkpoints.save(1, {'x': jnp.zeros(2)}, {})
    with pytest.raises(ValueError, match='step=1 must be new'):
      checkpoints.save(1, {'x': jnp.zeros(2)}, {})
  for wrong in (dict(every=0, keep=1), dict(every=1, keep=0)):
    with pytest.raises(ValueError, match='=0 must be at least 1'):
      checkpoint.Checkpoints(tmp_path, **wrong)


def test_what_is_missing_is_named(tmp_path):
  assert checkpoint.latest_step(tmp_path / 'nowhere') is None
  with pytest.raises(ValueError, match=r'nowhere.*does not exist'):
    checkpoint.restore_params(tmp_path / 'nowhere', {})
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
    with pytest.raises(ValueError, match='must hold a complete checkpoint, but holds none'):
      checkpoints.restore({})
    checkpoints.save(4, {'x': jnp.zeros(2)}, {})
    with pytest.raises(ValueError, match=r'step=7 must be one of the steps saved in .*: \[4\]'):
      checkpoints.restore({'x': jnp.zeros(2)}, 7)


def test_broken_and_foreign_checkpoints_are_named(tmp_path):
  state = {'x': jnp.zeros(1000)}
  with checkpoint.Checkpoints(tmp_path, every=1, keep=3) as checkpoints:
    for step in (1, 2, 3):
      checkpoints.save(step, state, {})
  (tmp_path / '2' / 'meta' / 'metadata').write_text(json.dumps({'epoch': 3}))
  for file in (tmp_path / '3' / 'state').rglob('*'):
    if file.is_file() and file.parent.name == 'd':
      file.write_bytes(file.read_bytes()[:-40])
  with checkpoint.Checkpoints(tmp_path, every=1, keep=3) as checkpoints:
    with pytest.raises(ValueError, match=r'/3 cannot be read \(state\)(.|\n)*Delete that folder'):
      checkpoints.restore(state)
    with pytest.raises(ValueError, match='/2 was not written by vpo_jax'):
      checkpoints.restore(state, 2)
    assert_same(checkpoints.restore(state, 1)[1], state)


def test_half_written_folders_are_ignored_and_cleared(tmp_path):
  state = {'x': jnp.arange(3.)}
  with checkpoint.Checkpoints(tmp_path, every=1, keep=3) as checkpoints:
    checkpoints.save(1, state, {})
  half = tmp_path / '2.orbax-checkpoint-tmp-0'  # What a kill leaves; the kill test below makes real ones.
  shutil.copytree(tmp_path / '1', half)
  assert checkpoint.latest_step(tmp_path) == 1
  with checkpoint.Checkpoints(tmp_path, every=1, keep=3) as checkpoints:
    assert checkpoints.latest_step() == 1
    checkpoints.save(2, state, {})
  assert checkpoint.latest_step(tmp_path) == 2
  assert not half.exists()


def test_a_failed_background_save_surfaces(tmp_path):
  old = resource.getrlimit(resource.RLIMIT_FSIZE)
  checkpoints = checkpoint.Checkpoints(tmp_path, every=1, keep=1)
  checkpoints.save(1, {'x': jnp.zeros(4)}, {})
  checkpoints.wait()
  state = {'x': jax.random.normal(jax.random.key(0), (1 << 18,))}  # 1 MiB that does not compress.
  resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, old[1]))  # As a full disk: writes past 64 KiB fail.
  try:
    with pytest.raises(RuntimeError, match='could not be saved in'):
      checkpoints.save(2, state, {})
      checkpoints.wait()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
  assert checkpoint.latest_step(tmp_path) == 1  # And the older one was not deleted for it.
  with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as again:
    assert again.restore({'x': jnp.zeros(4)})[0] == 1


ENDLESS_SAVER = """
import sys
import jax.numpy as jnp
from vpo_jax import checkpoint
checkpoints = checkpoint.Checkpoints(sys.argv[1], every=1, keep=1)
step = checkpoints.latest_step() or 0
print('ready', flush=True)
while True:
  step += 1
  checkpoints.save(step, {'x': jnp.full((16, 1 << 16), step)}, {'step': step})
"""


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
  generator = random.Random(0)
  environment = os.environ | {'PYTHONPATH': str(pathlib.Path(__file__).parents[1])}
  target = {'x': jax.ShapeDtypeStruct((16, 1 << 16), jnp.int32)}
  before = 0
  for _ in range(4):
    saver = subprocess.Popen([sys.executable, '-c', ENDLESS_SAVER, str(tmp_path)], env=environment,
                             stdout=subprocess.PIPE, text=True)
    try:
      assert saver.stdout.readline() == 'ready\n'
      deadline = time.monotonic() + 30
      while (checkpoint.latest_step(tmp_path) or 0) <= before and time.monotonic() < deadline:
        time.sleep(.01)
      time.sleep(generator.uniform(0, .2))
    finally:
      saver.kill()  # SIGKILL: no handler, no clean-up.
      saver.communicate()
    with checkpoint.Checkpoints(tmp_path, every=1, keep=1) as checkpoints:
      step, state, meta = checkpoints.restore(target)
    assert step > before
    assert meta == {'step': step}
    assert (np.asarray(state['x']) == step).all()
    before = step


def test_params_hash_sees_names_dtypes_shapes_and_bytes():
  mesh = jax.make_mesh((8,), ('fsdp',))
  params = {'a': jnp.arange(8.), 'b': jnp.int32(3)}
  same = params | {'a': jax.device_put(params['a'], NamedSharding(mesh, PartitionSpec('fsdp')))}
  assert checkpoint.params_hash(params) == checkpoint.params_hash(same)
  others = [
      {'c': params['a'], 'b': params['b']},
      {'a': params['a'].astype(jnp.float16), 'b': params['b']},
      {'a': params['a'].reshape(2, 4), 'b': params['b']},
      {'a': params['a'].at[3].set(-3), 'b': params['b']},
      {'a': params['a'], 'b': jnp.int32(4)},
  ]
  assert len({checkpoint.params_hash(p) for p in [params, *others]}) == 6


def test_estimated_bytes_and_space(tmp_path):
  state = {'a': jnp.zeros((3, 5)), 'b': jax.ShapeDtypeStruct((7,), jnp.bfloat16), 'c': jnp.int32(0)}
  assert checkpoint.estimated_bytes(state) == 3 * 5 * 4 + 7 * 2 + 4
  checkpoint.require_space(tmp_path / 'deep' / 'folder', 1000)
  checkpoint.require_space('gs://bucket/run', 1 << 60)
  with pytest.raises(ValueError, match=r'must have .* GB free for checkpoints, but has'):
    checkpoint.require_space(tmp_path, 1 << 60)
  (tmp_path / 'file').write_text('')
  with pytest.raises(ValueError, match='must be writable'):
    checkpoint.require_space(tmp_path / 'file' / 'folder', 1)
