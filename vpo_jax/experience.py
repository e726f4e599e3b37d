"""What a training step learns from: the policy's own scored answers, or demonstrations.

Both make a `Batch` for a step from the step's number alone (and the parameters), so a resumed run sees what an
uninterrupted one would have seen.
"""

import dataclasses
import functools

import grain
import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax import advantages, partition
from vpo_jax.evaluation.metrics import diversity_l1
from vpo_jax.learner import Batch, Learner
from vpo_jax.rollout import RolloutLoop
from vpo_jax.sampling.logits import sampling_params

# Folded into the step's key where rollouts fold in their request: no rollout has this number.
_WEIGHTINGS_STREAM = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Prompts:
  """Prompts of one process: `tokens` `[U, P]` int32 right-padded, `lengths` `[U]`, and the examples stacked."""

  tokens: np.ndarray
  lengths: np.ndarray
  examples: dict


def stack_prompts(task, examples: list[dict], num_answers: int) -> Prompts:
  """Tokenises and stacks examples.

  Raises:
    ValueError: a prompt is empty or longer than the task's budget.
  """
  rows = [task.prompt_tokens(example, num_answers) for example in examples]
  for row in rows:
    if not 1 <= len(row) <= task.prompt_width:
      raise ValueError(f'A prompt has {len(row)} tokens, which must be 1 to {task.prompt_width=}.')
  tokens = np.zeros((len(rows), task.prompt_width), np.int32)
  for i, row in enumerate(rows):
    tokens[i, : len(row)] = row
  lengths = np.array([len(row) for row in rows], np.int32)
  return Prompts(tokens, lengths, jax.tree.map(lambda *xs: np.stack(xs), *examples))


class Examples:
  """The order of training examples: a fresh shuffle every epoch, by step number, split over processes."""

  def __init__(self, task, *, seed: int, per_step: int, updates: int = 1):
    if per_step % jax.process_count():
      raise ValueError(f'experience.prompts={per_step} must be a multiple of {jax.process_count()=}.')
    if per_step < updates * jax.process_count():
      raise ValueError(f'experience.prompts={per_step} must be at least updates_per_batch={updates} in each process: '
                       'every update needs a prompt.')
    self._source = task.examples('train')
    self._order = grain.MapDataset.range(len(self._source)).seed(seed).shuffle().repeat()
    self.local = per_step // jax.process_count()
    self._per_step = per_step

  def indices(self, step: int) -> np.ndarray:
    """Which examples are this process's at a step: `[U]` int32, the same number for the same example, always."""
    start = step * self._per_step + jax.process_index() * self.local
    return np.array([self._order[start + i] for i in range(self.local)], np.int32)

  def __call__(self, step: int) -> list[dict]:
    """This process's examples of a step."""
    return [self._source[int(index)] for index in self.indices(step)]


class Demonstrations:
  """Supervised batches: with advantage 1 and ratio 1 the surrogate's gradient is that of the log-likelihood.

  Steps cycle through `num_answers`, so each kind of prompt has its own shapes.
  """

  def __init__(self, task, learner: Learner, *, seed: int, num_answers: tuple[int, ...], prompts: tuple[int, ...]):
    """Sets up the stream.

    Args:
      task: has `demonstration`.
      learner: whose mesh the batches go to.
      seed: of the order of examples and of the demonstrations.
      num_answers: answers a demonstration holds, cycled through by step.
      prompts: demonstrations in a step, one number for each of `num_answers`.

    Raises:
      ValueError: the two tuples differ in length, or a number is below 1.
    """
    if len(num_answers) != len(prompts) or not num_answers or min(*num_answers, *prompts) < 1:
      raise ValueError(f'experience.{num_answers=} and {prompts=} must be equally many numbers of at least 1.')
    self._task, self._learner, self._seed = task, learner, seed
    self._kinds = [
        (m, Examples(task, seed=seed, per_step=n, updates=learner.updates_per_batch))
        for m, n in zip(num_answers, prompts, strict=True)]

  def warm_up(self, params) -> None:
    """Checks a batch of each kind, so that what is wrong shows before the first step; compiles nothing."""
    for step in range(len(self._kinds)):
      self(params, step)

  def __call__(self, params, step: int) -> tuple[Batch, dict]:
    """The batch of a step; the policy plays no part."""
    del params
    turn, kind = divmod(step, len(self._kinds))
    m, examples = self._kinds[kind]
    rng = np.random.default_rng((self._seed, step, jax.process_index()))
    examples = examples(turn)
    prompts = stack_prompts(self._task, examples, m)
    tokens = np.zeros((len(examples), 1, self._task.response_width(m)), np.int32)
    lengths = np.zeros((len(examples), 1), np.int32)
    for i, example in enumerate(examples):
      demonstration = self._task.demonstration(example, m, rng)
      lengths[i] = len(demonstration)
      tokens[i, 0, : len(demonstration)] = demonstration
    batch = Batch(prompts.tokens, prompts.lengths, tokens, lengths, np.ones(lengths.shape, np.float32))
    return partition.to_mesh(self._learner.pad(batch), self._learner.mesh), {}


