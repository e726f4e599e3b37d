r"""The start and reference of every method on the hard maze: imitation of noisy routes, one and five at a time.

  python -m vpo_jax.train --config experiments/maze_hard/warm_start.py --workdir runs/maze_hard/warm_start

Completion 0.04 with one answer and with five (the demonstrations': 0.05), best@30 0.23 and 0.21. About 4 CPU minutes.
"""

from experiments.maze_hard.base import NUM_ANSWERS, shared_config


def get_config():
  c = shared_config()
  c.init_from = ''
  c.num_steps = 400
  c.token_budget = 0
  c.experience = dict(kind='demonstrations', num_answers=(1, NUM_ANSWERS), prompts=(192, 64))  # In turn, step by step.
  c.optimizer = dict(
      learning_rate=2e-3, warmup_steps=50, decay_steps=400, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0, clip_norm=1.0)
  return c
