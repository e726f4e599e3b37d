r"""GRPO under one random weighting a prompt, drawn anew each step.

  python -m vpo_jax.train --config experiments/maze_hard/random_weights.py --workdir runs/maze_hard/random_weights

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 4 CPU minutes.
"""

from experiments.maze_hard.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='random_weights'))
