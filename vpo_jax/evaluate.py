r"""Samples a pool of answers from a trained policy, scores it, and writes `eval/<step>.json` and `.npz`.

  python -m vpo_jax.evaluate --workdir runs/vpo [--checkpoint STEP] [--config.eval.temperature=0.7]

Checkpoint 0 is what the run started from.
"""

import argparse
import functools
import json

import jax
import numpy as np
from etils import epath

from vpo_jax import checkpoint, config, partition
from vpo_jax.evaluation import summary
from vpo_jax.evaluation.pool import Pool
from vpo_jax.experience import stack_prompts
from vpo_jax.models.config import ModelConfig
from vpo_jax.rollout import RolloutLoop
from vpo_jax.sampling.logits import sampling_params
from vpo_jax.train import make_model, make_run, make_task, mistakes_in_one_line, starting_params

# Parts of a config that an evaluation reads; the others say how to train.
READ = ('task', 'model', 'mesh', 'eval', 'init_from', 'seed')


def sample_pool(task, model: ModelConfig, params, mesh, *, split: str, num_problems: int, num_candidates: int,
                num_answers: int, segments: int, temperature: float, top_k: int, top_p: float, min_p: float, rows: int,
                seed: int) -> Pool:
  """Answers the first problems of a split many times over and scores every answer.

  Args:
    task: has `token_reward` and `oracle`.
    model: sizes.
    params: of the policy, on `mesh`.
    mesh: of the learner.
    split: `tuning`, `test` or `shifted`.
    num_problems: first so many of the split.
    num_candidates: answers a problem; rounded up to whole rollouts.
    num_answers: m, asked for in a prompt.
    segments: sizes through which the sampler's cache grows.
    temperature: 0 for greedy.
    top_k: 0 for no filter; see `SamplingParams`.
    top_p: 1 for no filter.
    min_p: 0 for no filter.
    rows: responses sampled at a time, at least one problem's.
    seed: of the sampling; two pools of one seed draw alike.

  Raises:
    ValueError: a number is out of range.
  """
  for name, value in dict(num_problems=num_problems, num_candidates=num_candidates, num_answers=num_answers,
                          rows=rows).items():
    if value < 1:
      raise ValueError(f'eval.{name}={value} must be at least 1.')
  if not 0 <= seed < 2**32:
    raise ValueError(f'eval.{seed=} must lie in [0, 2**32).')
  source = task.examples(split)
  if num_problems > len(source):
    raise ValueError(f'eval.{num_problems=} must be at most {len(source)}, the size of split {split!r}.')
  examples, oracle = _problems(task, split, num_problems)
  component_mask = np.stack([task.evaluation_mask(example) for example in examples])
  rollouts = -(-num_candidates // num_answers)
  per_call = min(num_problems, max(1, rows // rollouts))
  sampling = sampling_params(
      vocab_size=task.vocab_size, stop_ids=task.stop_ids, temperature=temperature, top_k=top_k, top_p=top_p,
      min_p=min_p)
  loop, score = _programs(task, model, num_answers, segments, tuple(mesh.local_devices))
  params = partition.replicate_local(params, mesh, loop.devices)
  rewards, masks, generated = [], [], 0
  for first in range(0, num_problems, per_call):
    part = examples[first : first + per_call]
    part = part + part[-1:] * (per_call - len(part))  # One shape: the last call is filled up.
    prompts = stack_prompts(task, part, num_answers)
    requests = first * rollouts + np.arange(per_call * rollouts).reshape(per_call, rollouts)
    responses = loop(params, prompts.tokens, prompts.lengths, requests, sampling, seed=seed, step=0)
    reward, mask, _ = jax.device_get(score(prompts.examples, responses.tokens, responses.lengths))
    live = min(per_call, num_problems - first)
    rewards.append(reward[:live].reshape(live, rollouts * num_answers, -1) * component_mask[first:first + live, None])
    masks.append(mask[:live].reshape(live, -1))
    generated += int(responses.lengths[:live].sum())
  candidate = np.broadcast_to(
      np.arange(rollouts * num_answers, dtype=np.int32), (num_problems, rollouts * num_answers))
  return Pool(
      rewards=np.concatenate(rewards), answer_mask=np.concatenate(masks), rollout=candidate // num_answers,
      position=candidate % num_answers, oracle=oracle,
      generated_tokens=generated, components=tuple(task.components), scalar_weights=np.asarray(task.scalar_weights),
      component_mask=component_mask, success_components=tuple(task.success_components))


@functools.lru_cache(maxsize=8)
def _problems(task, split, num_problems):
  """Examples and `[problems]` oracles; an oracle takes 9 ms, a whole pool of short answers not much longer."""
  source = task.examples(split)
  examples = tuple(source[i] for i in range(num_problems))
  return examples, np.array([task.oracle(example) for example in examples], np.float32)


@functools.lru_cache(maxsize=8)
def _programs(task, model, num_answers, segments, devices):
  """Sampler and reward of a kind of prompt; many pools of one shape compile once."""
  loop = RolloutLoop(
      model, max_new_tokens=task.response_width(num_answers), segments=segments, devices=list(devices))
  score = jax.jit(jax.vmap(lambda example, tokens, lengths: task.token_reward(example, tokens, lengths, num_answers)))
  return loop, score


def evaluate(workdir: epath.PathLike, *, step: int | None = None, overrides: list[str] = ()) -> dict:
  """Evaluates a checkpoint of `workdir` by its config's `eval` part; returns the content of `eval/<step>.json`.

  Args:
    workdir: of a training.
    step: of the checkpoint; the newest by default, 0 for the parameters that the run started from.
    overrides: `--config.eval.field=value` arguments; other parts that play a role here (`READ`) can be set too.

  Raises:
    ValueError: there is no such run, checkpoint or field, or a value is out of range or plays no role.
  """
  workdir = epath.Path(workdir)
  if not (workdir / 'config.json').exists():
    raise ValueError(f'workdir={str(workdir)!r} must hold a config.json: it is no training run.')
  trained = json.loads((workdir / 'config.json').read_text())['config']
  plain = config.plain(config.load(trained, overrides))
  for name, value in config.plain(config.load(trained)).items():
    if name not in READ and plain[name] != value:
      raise ValueError(f'config.{name}={plain[name]!r} must stay {value!r}: an evaluation reads only '
                       f'{", ".join(READ)}.')
  run = config.call(make_run, plain, 'config')
  if step is None:
    step = checkpoint.latest_step(workdir / 'checkpoints') or 0
  if step:
    params = checkpoint.restore_params(workdir / 'checkpoints', run.learner.abstract_state.params, step)
  else:
    params, _ = starting_params(run)
  task = make_task(plain['task'])
  pool = config.call(sample_pool, dict(
      task=task, model=make_model(task, plain['model']), params=params, mesh=run.learner.mesh) | plain['eval'], 'eval')
  return summary.write(pool, workdir, step)


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m vpo_jax.evaluate', description='Evaluates a trained policy.')
  parser.add_argument('--workdir', required=True)
  parser.add_argument('--checkpoint', type=int, help='step; the newest by default, 0: what the run started from')
  arguments, overrides = parser.parse_known_args()
  with mistakes_in_one_line():
    result = evaluate(arguments.workdir, step=arguments.checkpoint, overrides=overrides)
  best = ', '.join(f'best@{k} {value:.3f}' for k, value in result['best_at_k'].items() if k in ('1', '3', '10', '30'))
  print(f'{best}, completion {result["completion"]:.3f}. The results are in {arguments.workdir}/eval.')


if __name__ == '__main__':
  main()
