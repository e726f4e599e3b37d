r"""VPO: three answers a rollout, the best one under each of 100 random weightings.

  python -m vpo_jax.train --config experiments/maze_small/vpo.py --workdir runs/maze_small/vpo

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=3, advantage=dict(name='vpo', num_weights=100))
