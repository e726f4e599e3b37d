r"""Multi-RLVR as its own authors have it: a rollout is paid for copies of an answer, too.

  python -m vpo_jax.train --config experiments/maze_small/multi_rlvr_copies.py --workdir runs/maze_small/copies

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About a CPU minute.
"""

from experiments.maze_small.base import method_config


def get_config():
  return method_config(num_answers=3, advantage=dict(name='multi_rlvr', deduplicate=False))
