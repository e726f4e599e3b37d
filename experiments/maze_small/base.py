"""What every run on the small maze shares: task, model, learner, and how a policy is evaluated."""

import ml_collections


def shared_config():
  """The fields that all runs have, warm start and methods alike."""
  c = ml_collections.ConfigDict()
  c.seed = 0
  c.task = dict(name='maze_small', seed=1)  # Seed 0 drew the mazes of trials.
  c.model = dict(  # 352 k parameters.
      d_model=96, num_layers=3, num_heads=3, num_kv_heads=3, head_dim=32, d_ff=256)
  c.loss = dict(
      clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=0.0, kl_kind='low_var_kl', aggregation='token-mean')
  c.mesh = dict(data=-1, fsdp=1, tensor=1)
  c.micro_batches = 1
  c.updates_per_batch = 1
  c.checkpoints = dict(every=50, keep=2)
  c.eval = dict(  # `test` is for the final runs of a sweep, which ask for it by name.
      split='tuning', num_problems=256, num_candidates=512, num_answers=1, segments=1, temperature=1.0, top_k=0,
      top_p=1.0, min_p=0.0, rows=4096, seed=2026)
  return c


def method_config(*, num_answers: int, advantage: dict):
  """A reinforcement run: 10 prompts × 36 answers a step, 0.8 M generated tokens from the warm start."""
  c = shared_config()
  c.init_from = 'runs/maze_small/warm_start'
  c.num_steps = 400  # The token budget ends a run first.
  c.token_budget = 800_000
  c.experience = dict(
      kind='rollouts', prompts=10, rollouts=36 // num_answers, num_answers=num_answers, max_new_tokens=17 * num_answers,
      segments=1 if num_answers == 1 else 2, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0,
      # One deviation and one eps, whatever each estimator's own: they must not decide a comparison.
      advantage=dict(ddof=0, eps=1e-4) | advantage)
  c.optimizer = dict(
      learning_rate=7e-4, warmup_steps=5, decay_steps=0, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0, clip_norm=1.0)
  c.eval.num_answers = num_answers
  c.eval.segments = c.experience.segments
  return c
