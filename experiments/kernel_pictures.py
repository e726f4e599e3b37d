r"""Draws what each kernel pays, over a two-dimensional reward space.

  python -m experiments.kernel_pictures --out docs/kernels/figures

One rollout's answer moves over the square while the other answers stay: of four other rollouts, or, for kernels of
several answers a rollout, one fixed answer of its own. The colour is what the kernel returns.
"""

import argparse

import jax
import numpy as np
from etils import epath
from matplotlib.figure import Figure

from vpo_jax import advantages
from vpo_jax.evaluation import plots

POINTS = 61
OTHERS = ((.9, .15), (.2, .8), (.55, .5), (.25, .2))
OWN = (.9, .15)
# What is drawn is the reward of the set itself, before baseline and scale.
SETS = {'vpo': {'num_weights': 256}, 'set_max': {}, 'multi_rlvr': {}}
SINGLES = {
    'grpo': {}, 'dr_grpo': {}, 'random_weights': {}, 'maxrl': {}, 'gdpo': {}, 'max_at_k': {'k': 3}, 'pkpo': {'k': 3},
    'vpo_subsets': {'k': 3, 'num_weights': 256}, 'poly_epo': {'n': 3}, 'diversity_bonus': {}, 'pareto_rank': {},
    'hypervolume': {}}


def grid() -> np.ndarray:
  """`[POINTS², 2]` places of the moving answer, row by row from below."""
  axis = np.linspace(0, 1, POINTS)
  return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def pays(name: str) -> np.ndarray:
  """`[POINTS, POINTS]` what the kernel returns for the rollout whose answer moves."""
  places = grid()
  if name in SETS:  # A second rollout, which earns nothing, since a group of one is refused.
    rewards = np.zeros((len(places), 2, 2, 2), np.float32)
    rewards[:, 0, 0], rewards[:, 0, 1] = OWN, places
    settings = SETS[name] | {'baseline': 'none', 'normalize': 'none'}
  else:
    rewards = np.zeros((len(places), 1 + len(OTHERS), 1, 2), np.float32)
    rewards[:, 0, 0], rewards[:, 1:, 0] = places, OTHERS
    settings = SINGLES[name]
  known = advantages.settings_of(name)
  arrays = {}
  if 'prompt_ids' in known:  # The same weightings everywhere: the picture is of the reward, not of the draws.
    arrays['prompt_ids'] = np.zeros(len(places), np.int32)
  if 'clusters' in known:
    arrays['clusters'] = np.broadcast_to(np.arange(rewards.shape[1], dtype=np.int32), rewards.shape[:2])
  values = jax.jit(lambda rewards, key, arrays: advantages.compute(name, rewards, key, **arrays, **settings).values)(
      rewards, jax.random.key(0), arrays)
  return np.asarray(values)[:, 0].reshape(POINTS, POINTS)


def picture(name: str) -> Figure:
  """Filled contours of `pays(name)`, with the answers that stay as dots."""
  figure = Figure(figsize=(4.2, 3.4), layout='constrained')
  ax = figure.subplots()
  axis = np.linspace(0, 1, POINTS)
  drawn = ax.contourf(axis, axis, pays(name), levels=14, cmap='cividis')
  stays = np.array([OWN] if name in SETS else OTHERS)
  ax.scatter(*stays.T, color='white', edgecolor='black', s=36, zorder=2)
  ax.set(xlabel='component 1', ylabel='component 2', aspect='equal', title=plots.style(name)[0])
  figure.colorbar(drawn, ax=ax, label='set reward' if name in SETS else 'advantage')
  return figure


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m experiments.kernel_pictures', description='Pictures of the kernels.')
  parser.add_argument('--out', default='docs/kernels/figures')
  arguments = parser.parse_args()
  for name in advantages.ESTIMATORS:
    plots.save(picture(name), epath.Path(arguments.out) / f'{name}.png')
  print(f'The pictures are in {arguments.out}.')


if __name__ == '__main__':
  main()
