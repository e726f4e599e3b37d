r"""The warm start of a smaller model of the same family, by the same imitation, with a sixth of the parameters.

  python -m vpo_jax.train --config experiments/programs/warm_start_small.py --workdir runs/programs/warm_start_small

pass@1 is 0.014 and pass@100 0.49, where the larger one has 0.025 and 0.57.
"""

from experiments.programs import warm_start


def get_config():
  c = warm_start.get_config()
  c.model = dict(d_model=64, num_layers=2, num_heads=2, num_kv_heads=2, head_dim=32, d_ff=192)
  return c
