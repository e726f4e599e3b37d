"""What every run on programs by example shares: task, model, learner, and how a policy is evaluated.

Training pays all tests of a problem; an evaluation counts its hidden ones.
"""

from experiments.maze_small import base as small

NUM_ANSWERS = 3


def shared_config():
  """The fields that all runs have, warm start and methods alike."""
  c = small.shared_config()
  c.task = dict(  # Seed 0 drew the problems of trials.
      name='programs', min_words=2, max_words=5, noise=.15, rewarded=12, seed=1)
  c.model = dict(  # 660 k parameters.
      d_model=128, num_layers=3, num_heads=4, num_kv_heads=4, head_dim=32, d_ff=384)
  return c


def method_config(*, num_answers: int, advantage: dict):
  """A reinforcement run: 20 prompts × 36 answers a step, 0.3 M generated tokens from the warm start."""
  c = small.method_config(num_answers=num_answers, advantage=advantage)
  shared = shared_config()
  c.task, c.model = shared.task, shared.model
  c.init_from = 'runs/programs/warm_start'
  c.token_budget = 300_000
  c.experience.prompts = 20
  c.experience.max_new_tokens = 9 * num_answers
  return c
