"""Configs of runs that take seconds: `tiny_config.py:warm_start` imitates, `:vpo` and `:grpo` reinforce."""

import ml_collections


def get_config(kind):
  c = ml_collections.ConfigDict()
  c.seed = 0
  c.task = dict(name='maze_small', size=5, zone=2, items=(2, 2), lava=2, budget=10)
  c.model = dict(d_model=16, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=8, d_ff=32)
  c.init_from = ''
  c.num_steps = 6
  c.token_budget = 0
  c.experience = dict(
      kind='rollouts', prompts=4, rollouts=8, num_answers=2, max_new_tokens=22, segments=1, temperature=1.0, top_k=0,
      top_p=1.0, min_p=0.0, advantage=dict(name=kind))
  c.optimizer = dict(
      learning_rate=1e-2, warmup_steps=0, decay_steps=0, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.0, clip_norm=1.0)
  if kind == 'warm_start':
    c.num_steps = 80  # Enough for some answers to arrive.
    c.experience = dict(kind='demonstrations', num_answers=(1, 2), prompts=(32, 32))
  c.loss = dict(
      clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=0.0, kl_kind='low_var_kl', aggregation='token-mean')
  c.mesh = dict(data=-1, fsdp=1, tensor=1)
  c.micro_batches = 1
  c.updates_per_batch = 1
  c.checkpoints = dict(every=2 if kind != 'warm_start' else 80, keep=2)
  c.eval = dict(
      split='test', num_problems=5, num_candidates=5, num_answers=2, segments=1, temperature=1.0, top_k=0, top_p=1.0,
      min_p=0.0, rows=12, seed=2026)
  return c
