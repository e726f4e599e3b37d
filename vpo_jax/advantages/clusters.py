"""Cluster ids of a group's rollouts: equal ids, same strategy. Given by a judge, or by the answers themselves."""

import jax
import jax.numpy as jnp


def cluster_ids(clusters, shape: tuple[int, int]) -> jax.Array:
  """Cluster of every rollout: `[B, G]` integers, as given.

  Args:
    clusters: `[B, G]` integers; None: each rollout is a cluster of its own, which is what Poly-EPO's code assumes where
      its judge fails.
    shape: (B, G).

  Raises:
    ValueError: the ids don't fit the batch.
  """
  if clusters is None:  # Negative, so that none is a junk id.
    return jnp.broadcast_to(-1 - jnp.arange(shape[1]), shape)
  clusters = jnp.asarray(clusters)
  if clusters.shape != shape or not jnp.issubdtype(clusters.dtype, jnp.integer):
    raise ValueError(f'{clusters.shape=}, {clusters.dtype=} must be {list(shape)} integers, one for a rollout.')
  return clusters