class SampledAnswers:
  """Rollouts of the policy, rewarded on the device and turned into advantages.

  Attributes:
    loop: the sampler.
    sampling: how tokens are drawn; may be replaced between steps, which compiles nothing.
  """

  def __init__(self, task, learner: Learner, *, seed: int, prompts: int, rollouts: int, num_answers: int,
               max_new_tokens: int, segments: int, temperature: float, top_k: int, top_p: float, min_p: float,
               advantage: dict):
    """Sets up sampler, reward and advantage; nothing is compiled yet.

    Args:
      task: has `token_reward`.
      learner: whose mesh the batches go to.
      seed: of everything random in the run.
      prompts: in a step, over all processes.
      rollouts: G, of each prompt.
      num_answers: m, in each rollout.
      max_new_tokens: C, the length limit of a rollout.
      segments: sizes through which the sampler's cache grows.
      temperature: of the sampler and the learner.
      top_k: 0 for no filter; see `SamplingParams`.
      top_p: 1 for no filter.
      min_p: 0 for no filter.
      advantage: `name` of the estimator and its settings.

    Raises:
      ValueError: a number or setting is out of range.
    """
    if prompts < 1 or num_answers < 1:
      raise ValueError(f'experience.{prompts=} and {num_answers=} must be at least 1.')
    if rollouts < 2:
      raise ValueError(f'experience.{rollouts=} must be at least 2: advantages compare the rollouts of a prompt.')
    if temperature == 0:
      raise ValueError(f'experience.{temperature=} must be above 0 in training: a greedy group has no spread.')
    self._task, self._learner, self._seed = task, learner, seed
    self._examples = Examples(task, seed=seed, per_step=prompts, updates=learner.updates_per_batch)
    self._shape = (self._examples.local, rollouts)
    self._num_answers = num_answers
    self.loop = RolloutLoop(
        learner.config, max_new_tokens=max_new_tokens, segments=segments, devices=list(learner.mesh.local_devices))
    self.sampling = sampling_params(
        vocab_size=task.vocab_size, stop_ids=task.stop_ids, temperature=temperature, top_k=top_k, top_p=top_p,
        min_p=min_p)
    self._credit = jax.jit(functools.partial(_credit, task=task, num_answers=num_answers, **check_advantage(
        advantage, rollouts=rollouts, num_answers=num_answers, components=len(task.components))))

  def warm_up(self, params) -> None:
    """Checks a step's prompts, and compiles every program of the sampler that a step of this run can meet."""
    stack_prompts(self._task, self._examples(0), self._num_answers)
    u, g = self._shape
    self.loop.warm_up(
        partition.replicate_local(params, self._learner.mesh, self.loop.devices), num_prompts=u,
        prompt_width=self._task.prompt_width, rollouts=g, sampling=self.sampling)

  def __call__(self, params, step: int) -> tuple[Batch, dict]:
    """Samples, scores and credits the rollouts of a step; also returns what to log."""
    mesh = self._learner.mesh
    prompts = stack_prompts(self._task, self._examples(step), self._num_answers)
    u, g = self._shape
    first = jax.process_index() * u
    requests = np.arange(first * g, (first + u) * g, dtype=np.uint32).reshape(u, g)
    rollouts = self.loop(
        partition.replicate_local(params, mesh, self.loop.devices), prompts.tokens, prompts.lengths, requests,
        self.sampling, seed=self._seed, step=step)
    batch = self._learner.pad(Batch(
        prompts.tokens, prompts.lengths, rollouts.tokens, rollouts.lengths, np.zeros((u, g), np.float32)))
    filler = len(batch.prompts) - u
    fill = lambda x: np.concatenate([x, np.repeat(x[-1:], filler, axis=0)])
    arrays = (prompts.examples, rollouts.finished, self._examples.indices(step))
    batch, (examples, finished, prompt_ids) = partition.to_mesh((batch, jax.tree.map(fill, arrays)), mesh)
    values, metrics = self._credit(
        examples, batch.tokens, batch.lengths, finished, prompt_ids, np.uint32(self._seed), np.int32(step))
    return batch.replace(advantages=values), metrics


