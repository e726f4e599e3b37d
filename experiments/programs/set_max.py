r"""Set-max, VPO's ablation: three answers a rollout, the best one by the fixed weighting.

  python -m vpo_jax.train --config experiments/programs/set_max.py --workdir runs/programs/set_max

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import NUM_ANSWERS, method_config


def get_config():
  return method_config(num_answers=NUM_ANSWERS, advantage=dict(name='set_max'))
