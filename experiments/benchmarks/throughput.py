r"""Speed of the sampler, of the learner and of a whole step on one machine, as one JSON object on stdout.

  taskset -c 0 python -m experiments.benchmarks.throughput > throughput.json
  taskset -c 0 python -m experiments.benchmarks.throughput --peer earlier.json   # adds ratios to earlier figures

About 4 CPU minutes. What is timed are the classes that `vpo_jax.train` runs, with a task whose reward costs nothing.
No response has a stop token in the timed part, so every row decodes all its tokens. A shared machine stretches wall
seconds; CPU seconds of the process, the minimum of the repeats, are the figures to compare. Linux. See RESULTS.md.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import resource
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from vpo_jax import partition
from vpo_jax.experience import SampledAnswers
from vpo_jax.learner import Batch, Learner, LossSettings, adamw
from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig
from vpo_jax.sampling.logits import SamplingParams, sampling_params

NUM_ANSWERS = 2
VARIED_STEPS = 20

COMPARED = ('decode.tokens_per_cpu_second', 'learner.tokens_per_cpu_second', 'rl_step.cpu_seconds_min')


@dataclasses.dataclass
class RandomPrompts:
  """A task without meaning: random prompts; an answer is a stretch of the response, scored by counting tokens.

  Attributes:
    vocab_size: V.
    prompt_width: P, the longest prompt.
    shortest: length of the shortest prompt; may be changed while a run goes on.
  """

  vocab_size: int
  prompt_width: int
  shortest: int

  name = 'random_prompts'
  components = ('even', 'high')
  scalar_weights = np.full(2, 0.5, np.float32)
  success_components = ()
  stop_ids = ()

  def __len__(self) -> int:
    return 2**31 - 1

  def __getitem__(self, index: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(index)
    return {'prompt': rng.integers(self.vocab_size, size=self.prompt_width, dtype=np.int32),
            'length': rng.integers(self.shortest, self.prompt_width, dtype=np.int32, endpoint=True)}

  def examples(self, split: str) -> 'RandomPrompts':
    """The only split, endless in practice."""
    del split
    return self

  def prompt_tokens(self, example: dict, num_answers: int) -> np.ndarray:
    """The first `length` tokens of the prompt."""
    del num_answers
    return example['prompt'][: int(example['length'])]

  def component_mask(self, example: dict) -> np.ndarray:
    """Both."""
    del example
    return np.ones(2, bool)

  def token_reward(self, arrays: dict, tokens: jax.Array, lengths: jax.Array, num_answers: int):
    """Rewards `[.., m, 2]`: the shares of even tokens and of tokens in the upper half of the vocabulary."""
    del arrays
    width = tokens.shape[-1] // num_answers
    answers = tokens[..., : width * num_answers].reshape(*lengths.shape, num_answers, width)
    places = jnp.arange(width * num_answers).reshape(num_answers, width)
    live = jnp.asarray(lengths)[..., None, None] > jnp.expand_dims(places, range(lengths.ndim))
    counted = jnp.stack([answers % 2 == 0, answers >= self.vocab_size // 2], axis=-1) & live[..., None]
    rewards = counted.sum(-2).astype(jnp.float32) / width
    return rewards, live[..., 0], jnp.where(live, answers, 0).sum(-1).astype(jnp.int32)


class Compilations:
  """Counts what XLA compiles, programs of single operations included, and the seconds it takes."""

  def __init__(self):
    self.count, self.seconds = 0, 0.0
    jax.monitoring.register_event_duration_secs_listener(self._note)

  def _note(self, name, seconds, **kwargs):
    if name == '/jax/core/compile/backend_compile_duration':
      self.count += 1
      self.seconds += seconds

  def during(self, fn) -> tuple[dict, object]:
    """Runs `fn`: the programs compiled, their seconds, the wall seconds of the call, and what it returned."""
    count, seconds, start = self.count, self.seconds, time.perf_counter()
    result = jax.block_until_ready(fn())
    return {'programs': self.count - count, 'compile_seconds': self.seconds - seconds,
            'first_call_seconds': time.perf_counter() - start}, result


def timings(fn, repeats: int) -> dict[str, float]:
  """Median and minimum wall and CPU seconds of `fn(repeat)`; no warm-up."""
  wall, cpu = [], []
  for repeat in range(repeats):
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    jax.block_until_ready(fn(repeat))
    wall.append(time.perf_counter() - wall_start)
    cpu.append(time.process_time() - cpu_start)
  return {'seconds_median': statistics.median(wall), 'seconds_min': min(wall),
          'cpu_seconds_median': statistics.median(cpu), 'cpu_seconds_min': min(cpu)}


def rates(times: dict[str, float], tokens: int) -> dict[str, float]:
  """`times`, and tokens a second by the best CPU time and by the median wall time."""
  return times | {'tokens': tokens, 'tokens_per_cpu_second': tokens / times['cpu_seconds_min'],
                  'tokens_per_wall_second': tokens / times['seconds_median']}


def benchmark(shape: argparse.Namespace) -> dict:
  """Times the parts one after the other; every program is compiled before its first timing.

  Args:
    shape: sizes, as the command line names them.

  Returns:
    What the module prints, without the ratios.
  """
  compilations = Compilations()
  learner, task, experience = make_parts(shape)
  loop, mesh = experience.loop, learner.mesh
  prompts, tokens = shape.batch // shape.rollouts, shape.batch * shape.new
  state = learner.init(0)
  params = partition.replicate_local(state.params, mesh, loop.devices)

  progress('compiling the sampler')
  sampler_programs, _ = compilations.during(lambda: experience.warm_up(state.params))
  progress('sampling')
  rng = np.random.default_rng(0)
  inputs = (rng.integers(shape.vocab, size=(prompts, shape.prompt), dtype=np.int32),
            np.full(prompts, shape.prompt, np.int32))
  requests = np.arange(shape.batch, dtype=np.uint32).reshape(prompts, shape.rollouts)
  sample = lambda step: loop(params, *inputs, requests, experience.sampling, seed=0, step=step)
  rollouts = sample(shape.reps)
  decode = rates(timings(sample, shape.reps), tokens)

  progress('compiling the learner')
  advantages = rng.normal(size=requests.shape).astype(np.float32)
  batch = partition.to_mesh(learner.pad(Batch(*inputs, rollouts.tokens, rollouts.lengths, advantages)), mesh)
  learner_programs, (logprobs, state) = compilations.during(
      lambda: (learner.logprobs(state.params, batch, 1.0), learner.learn(state, None, batch, 1.0)[0]))
  difference = np.abs(partition.to_host(logprobs)[:prompts] - rollouts.logprobs).max()

  def learn(_):
    nonlocal state
    state, metrics = learner.learn(state, None, batch, 1.0)
    return jax.device_get(metrics)

  progress('learning')
  learn(0)
  learner_step = rates(timings(learn, shape.reps), shape.batch * (shape.prompt + shape.new))

  def whole_step(step):
    nonlocal state
    batch, measured = experience(state.params, step)
    state, metrics = learner.learn(state, None, batch, float(experience.sampling.temperature))
    return jax.device_get(measured | metrics)

  progress('whole steps')
  reward_programs, _ = compilations.during(lambda: whole_step(0))
  rl_step = timings(lambda step: whole_step(step + 1), shape.reps)

  progress('steps of other lengths and settings')
  task.shortest = 1
  before, lengths = compilations.count, []
  for step in range(VARIED_STEPS):
    experience.sampling = varied_sampling(rng, shape.vocab)
    lengths.append(float(whole_step(step)['response_length']))

  return {
      'shape': vars(shape) | {'parameters': transformer.num_params(learner.config)},
      'decode': decode,
      'learner': learner_step,
      'rl_step': rl_step,
      'compile': {
          'sampler': sampler_programs, 'learner': learner_programs, 'first_rl_step': reward_programs,
          'programs': sampler_programs['programs'] + learner_programs['programs']},
      'varied_steps': {
          'steps': VARIED_STEPS, 'compile_events': compilations.count - before,
          'response_length_min': min(lengths), 'response_length_max': max(lengths)},
      'logprob_difference_max': float(difference),
      'peak_memory_gib': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
      'machine': {
          'cpus': len(os.sched_getaffinity(0)), 'python': platform.python_version(), 'jax': jax.__version__,
          'device': jax.devices()[0].device_kind},
  }


def make_parts(shape: argparse.Namespace) -> tuple[Learner, RandomPrompts, SampledAnswers]:
  """The learner, the task and the source of experience, as a config of `vpo_jax.train` would make them."""
  model = ModelConfig(
      vocab_size=shape.vocab, d_model=shape.d, num_layers=shape.layers, num_heads=shape.heads,
      num_kv_heads=shape.kv_heads, head_dim=shape.head_dim, d_ff=shape.ff, qk_norm=shape.qk_norm)
  optimizer = adamw(learning_rate=1e-5, warmup_steps=0, decay_steps=0, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0,
                    clip_norm=1.0)
  loss = LossSettings(
      clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=0.0, kl_kind='low_var_kl', aggregation='token-mean')
  learner = Learner(model, optimizer, loss, partition.make_mesh(), micro_batches=1, updates_per_batch=1)
  task = RandomPrompts(vocab_size=shape.vocab, prompt_width=shape.prompt, shortest=shape.prompt)
  experience = SampledAnswers(
      task, learner, seed=0, prompts=shape.batch // shape.rollouts, rollouts=shape.rollouts, num_answers=NUM_ANSWERS,
      max_new_tokens=shape.new, segments=shape.segments, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0,
      advantage=dict(name='vpo', num_weights=100))
  return learner, task, experience


def varied_sampling(rng: np.random.Generator, vocab_size: int) -> SamplingParams:
  """Settings at random; up to 8 stop tokens make the rows end at different steps."""
  stop_ids = rng.choice(vocab_size, size=rng.integers(9), replace=False)
  return sampling_params(
      vocab_size=vocab_size, stop_ids=tuple(map(int, stop_ids)), temperature=float(rng.uniform(0.5, 1.5)),
      top_k=int(rng.choice([0, 5, 50])), top_p=float(rng.choice([0.9, 1.0])))


def ratios(figures: dict, peer: dict) -> dict[str, float]:
  """Figures over the peer's: rates (larger is better) and costs (smaller is better), those that the peer has."""
  found = {}
  for path in COMPARED:
    ours, theirs = figures, peer
    for key in path.split('.'):
      ours, theirs = ours[key], theirs.get(key, {})
    if theirs:
      found[path] = ours / theirs
  return found


