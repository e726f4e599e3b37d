r"""GRPO under one random weighting of the tests a prompt, drawn anew each step.

  python -m vpo_jax.train --config experiments/programs/random_weights.py --workdir runs/programs/random_weights

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='random_weights'))
