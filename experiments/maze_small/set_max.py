r"""Set-max, VPO's ablation: three answers a rollout, the best one by the fixed weighting.

  python -m vpo_jax.train --config experiments/maze_small/set_max.py --workdir runs/maze_small/set_max

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=3, advantage=dict(name='set_max'))
