r"""Max@K on single answers: credit for being the best of 8 by the share of tests passed.

  python -m vpo_jax.train --config experiments/programs/max_at_k.py --workdir runs/programs/max_at_k

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='max_at_k', k=8))
