r"""GRPO on single answers: the scalar reward, standardised in its group.

  python -m vpo_jax.train --config experiments/maze_hard/grpo.py --workdir runs/maze_hard/grpo

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 4 CPU minutes.
"""

from experiments.maze_hard.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='grpo'))
