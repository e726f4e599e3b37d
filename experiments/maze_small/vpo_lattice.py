r"""VPO with its 100 weightings from a shifted lattice instead of independent draws: the same reward, less noise.

  python -m vpo_jax.train --config experiments/maze_small/vpo_lattice.py --workdir runs/maze_small/vpo_lattice

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=3, advantage=dict(name='vpo', num_weights=100, weight_sampler='lattice'))
