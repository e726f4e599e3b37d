r"""VPO's set reward over all 8-subsets of 36 independent answers.

  python -m vpo_jax.train --config experiments/programs/vpo_subsets.py --workdir runs/programs/vpo_subsets

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='vpo_subsets', k=8, num_weights=32))
