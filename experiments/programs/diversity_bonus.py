r"""GRPO with a bonus for answers whose program is rare in the group.

  python -m vpo_jax.train --config experiments/programs/diversity_bonus.py --workdir runs/programs/diversity_bonus

Needs the warm start (`warm_start.py`) or another with --config.init_from=WORKDIR. About 2 CPU minutes.
"""

from experiments.programs.base import method_config


def get_config():
  return method_config(num_answers=1, advantage=dict(name='diversity_bonus', coefficient=.3, normalize='std'))
