"""Strictness for every test: fake devices, no silent broadcasting, warnings as errors (pyproject.toml)."""

import os

# Before JAX is imported: its backend reads these once.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', os.path.join(os.path.dirname(__file__), '..', '.jax_cache'))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.3')

import hypothesis
import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

# The first example compiles, and two cores are shared: time says nothing here. CI repeats the same examples every time.
hypothesis.settings.register_profile(
    'shared', deadline=None, derandomize='CI' in os.environ, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile('shared')
