r"""Multi-RLVR: three answers a rollout, the sum of their scalars.

  python -m vpo_jax.train --config experiments/programs/multi_rlvr.py --workdir runs/programs/multi_rlvr

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import NUM_ANSWERS, method_config


def get_config():
  return method_config(num_answers=NUM_ANSWERS, advantage=dict(name='multi_rlvr'))