def check_advantage(settings: dict, *, rollouts: int, num_answers: int, components: int) -> dict:
  """Runs an estimator's own checks on the shapes it will meet, without computing anything.

  Returns:
    `estimator` (its name) and `settings` (its keywords).

  Raises:
    ValueError: from the estimator, for a name, setting, or shape that it refuses.
  """
  settings = dict(settings)
  if 'name' not in settings:
    raise ValueError(f'experience.advantage={settings} must have a name, one of {", ".join(advantages.ESTIMATORS)}.')
  name = settings.pop('name')
  rewards = jax.ShapeDtypeStruct((1, rollouts, num_answers, components), jnp.float32)
  key = jax.eval_shape(lambda: jax.random.key(0))
  of_rollouts = jax.ShapeDtypeStruct((1, rollouts), jnp.int32)
  arrays = dict(prompt_ids=jax.ShapeDtypeStruct((1,), jnp.int32), clusters=of_rollouts, lengths=of_rollouts)
  known = {keyword: array for keyword, array in arrays.items() if keyword in advantages.settings_of(name)}
  jax.eval_shape(lambda r, k, arrays: advantages.compute(name, r, k, **arrays, **settings), rewards, key, known)
  return {'estimator': name, 'settings': settings}


def _credit(examples, tokens, lengths, finished, prompt_ids, seed, step, *, task, num_answers, estimator, settings):
  """Advantages `[U, G]` of rollouts `[U, G, C]`, and metrics of them and their rewards, over all processes."""
  score = jax.vmap(lambda example, tokens, lengths: task.token_reward(example, tokens, lengths, num_answers))
  rewards, answer_mask, answer_ids = score(examples, tokens, lengths)
  rollout_mask = lengths > 0  # Filler has no tokens; a rollout has at least one.
  weights = jnp.asarray(task.scalar_weights)
  component_mask = jax.vmap(task.component_mask)(examples)
  clusters = answer_ids.sum(axis=-1)  # Alike if a rollout's answers are, in whatever order.
  keywords = dict(rollout_mask=rollout_mask, answer_mask=answer_mask, component_mask=component_mask,
                  answer_ids=answer_ids, scalar_weights=weights, prompt_ids=prompt_ids, clusters=clusters,
                  lengths=lengths)
  known = advantages.settings_of(estimator)
  keywords = {name: value for name, value in keywords.items() if name in known and name not in settings}
  key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), _WEIGHTINGS_STREAM)
  values, metrics = advantages.compute(estimator, rewards, key, **keywords, **settings)
  metrics = {f'advantage/{name}': x for name, x in metrics.items()}
  return values, metrics | _reward_metrics(rewards, answer_mask, rollout_mask, component_mask, task) | (
      _length_metrics(lengths, finished, rollout_mask))


def _reward_metrics(rewards, answer_mask, rollout_mask, component_mask, task):
  """Means over the answers of live rollouts (a missing answer earns zeros), and the diversity of a prompt's answers."""
  u, g, m, d = rewards.shape
  rewards = jnp.where(component_mask[:, None, None], rewards, 0.0)
  weights = jnp.where(component_mask, jnp.asarray(task.scalar_weights)[None], 0.0)
  weights = weights / weights.sum(axis=-1, keepdims=True)
  asked = component_mask & np.isin(task.components, task.success_components)[None]
  live = jnp.broadcast_to(rollout_mask[:, :, None], (u, g, m)).reshape(u, g * m)
  given = answer_mask.reshape(u, g * m) & live
  flat = rewards.reshape(u, g * m, d)
  success = given & ((flat > 0) | ~asked[:, None]).all(axis=-1)
  count = jnp.maximum(live.sum(), 1)
  have = jnp.maximum((live[..., None] & component_mask[:, None]).sum((0, 1)), 1)
  means = jnp.where(live[..., None], flat, 0.0).sum((0, 1)) / have
  scalar = jnp.einsum('und,ud->un', flat, weights, precision=jax.lax.Precision.HIGHEST)
  best = jnp.where(live, scalar, 0.0).max(axis=1)
  prompts = live.any(axis=1)
  over_prompts = lambda x: jnp.where(prompts, x, 0.0).sum() / jnp.maximum(prompts.sum(), 1)
  return {f'reward/{name}': x for name, x in zip(task.components, means, strict=True)} | {
      'success': success.sum() / count,
      'reward/scalar': jnp.where(live, scalar, 0.0).sum() / count,
      'reward/best_of_group': over_prompts(best),
      'answers_given': given.sum() / count,
      'diversity_l1': over_prompts(diversity_l1(flat, given)),
      'diversity_l1_valid': over_prompts(diversity_l1(flat, success)),
  }


def _length_metrics(lengths, finished, rollout_mask):
  count = jnp.maximum(rollout_mask.sum(), 1)
  return {
      'generated_tokens': lengths.sum(),
      'response_length': lengths.sum() / count,
      'truncated': (rollout_mask & ~finished).sum() / count,
  }
