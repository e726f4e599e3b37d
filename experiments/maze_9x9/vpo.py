r"""VPO on the paper's 9x9 maze at the paper's scale: 128 prompts × 8 rollouts × 3 routes a step, the sizes of Qwen3-4B.

  python -m vpo_jax.train --config experiments/maze_9x9/vpo.py --workdir runs/maze_9x9/vpo

Not run here: it needs accelerators (the paper's had 4 of 80 GB). Batch, loss and optimizer are the paper's. Routes are
cell tokens, so the weights start fresh or from a warm start of the same task (--config.init_from=WORKDIR).
"""

import ml_collections


def get_config():
  c = ml_collections.ConfigDict()
  c.seed = 0
  c.task = dict(name='maze', reward_mode='convex_bonus')  # What the released generator writes.
  c.model = dict(
      d_model=2560, num_layers=36, num_heads=32, num_kv_heads=8, head_dim=128, d_ff=9728, rope_theta=1e6, qk_norm=True,
      scan_layers=True, dtype='bfloat16')
  c.init_from = ''
  c.num_steps = 14  # 1000 mazes twice; the paper's figure shows about 93 steps.
  c.token_budget = 0
  c.experience = dict(
      kind='rollouts', prompts=128, rollouts=8, num_answers=3, max_new_tokens=108, segments=4, temperature=1.0, top_k=0,
      top_p=1.0, min_p=0.0, advantage=dict(name='vpo', num_weights=100))
  c.loss = dict(
      clip_low=0.2, clip_high=0.2, dual_clip=3.0, kl_coef=1e-3, kl_kind='low_var_kl', aggregation='token-mean')
  c.optimizer = dict(
      learning_rate=1e-6, warmup_steps=0, decay_steps=0, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, clip_norm=1.0)
  c.mesh = dict(data=1, fsdp=-1, tensor=1)
  c.micro_batches = 8
  c.updates_per_batch = 2  # Of 64 prompts each.
  c.checkpoints = dict(every=10, keep=2)
  c.eval = dict(  # Ten rollouts of three answers at the paper's temperature.
      split='test', num_problems=100, num_candidates=30, num_answers=3, segments=4, temperature=0.7, top_k=0, top_p=1.0,
      min_p=0.0, rows=1024, seed=0)
  return c
