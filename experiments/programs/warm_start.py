r"""The start and reference of every method on programs: imitation of the right program and of near misses.

  python -m vpo_jax.train --config experiments/programs/warm_start.py --workdir runs/programs/warm_start
"""

from experiments.programs.base import NUM_ANSWERS, shared_config


def get_config():
  c = shared_config()
  c.init_from = ''
  c.num_steps = 1300
  c.token_budget = 0
  c.experience = dict(kind='demonstrations', num_answers=(1, NUM_ANSWERS), prompts=(64, 24))  # In turn, step by step.
  c.optimizer = dict(
      learning_rate=2e-3, warmup_steps=60, decay_steps=1300, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0, clip_norm=1.0)
  return c
