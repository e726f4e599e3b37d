r"""VPO: three answers a rollout, the best one under each of 100 random weightings.

  python -m vpo_jax.train --config experiments/programs/vpo.py --workdir runs/programs/vpo

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import NUM_ANSWERS, method_config


def get_config():
  return method_config(num_answers=NUM_ANSWERS, advantage=dict(name='vpo', num_weights=100))
