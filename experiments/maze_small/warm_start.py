r"""The start and reference of every method on the small maze: imitation of noisy routes, one and three at a time.

  python -m vpo_jax.train --config experiments/maze_small/warm_start.py --workdir runs/maze_small/warm_start

Completion 0.39 with one answer and 0.37 with three. A start above 0.5 would hide what the methods do.
"""

from experiments.maze_small.base import shared_config


def get_config():
  c = shared_config()
  c.init_from = ''
  c.num_steps = 200
  c.token_budget = 0
  c.experience = dict(kind='demonstrations', num_answers=(1, 3), prompts=(192, 96))  # In turn, step by step.
  c.optimizer = dict(
      learning_rate=2e-3, warmup_steps=50, decay_steps=200, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0, clip_norm=1.0)
  return c
