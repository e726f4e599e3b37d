"""The page's tunix block inside tunix: one GRPO step whose loss sees the kernel's advantages of reward vectors."""

import warnings

import jax
import numpy as np
import optax
import pytest
from flax import nnx

from tests.docs_adopt_test import run_block
from vpo_jax import advantages

with warnings.catch_warnings():
  warnings.simplefilter('ignore')
  pytest.importorskip('tunix', reason='needs tunix, in an environment of its own: pip install google-tunix==0.1.7')
  from tunix.models.qwen3 import model as qwen3
  from tunix.rl import function_registry, rl_cluster
  from tunix.rl.grpo import grpo_learner
  from tunix.rl.rollout import base_rollout

pytestmark = pytest.mark.filterwarnings('ignore')  # tunix's own.
VOCABULARY, NEVER = 12, 99
PROMPTS = ['3 4', '5 6']


class Digits:
  """'5 7 3' <-> [5, 7, 3]."""

  def encode(self, text, **_):
    return [int(token) for token in text.split()]

  def decode(self, ids, **_):
    return ' '.join(str(int(token)) for token in ids)

  def bos_id(self):
    return 0

  def pad_id(self):
    return 0

  def eos_id(self):
    return NEVER


def answers(completions):
  """`[rows, 2]`: a rollout's first two tokens are its answers; 0 is none."""
  tokens = np.array([[float(token) for token in text.split()[:2]] for text in completions])
  return np.where(tokens > 0, tokens, np.nan)


def size(prompts, completions, **_):
  return answers(completions) / VOCABULARY


def smallness(prompts, completions, **_):
  return 1 - (answers(completions) / VOCABULARY) ** 2


@pytest.fixture
def loose():
  """tunix broadcasts ranks, in threads of its own."""
  jax.config.update('jax_numpy_rank_promotion', 'allow')
  yield
  jax.config.update('jax_numpy_rank_promotion', 'raise')


def tiny_cluster():
  model = qwen3.Qwen3(qwen3.ModelConfig(
      num_layers=1, vocab_size=VOCABULARY, embed_dim=8, hidden_dim=8, num_heads=1, head_dim=8, num_kv_heads=1,
      rope_theta=10_000, norm_eps=1e-6, use_tied_embedding=True), rngs=nnx.Rngs(0))
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ('fsdp', 'tp'))
  return rl_cluster.RLCluster(actor=model, tokenizer=Digits(), cluster_config=rl_cluster.ClusterConfig(
      role_to_mesh={role: mesh for role in (
          rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT)},
      rollout_engine='vanilla', offload_to_cpu=False,
      training_config=rl_cluster.RLTrainingConfig(
          actor_optimizer=optax.sgd(.1), eval_every_n_steps=10**9, max_steps=1),
      rollout_config=base_rollout.RolloutConfig(
          max_tokens_to_generate=4, max_prompt_length=2, kv_cache_size=6, temperature=1., top_p=1., top_k=None,
          eos_tokens=[NEVER])))


def test_the_loss_sees_the_kernels_advantages(loose):
  config = run_block('tunix')['config']
  in_loss, completed = [], []

  @function_registry.register_policy_loss_fn('watched')
  def watched(model, train_example, **keywords):
    jax.debug.callback(lambda x: in_loss.append(np.array(x)), train_example.advantages)
    return function_registry.get_policy_loss_fn('grpo')(model, train_example, **keywords)

  def seen(prompts, completions, **columns):
    completed.extend(completions)
    return size(prompts, completions)

  config.policy_loss_fn = 'watched'
  cluster = tiny_cluster()
  before = jax.tree.map(np.array, nnx.state(cluster.actor_trainer.model, nnx.Param))
  grpo_learner.GRPOLearner(cluster, config, reward_fns=[seen, smallness]).train([{'prompts': np.array(PROMPTS)}])
  jax.effects_barrier()

  rewards = np.stack([size(None, completed), smallness(None, completed)], axis=-1).reshape(2, 4, 2, 2)
  key = jax.random.fold_in(jax.random.key(0), 0)
  expected, _ = advantages.compute('vpo', rewards.astype(np.float32), key)
  assert len(in_loss) == 1 and np.abs(in_loss[0]).max() > .1
  np.testing.assert_allclose(in_loss[0], np.ravel(expected), atol=1e-5)
  after = nnx.state(cluster.actor_trainer.model, nnx.Param)
  assert any(jax.tree.leaves(jax.tree.map(lambda a, b: not np.array_equal(a, b), before, after)))