def progress(text: str) -> None:
  """Says on stderr what goes on."""
  print(text, file=sys.stderr, flush=True)


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(description='Times the sampler, the learner and a whole step.')
  sizes = dict(layers=4, d=256, ff=768, heads=8, kv_heads=4, head_dim=32, vocab=512, batch=64, rollouts=8, prompt=64,
               new=128, segments=4, reps=5)
  for name, value in sizes.items():
    parser.add_argument('--' + name.replace('_', '-'), type=int, default=value)
  parser.add_argument('--qk-norm', action=argparse.BooleanOptionalAction, default=True)
  parser.add_argument('--peer', type=pathlib.Path, help='JSON with the keys of COMPARED, to compare with')
  shape = parser.parse_args()
  peer = json.loads(shape.peer.read_text()) if shape.peer else {}
  del shape.peer
  if shape.batch % shape.rollouts:
    parser.error(f'{shape.batch=} must be a multiple of {shape.rollouts=}.')
  for name, value in peer.get('shape', {}).items():
    if name != 'reps' and vars(shape).get(name, value) != value:
      parser.error(f'{name}={vars(shape)[name]} must be {value}, as in the figures of --peer.')
  jax.config.update('jax_enable_compilation_cache', False)  # Or compile times would be those of a disk.
  figures = benchmark(shape)
  if peer:
    figures['ratios'] = ratios(figures, peer)
  print(json.dumps(figures))


if __name__ == '__main__':
  main()
