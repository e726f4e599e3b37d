r"""`vpo_subsets` under one weighting a prompt and step: Max@K of a random scalar.

  python -m vpo_jax.train --config experiments/maze_small/vpo_subsets_one_weighting.py --workdir runs/one_weighting

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='vpo_subsets', k=8, num_weights=1))
