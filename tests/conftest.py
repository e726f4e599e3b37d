"""Strictness for every test: fake devices, no silent broadcasting, warnings as errors (pyproject.toml)."""

import os

# Before JAX is imported: its backend reads these once.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', os.path.join(os.path.dirname(__file__), '..', '.jax_cache'))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.3')

import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')
