r"""GRPO on single answers: the share of tests passed, standardised in its group.

  python -m vpo_jax.train --config experiments/programs/grpo.py --workdir runs/programs/grpo

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='grpo'))
