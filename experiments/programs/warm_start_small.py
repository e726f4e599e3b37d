r"""The warm start of a smaller model of the same family, by the same imitation: 110 k parameters instead of 660 k.

  python -m vpo_jax.train --config experiments/programs/warm_start_small.py --workdir runs/programs/warm_start_small
"""

from experiments.programs import warm_start


def get_config():
  c = warm_start.get_config()
  c.model = dict(d_model=64, num_layers=2, num_heads=2, num_kv_heads=2, head_dim=32, d_ff=192)
  return c
