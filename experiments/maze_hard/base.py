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
  """A reinforcement run: 10 prompts × 35 answers a step, 1.2 M generated tokens from the warm start."""
  c = small.method_config(num_answers=num_answers, advantage=advantage)
  c.task.name = 'maze_hard'
  c.init_from = 'runs/maze_hard/warm_start'
  c.token_budget = 1_200_000
  c.experience.rollouts = 35 // num_answers
  return c
