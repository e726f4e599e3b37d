"""Vector Policy Optimization in JAX. Importing the package imports no JAX: host scoring needs none."""

__version__ = '0.1.0'
