r"""`vpo_subsets` over all 3-subsets: as many answers in a set as a rollout of VPO holds.

  python -m vpo_jax.train --config experiments/maze_small/vpo_subsets_k3.py --workdir runs/maze_small/k3

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='vpo_subsets', k=3, num_weights=32))
