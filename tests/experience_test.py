"""Batches against the plain-Python task, and the order of examples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vpo_jax import advantages, partition, tasks
from vpo_jax.evaluation.metrics import diversity_l1
from vpo_jax.experience import Demonstrations, Examples, SampledAnswers, check_advantage, stack_prompts
from vpo_jax.learner import Learner, LossSettings
from vpo_jax.models.config import ModelConfig
from vpo_jax.rollout import Rollouts

TASK = tasks.make('maze_small', size=5, zone=2, items=(2, 2), lava=2, budget=10)
CONFIG = ModelConfig(
    vocab_size=TASK.vocab_size, d_model=8, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=8, d_ff=8)
LOSS = LossSettings(clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=0.0, kl_kind='k3', aggregation='token-mean')
SETTINGS = dict(seed=7, prompts=3, rollouts=4, num_answers=2, max_new_tokens=22, segments=1, temperature=1.0, top_k=0,
                top_p=1.0, min_p=0.0, advantage=dict(name='vpo', num_weights=8))


@functools.cache
def make_learner(num_devices=1, updates_per_batch=1):
  mesh = partition.make_mesh(devices=jax.devices()[:num_devices])
  return Learner(CONFIG, optax.sgd(0.1), LOSS, mesh, micro_batches=1, updates_per_batch=updates_per_batch)


@functools.cache
def some_params():
  return jax.device_get(make_learner().init(0).params)


def same(left, right):
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(left), jax.device_get(right))


class Imitation:
  """Stands in for the sampler: the task's own noisy answers, and one that is cut off, whatever the step."""

  def __init__(self, source):
    self.devices, self.examples, self.task = source.loop.devices, source._examples, source._task

  def __call__(self, params, prompts, lengths, requests, sampling, *, seed, step):
    rng = np.random.default_rng(seed)
    u, g = requests.shape
    tokens, lengths = np.zeros((u, g, 22), np.int32), np.zeros((u, g), np.int32)
    for i, example in enumerate(self.examples(step)):
      for j in range(g):
        response = self.task.demonstration(example, 1 + j % 2, rng)[: 22 if j else 5]  # Every second lacks an answer.
        lengths[i, j] = len(response)
        tokens[i, j, : len(response)] = response
    finished = np.isin(tokens, self.task.stop_ids).any(-1)
    return Rollouts(tokens, lengths, finished, np.zeros(tokens.shape), np.zeros(tokens.shape))


def host_rewards(examples, tokens, lengths, num_answers, task=TASK):
  """The same by the plain Python task, answer by answer."""
  u, g, _ = tokens.shape
  rewards = np.zeros((u, g, num_answers, len(task.components)), np.float32)
  given = np.zeros((u, g, num_answers), bool)
  for i in range(u):
    for j in range(g):
      for s, answer in enumerate(task.decode(examples[i], tokens[i, j, : lengths[i, j]], num_answers)):
        if answer is not None:
          rewards[i, j, s], given[i, j, s] = task.reward(examples[i], answer), True
  return rewards, given


