"""What every run on the hard maze shares: the small maze's model and learner, four exclusive zones, m = 5.

A warm start arrives in less than 10 % of its answers, and no luck reaches the optimum: the scalar's best is one zone.
"""

from experiments.maze_small import base as small

NUM_ANSWERS = 5


def shared_config():
  """The fields that all runs have, warm start and methods alike."""
  c = small.shared_config()
  c.task.name = 'maze_hard'
  return c


def method_config(*, num_answers: int, advantage: dict):
  """A reinforcement run: 20 prompts × 35 answers a step, 1.6 M generated tokens from the warm start.

  With 10 prompts and the small maze's learning rate, the few successes of a step decide, and GRPO ends on one route for
  all mazes (completion .45 after 13 steps, .20 after 80).
  """
  c = small.method_config(num_answers=num_answers, advantage=advantage)
  c.task.name = 'maze_hard'
  c.init_from = 'runs/maze_hard/warm_start'
  c.token_budget = 1_600_000
  c.experience.prompts = 20
  c.experience.rollouts = 35 // num_answers
  c.optimizer.learning_rate = 2.5e-4
  return c
