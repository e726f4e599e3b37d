r"""Time and noise of VPO's advantages beside a plain NumPy loop of the same formula, as one JSON object on stdout.

  taskset -c 0 python -m experiments.benchmarks.advantages > advantages.json

About a CPU minute. The loop draws each prompt's weightings with NumPy and scores all its rollouts in one product
(`numpy`), or goes over the rollouts too, as VPO's code does (`numpy_rollouts`). CPU seconds of the process; the repeats
of all contestants are interleaved, and medians compared. Noise is the mean squared distance of the advantages from
those of 16,384 even weightings, over fresh keys. `equal_time` gives each even sampler as many weightings as fit into
the time of 100 independent draws. See RESULTS.md.
"""

import argparse
import json
import os
import platform
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks.throughput import Compilations, progress
from vpo_jax import advantages

SHAPES = ((128, 8, 3, 4), (256, 16, 5, 16))  # Prompts, rollouts, answers, components.
NUM_WEIGHTS = 100
SAMPLERS = ('dirichlet', 'lattice', 'sobol')
LADDER = (100, 128, 160, 192, 256, 320)  # Numbers of weightings tried for equal time.
REFERENCE = 16_384
NEW_STEPS = 20

vpo = jax.jit(advantages.ESTIMATORS['vpo'], static_argnames=('num_weights', 'weight_sampler'))


def numpy_advantages(
    rewards: np.ndarray, rng: np.random.Generator, num_weights: int, *, by_rollout=False) -> np.ndarray:
  """VPO's advantages `[B, G]` of float64 `rewards` `[B, G, m, d]`, prompt by prompt."""
  values = np.zeros(rewards.shape[:2])
  for prompt, group in enumerate(rewards):
    weights = rng.dirichlet(np.ones(group.shape[-1]), num_weights)
    if by_rollout:
      returns = np.array([(answers @ weights.T).max(axis=0).mean() for answers in group])
    else:
      returns = (group @ weights.T).max(axis=1).mean(axis=-1)
    std = returns.std()
    if std >= 1e-6:
      values[prompt] = (returns - returns.mean()) / (std + 1e-6)
  return values


def interleaved(contestants: dict, *, repeats: int, calls: int) -> dict[str, float]:
  """Median CPU seconds of one call of each contestant, `repeats` rounds of `calls` calls; no warm-up."""
  seconds = {name: [] for name in contestants}
  for _ in range(repeats):
    for name, call in contestants.items():
      start = time.process_time()
      for _ in range(calls):
        jax.block_until_ready(call())
      seconds[name].append((time.process_time() - start) / calls)
  return {name: statistics.median(times) for name, times in seconds.items()}


def noise(rewards: np.ndarray, sampler: str, num_weights: int, keys) -> float:
  """Mean squared distance of the advantages from those of `REFERENCE` even weightings."""
  reference = vpo(rewards, jax.random.key(12345), num_weights=REFERENCE, weight_sampler='lattice').values
  values = [vpo(rewards, key, num_weights=num_weights, weight_sampler=sampler).values for key in keys]
  return float(np.mean(np.square(np.array(values) - np.asarray(reference)[None])))


def compare(shape: tuple[int, int, int, int], *, repeats: int, calls: int, noise_prompts: int, noise_keys: int) -> dict:
  """Times, noise and compilations at one shape."""
  rng, key = np.random.default_rng(0), jax.random.key(0)
  doubles = rng.random(shape)
  rewards = jnp.asarray(doubles, jnp.float32)
  call = lambda sampler, k: lambda: vpo(rewards, key, num_weights=k, weight_sampler=sampler).values
  ladder = {(sampler, k): call(sampler, k) for sampler in SAMPLERS[1:] for k in LADDER}
  ladder['dirichlet', NUM_WEIGHTS] = call('dirichlet', NUM_WEIGHTS)
  progress(f'{shape}: compiling')
  for contestant in ladder.values():
    jax.block_until_ready(contestant())
  progress(f'{shape}: times')
  loops = {'numpy': lambda: numpy_advantages(doubles, rng, NUM_WEIGHTS),
           'numpy_rollouts': lambda: numpy_advantages(doubles, rng, NUM_WEIGHTS, by_rollout=True)}
  times = interleaved({sampler: ladder[sampler, NUM_WEIGHTS] for sampler in SAMPLERS} | loops,
                      repeats=repeats, calls=calls)
  ladder_times = interleaved(ladder, repeats=repeats, calls=calls)

  progress(f'{shape}: noise')
  some, keys = rewards[:noise_prompts], jax.random.split(key, noise_keys)
  noises = {sampler: noise(some, sampler, NUM_WEIGHTS, keys) for sampler in SAMPLERS}
  draws = np.array([numpy_advantages(doubles[:noise_prompts], rng, NUM_WEIGHTS) for _ in keys])
  reference = vpo(some, key, num_weights=REFERENCE, weight_sampler='lattice').values
  noises['numpy'] = float(np.mean(np.square(draws - np.asarray(reference)[None])))
  equal_time = {}
  for sampler in SAMPLERS[1:]:
    fits = [k for k in LADDER if ladder_times[sampler, k] <= ladder_times['dirichlet', NUM_WEIGHTS]]
    k = max(fits, default=LADDER[0])
    equal_time[sampler] = {
        'num_weights': k, 'cpu_seconds': ladder_times[sampler, k],
        'noise_over_dirichlet': noise(some, sampler, k, keys) / noises['dirichlet']}

  compilations = Compilations()
  for step in range(NEW_STEPS):
    again = jnp.asarray(rng.random(shape), jnp.float32)
    for sampler in SAMPLERS:
      jax.block_until_ready(vpo(again, jax.random.key(step), num_weights=NUM_WEIGHTS, weight_sampler=sampler))
  return {
      'shape': dict(zip(('prompts', 'rollouts', 'answers', 'components'), shape, strict=True)),
      'num_weights': NUM_WEIGHTS,
      'cpu_seconds': times,
      'times_faster_than_numpy': {sampler: times['numpy'] / times[sampler] for sampler in SAMPLERS},
      'times_faster_than_numpy_rollouts': {sampler: times['numpy_rollouts'] / times[sampler] for sampler in SAMPLERS},
      'noise': noises,
      'equal_time': equal_time | {'dirichlet_cpu_seconds': ladder_times['dirichlet', NUM_WEIGHTS]},
      'compile_events_in_new_steps': compilations.count,
  }


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(description="Time and noise of VPO's advantages beside a NumPy loop.")
  parser.add_argument('--repeats', type=int, default=21, help='rounds of every timing')
  parser.add_argument('--calls', type=int, default=5, help='calls in a round')
  settings = parser.parse_args()
  figures = [compare(shape, repeats=settings.repeats, calls=settings.calls, noise_prompts=16, noise_keys=32)
             for shape in SHAPES]
  print(json.dumps({
      'figures': figures,
      'machine': {'cpus': len(os.sched_getaffinity(0)), 'python': platform.python_version(), 'jax': jax.__version__,
                  'numpy': np.__version__, 'device': jax.devices()[0].device_kind}}))


if __name__ == '__main__':
  main()