@pytest.mark.parametrize('name', ['vpo', 'grpo'])
def test_rewards_and_advantages_are_those_of_the_plain_task_with_filler_on_four_devices(name):
  learner = make_learner(4)
  source = SampledAnswers(TASK, learner, **SETTINGS | dict(advantage=dict(name=name)))
  source.loop = Imitation(source)
  for step in (0, 3):
    batch, measured = jax.device_get(source(some_params(), step))
    assert batch.tokens.shape == (4, 4, 22) and not batch.lengths[3].any()  # The fourth prompt is filler.
    examples = source._examples(step)
    rewards, given = host_rewards(examples, batch.tokens[:3], batch.lengths[:3], 2)
    assert (rewards[..., 0] > 0).any() and not given.all()
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(7), step), 2**32 - 1)
    known = dict(answer_mask=given) | (
        dict(scalar_weights=TASK.scalar_weights) if name == 'grpo' else dict(prompt_ids=source._examples.indices(step)))
    expected, metrics = jax.device_get(advantages.compute(name, rewards, key, **known))
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(batch.advantages[:3], expected, atol=1e-5)
    np.testing.assert_array_equal(batch.advantages[3], 0)

    expected = {f'advantage/{key}': value for key, value in metrics.items()}
    expected |= {f'reward/{c}': rewards[..., i].mean() for i, c in enumerate(TASK.components)}
    scalar = rewards @ TASK.scalar_weights
    flat = rewards.reshape(3, 8, -1)
    expected |= {
        'reward/scalar': scalar.mean(), 'reward/best_of_group': scalar.max((1, 2)).mean(),
        'answers_given': given.mean(), 'success': (rewards[..., 0] > 0).mean(), 'generated_tokens': batch.lengths.sum(),
        'diversity_l1': np.mean(diversity_l1(flat, given.reshape(3, 8))),
        'diversity_l1_valid': np.mean(diversity_l1(flat, given.reshape(3, 8) & (flat[..., 0] > 0))),
        'response_length': batch.lengths[:3].mean(), 'truncated': 1 / 4}  # The first rollout of each group is cut.
    assert measured.keys() == expected.keys()
    for key in expected:
      np.testing.assert_allclose(measured[key], expected[key], rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize('rewarded', [4, 12])
def test_components_that_a_problem_lacks_or_that_do_not_pay_have_no_say(rewarded):
  task = tasks.make('programs', rewarded=rewarded)
  model = ModelConfig(
      vocab_size=task.vocab_size, d_model=8, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=8, d_ff=8)
  mesh = partition.make_mesh(devices=jax.devices()[:1])
  learner = Learner(model, optax.sgd(0.1), LOSS, mesh, micro_batches=1, updates_per_batch=1)
  source = SampledAnswers(task, learner, **SETTINGS | dict(advantage=dict(name='grpo')))
  source.loop = Imitation(source)
  batch, measured = jax.device_get(source(learner.init(0).params, 0))
  examples = source._examples(0)
  rewards, given = host_rewards(examples, batch.tokens, batch.lengths, 2, task)
  paid = np.stack([np.arange(12) < min(rewarded, example['tests'].sum()) for example in examples])
  scalar = (rewards * paid[:, None, None]).sum(-1) / paid.sum(-1)[:, None, None]
  returns = scalar.sum(axis=2) / given.sum(axis=2)  # GRPO: the mean of the answers that a rollout gave.
  expected = (returns - returns.mean(1, keepdims=True)) / (returns.std(1, ddof=1, keepdims=True) + 1e-6)
  np.testing.assert_allclose(batch.advantages, expected, atol=1e-4)
  np.testing.assert_allclose(measured['reward/scalar'], scalar.mean(), rtol=1e-5)
  success = ((rewards > 0) | ~paid[:, None, None]).all(-1)
  np.testing.assert_allclose(measured['success'], success.mean(), rtol=1e-5)
  have = paid[:, 11].sum()
  last = (rewards * paid[:, None, None])[..., 11].sum() / max(have * 8, 1)
  np.testing.assert_allclose(measured['reward/test_12'], last, rtol=1e-5)


def test_kernels_get_lengths_and_clusters_that_ignore_the_order_of_answers(monkeypatch):
  class Turned(Imitation):
    """The last rollout gives the answers of the second one, the other way round."""

    def __call__(self, *arguments, **keywords):
      drawn = super().__call__(*arguments, **keywords)
      for tokens, lengths in zip(drawn.tokens, drawn.lengths, strict=True):
        cut = int(np.argmax(tokens[1] == TASK.separator))
        first, second = tokens[1, :cut], tokens[1, cut + 1:lengths[1] - 1]
        tokens[3] = 0
        tokens[3, :lengths[1]] = [*second, TASK.separator, *first, *TASK.stop_ids]
        lengths[3] = lengths[1]
      return drawn

  def members(rewards, key=None, *, clusters=None, lengths=None):
    """100 for every rollout in the same cluster, plus the length."""
    alike = clusters[:, :, None] == clusters[:, None, :]
    return advantages.Advantages(100 * alike.sum(axis=-1) + lengths, {})

  monkeypatch.setitem(advantages.ESTIMATORS, 'members', members)
  monkeypatch.setattr('vpo_jax.experience.check_advantage', lambda *_, **__: dict(estimator='members', settings={}))
  source = SampledAnswers(TASK, make_learner(), **SETTINGS | dict(advantage=dict(name='members')))
  source.loop = Turned(source)
  batch, _ = jax.device_get(source(some_params(), 0))
  np.testing.assert_array_equal(batch.advantages - batch.lengths, [[100, 200, 100, 200]] * 3)


def test_weightings_are_drawn_anew_at_every_step(monkeypatch):
  fixed = Examples(TASK, seed=0, per_step=3).indices(0)
  monkeypatch.setattr(Examples, 'indices', lambda self, step: fixed)
  source = SampledAnswers(TASK, make_learner(), **SETTINGS)
  source.loop = Imitation(source)
  first, second = (jax.device_get(source(some_params(), step)[0]) for step in (0, 1))
  np.testing.assert_array_equal(first.tokens, second.tokens)
  live = first.advantages != 0  # Tied groups are 0 under every weighting.
  assert live.any() and (first.advantages[live] != second.advantages[live]).all()


def test_a_weighting_that_is_never_redrawn_stays_with_its_prompt(monkeypatch):
  fixed = Examples(TASK, seed=0, per_step=3).indices(0)
  monkeypatch.setattr(Examples, 'indices', lambda self, step: fixed)
  advantage = dict(name='random_weights', redraw='never')
  source = SampledAnswers(TASK, make_learner(), **SETTINGS | dict(advantage=advantage))
  source.loop = Imitation(source)
  first, second = (jax.device_get(source(some_params(), step)[0]).advantages for step in (0, 1))
  np.testing.assert_array_equal(first, second)
  assert np.abs(first).max() > .5


@pytest.mark.parametrize('settings', [dict(name='random_weights', redraw='never'), dict(name='gdpo', whiten='tokens')])
def test_settings_that_need_what_a_step_brings_are_accepted(settings):
  assert check_advantage(settings, rollouts=4, num_answers=1, components=4)['estimator'] == settings['name']


def test_a_sampled_batch_is_a_function_of_the_step():
  source, resumed = (SampledAnswers(TASK, make_learner(), **SETTINGS) for _ in range(2))
  batches = [source(some_params(), step) for step in (0, 1)]
  same(resumed(some_params(), 1), batches[1])
  assert (np.asarray(batches[0][0].prompts) != batches[1][0].prompts).any()
  assert (np.asarray(batches[0][0].tokens) != batches[1][0].tokens).any()
  other = SampledAnswers(TASK, make_learner(), **SETTINGS | dict(seed=8))
  assert (np.asarray(other(some_params(), 1)[0].prompts) != batches[1][0].prompts).any()


@pytest.mark.parametrize('temperature', [0.6, 1.3])
def test_learner_scores_tokens_as_the_sampler_drew_them(temperature):
  source = SampledAnswers(TASK, make_learner(), **SETTINGS | dict(temperature=temperature))
  batch, _ = source(some_params(), 0)
  params = partition.replicate_local(some_params(), make_learner().mesh, source.loop.devices)
  rollouts = source.loop(params, np.asarray(batch.prompts), np.asarray(batch.prompt_lengths),
                         np.arange(12).reshape(3, 4), source.sampling, seed=7, step=0)
  np.testing.assert_array_equal(rollouts.tokens, batch.tokens)
  logprobs = make_learner().logprobs(some_params(), batch, temperature)
  np.testing.assert_allclose(logprobs, rollouts.sampling_logprobs, atol=1e-4)
  assert np.abs(logprobs - rollouts.logprobs).max() > 1e-2


def test_demonstrations_are_a_function_of_the_step_and_cycle_through_the_numbers_of_answers():
  make = lambda: Demonstrations(TASK, make_learner(4), seed=3, num_answers=(1, 2), prompts=(5, 2))
  source = make()
  batches = [source(None, step)[0] for step in range(4)]
  same(make()(None, 3)[0], batches[3])
  assert [batch.tokens.shape for batch in batches] == [(8, 1, 11), (4, 1, 22)] * 2  # 5 and 2 prompts on 4 devices.
  for batch, live in zip(batches, (5, 2, 5, 2), strict=True):
    assert (batch.lengths[:live] > 0).all() and not batch.lengths[live:].any()
    np.testing.assert_array_equal(batch.advantages, 1)
    for tokens, length in zip(np.asarray(batch.tokens[:live, 0]), batch.lengths[:live, 0], strict=True):
      assert tokens[length - 1] == TASK.stop_ids[0] and TASK.stop_ids[0] not in tokens[: length - 1]
  assert (batches[0].prompts != batches[2].prompts).any()


def test_each_kind_of_demonstration_goes_through_all_examples(monkeypatch):
  asked = []
  draw = Examples.__call__
  monkeypatch.setattr(Examples, '__call__', lambda self, step: asked.append(step) or draw(self, step))
  source = Demonstrations(TASK, make_learner(), seed=3, num_answers=(1, 2), prompts=(1, 1))
  for step in range(4):
    source(None, step)
  assert asked == [0, 0, 1, 1]


class TenExamples:
  """A task whose training split has ten examples."""

  def examples(self, split):
    return [{'index': np.int32(i)} for i in range(10)]


def drawn(examples, steps):
  return [int(example['index']) for step in steps for example in examples(step)]


def test_every_example_comes_once_an_epoch_in_a_fresh_order():
  order = drawn(Examples(TenExamples(), seed=0, per_step=4), range(5))
  assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
  assert order[:10] != order[10:] and order[:10] != list(range(10))
  assert drawn(Examples(TenExamples(), seed=0, per_step=4), [3]) == order[12:16]
  assert drawn(Examples(TenExamples(), seed=1, per_step=4), range(5)) != order


def test_processes_share_a_step(monkeypatch):
  order = drawn(Examples(TenExamples(), seed=0, per_step=4), range(5))
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  shares = []
  for index in (0, 1):
    monkeypatch.setattr(jax, 'process_index', lambda index=index: index)
    examples = Examples(TenExamples(), seed=0, per_step=4)
    shares.append([drawn(examples, [step]) for step in range(5)])
  assert [i for first, second in zip(*shares, strict=True) for i in first + second] == order
  with pytest.raises(ValueError, match=r'experience.prompts=3 must be a multiple of jax.process_count\(\)=2'):
    Examples(TenExamples(), seed=0, per_step=3)


class WideTask:
  """A task that makes prompts of any length."""

  prompt_width = 3

  def prompt_tokens(self, example, num_answers):
    return np.arange(1, 1 + example['length'])


def test_prompts_are_padded_and_too_long_ones_refused():
  prompts = stack_prompts(WideTask(), [{'length': np.int32(2)}, {'length': np.int32(3)}], 1)
  np.testing.assert_array_equal(prompts.tokens, [[1, 2, 0], [1, 2, 3]])
  np.testing.assert_array_equal(prompts.lengths, [2, 3])
  np.testing.assert_array_equal(prompts.examples['length'], [2, 3])
  for length in (0, 4):
    with pytest.raises(ValueError, match=f'A prompt has {length} tokens, which must be 1 to task.prompt_width=3'):
      stack_prompts(WideTask(), [{'length': np.int32(length)}], 1)


@pytest.mark.parametrize('field,value,rule', [
    ('prompts', 0, 'prompts=0 and num_answers=2 must be at least 1'),
    ('num_answers', 0, 'prompts=3 and num_answers=0 must be at least 1'),
    ('rollouts', 1, 'rollouts=1 must be at least 2'),
    ('temperature', 0.0, 'temperature=0.0 must be above 0 in training'),
    ('temperature', -1.0, 'temperature=-1.0 must be finite and at least 0'),
    ('max_new_tokens', 0, 'max_new_tokens=0 must be at least 1'),
    ('segments', 9, 'segments=9 must be 1 to 4'),
    ('top_p', 1.5, 'top_p=1.5 must lie in'),
    ('advantage', dict(name='vpoo'), "name='vpoo' is no estimator. Did you mean vpo"),
    ('advantage', dict(num_weights=3), "experience.advantage={'num_weights': 3} must have a name"),
    ('advantage', dict(name='vpo', num_weight=3), "vpo has no setting 'num_weight'. Did you mean num_weights"),
    ('advantage', dict(name='vpo', num_weights=0), 'num_weights=0 must be a whole number, at least 1'),
    ('advantage', dict(name='max_at_k', k=5), 'k=5')])
def test_settings_out_of_range_are_refused_before_anything_is_compiled(field, value, rule):
  with pytest.raises(ValueError) as error:
    SampledAnswers(TASK, make_learner(), **SETTINGS | {field: value})
  assert rule in str(error.value)


def test_every_update_needs_a_prompt():
  with pytest.raises(ValueError, match=r'experience\.prompts=3 must be at least updates_per_batch=4'):
    SampledAnswers(TASK, make_learner(updates_per_batch=4), **SETTINGS)


def test_weights_of_a_config_replace_those_of_the_task():
  weights = (1.0, 0.0, 0.0, 0.0)
  settings = SETTINGS | dict(advantage=dict(name='grpo', scalar_weights=weights))
  source = SampledAnswers(TASK, make_learner(), **settings)
  source.loop = Imitation(source)
  batch, _ = jax.device_get(source(some_params(), 0))
  rewards, given = host_rewards(source._examples(0), batch.tokens, batch.lengths, 2)
  expected = advantages.compute('grpo', rewards, answer_mask=given, scalar_weights=jnp.array(weights)).values
  np.testing.assert_allclose(batch.advantages, expected, atol=1e-5)


def test_stop_token_outside_the_vocabulary_is_refused():
  class Endless:
    vocab_size, stop_ids, components = 10, (10,), ('a', 'b')
    examples = TenExamples.examples

  with pytest.raises(ValueError, match=r'stop id 10 of stop_ids=\(10,\) must be a token of the vocabulary, 0 to 9'):
    SampledAnswers(Endless(), make_learner(), **SETTINGS)


@pytest.mark.parametrize('num_answers,prompts', [((1, 2), (3,)), ((), ()), ((0,), (3,)), ((1,), (0,))])
def test_demonstrations_need_equally_many_positive_numbers(num_answers, prompts):
  with pytest.raises(ValueError, match='must be equally many numbers of at least 1'):
    Demonstrations(TASK, make_learner(), seed=0, num_answers=num_answers, prompts=prompts)
