import dataclasses

import chex
import jax
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from tests.tiny_model import CONFIG, random_params
from vpo_jax import partition
from vpo_jax.models import transformer

# 14 tokens, 12 wide, 2 layers, 4 heads in 2, 6 wide, 20 hidden: all but the number 6 of head_dim is split.
CONFIG = dataclasses.replace(CONFIG, vocab_size=14)
SPECS = {
    'embedding': P('tensor', 'fsdp'),
    'head': P('fsdp', 'tensor'),
    'final_norm': P(None),
    'layers': {
        'attention_norm': P(None, None),
        'q': P(None, 'fsdp', 'tensor', None),
        'k': P(None, 'fsdp', 'tensor', None),
        'v': P(None, 'fsdp', 'tensor', None),
        'o': P(None, 'tensor', None, 'fsdp'),
        'q_bias': P(None, 'tensor', None),
        'k_bias': P(None, 'tensor', None),
        'v_bias': P(None, 'tensor', None),
        'q_norm': P(None, None),
        'k_norm': P(None, None),
        'mlp_norm': P(None, None),
        'gate': P(None, 'fsdp', 'tensor'),
        'up': P(None, 'fsdp', 'tensor'),
        'down': P(None, 'tensor', 'fsdp'),
    },
}


@pytest.fixture(scope='module')
def mesh():
  return partition.make_mesh(data=2, fsdp=2, tensor=2)


def specs(tree, mesh):
  return jax.tree.map(lambda s: s.spec, partition.param_shardings(tree, mesh))


def sharded(params, mesh):
  return jax.device_put(params, partition.param_shardings(params, mesh))


class TestParamShardings:

  def test_every_parameter_is_split_as_by_hand(self, mesh):
    assert specs(random_params(CONFIG), mesh) == SPECS

  def test_optimizer_state_is_split_as_its_parameters(self, mesh):
    params = random_params(CONFIG)
    state = jax.eval_shape(optax.chain(optax.clip_by_global_norm(1.), optax.adamw(1e-3)).init, params)
    for moments in ('mu', 'nu'):
      assert optax.tree_utils.tree_get(specs(state, mesh), moments) == SPECS
    assert optax.tree_utils.tree_get(specs(state, mesh), 'count') == P()
    # Row and column statistics of a matrix have other ranks than it.
    state = jax.eval_shape(optax.scale_by_factored_rms(min_dim_size_to_factor=2).init, params)
    placed = sharded(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), state), mesh)
    chex.assert_trees_all_equal_shapes(placed, state)

  def test_axis_that_does_not_divide_stays_whole(self, mesh):
    config = dataclasses.replace(CONFIG, vocab_size=13, num_kv_heads=1, d_ff=21)
    actual = specs(random_params(config), mesh)
    assert actual['embedding'] == P(None, 'fsdp')
    assert actual['head'] == P('fsdp', None)
    assert actual['layers']['k'] == P(None, 'fsdp', None, None)
    assert actual['layers']['v_bias'] == P(None, None, None)
    assert actual['layers']['q'] == SPECS['layers']['q']
    assert actual['layers']['down'] == P(None, None, 'fsdp')

  def test_every_axis_has_a_rule_and_every_matrix_is_split(self, mesh):
    axes = jax.tree.leaves(transformer.LOGICAL_AXES)
    assert set(axes) == set(partition.RULES)
    # A matrix without axes of its own would quietly be kept whole on every device.
    for path, spec in jax.tree_util.tree_leaves_with_path(
        specs(random_params(CONFIG), mesh), is_leaf=lambda x: isinstance(x, P)):
      assert any(spec) or 'norm' in jax.tree_util.keystr(path), path

  def test_sharded_model_computes_what_the_whole_one_does(self, mesh):
    tokens = np.random.default_rng(1).integers(14, size=(4, 6), dtype=np.int32)
    logits = jax.jit(transformer.logits, static_argnums=1)
    params = random_params(CONFIG)
    actual = logits(sharded(params, mesh), CONFIG, partition.to_mesh(tokens, mesh))
    np.testing.assert_allclose(actual, logits(params, CONFIG, tokens), atol=2e-5)


class TestMakeMesh:

  @pytest.mark.parametrize('sizes, expected', [
      (dict(), (8, 1, 1)), (dict(data=2, fsdp=2, tensor=2), (2, 2, 2)), (dict(data=1, fsdp=-1, tensor=2), (1, 4, 2)),
      (dict(data=1, tensor=-1), (1, 1, 8)), (dict(fsdp=8), (1, 8, 1))])
  def test_sizes(self, sizes, expected):
    mesh = partition.make_mesh(**sizes)
    assert mesh.axis_names == ('data', 'fsdp', 'tensor')
    assert mesh.devices.shape == expected
    assert set(mesh.devices.reshape(-1)) == set(jax.devices())

  def test_some_of_the_devices(self):
    devices = jax.devices()[2:6]
    mesh = partition.make_mesh(data=2, tensor=-1, devices=devices)
    assert mesh.devices.shape == (2, 1, 2) and set(mesh.devices.reshape(-1)) == set(devices)

  @pytest.mark.parametrize('sizes, message', [
      (dict(data=0), 'mesh.data=0 must be at least 1, or -1 for what is left'),
      (dict(tensor=-2), 'mesh.tensor=-2 must be at least 1'),
      (dict(fsdp=-1), 'mesh=.* may leave one size open'),
      (dict(data=3), "mesh sizes {'data': 3, 'fsdp': 1, 'tensor': 1} must multiply to the number of devices, 8"),
      (dict(fsdp=3), 'must multiply to the number of devices, 8'),
      (dict(tensor=16), 'must multiply to the number of devices, 8')])
  def test_bad_size_is_named(self, sizes, message):
    with pytest.raises(ValueError, match=message):
      partition.make_mesh(**sizes)


class TestMoving:

  def test_batch_is_split_by_prompts_and_comes_back(self, mesh):
    batch = {'tokens': np.arange(24, dtype=np.int32).reshape(8, 3), 'live': np.arange(8) < 5}
    placed = partition.to_mesh(batch, mesh)
    for shard in placed['tokens'].addressable_shards:
      # 4 groups of 2 prompts; the devices of the tensor axis hold the same.
      row = np.argwhere(mesh.devices == shard.device)[0]
      first = 2 * (2 * row[0] + row[1])
      np.testing.assert_array_equal(shard.data, batch['tokens'][first : first + 2])
    chex.assert_trees_all_equal(partition.to_host(placed), batch)

  @pytest.mark.parametrize('num_devices', [8, 3])
  def test_every_device_gets_whole_parameters(self, mesh, num_devices):
    params = random_params(CONFIG)
    devices = jax.devices()[8 - num_devices :][::-1]  # Not in the mesh's order.
    copies = partition.replicate_local(sharded(params, mesh), mesh, devices)
    for path, copy in jax.tree_util.tree_leaves_with_path(copies):
      whole = params
      for key in path:
        whole = whole[key.key]
      assert copy.shape == (num_devices, *whole.shape)
      for i, device in enumerate(devices):
        shard, = (s for s in copy.addressable_shards if s.device == device)
        assert shard.index[0] == slice(i, i + 1)
        np.testing.assert_array_equal(shard.data[0], whole)

  def test_parameters_and_scalars_come_back_to_the_host(self, mesh):
    params = random_params(CONFIG)
    chex.assert_trees_all_equal(partition.to_host(sharded(params, mesh)), params)
    assert partition.to_host(jax.numpy.float32(3)) == 3
