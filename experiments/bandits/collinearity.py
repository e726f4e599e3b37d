"""Collinear objectives: is the gain of vector methods gone when all components say the same?

32 answers with four components, uniform on the simplex and stretched by (1, .8, .6, .4), and mixed with their mean:
r' = (1 - c) r + c mean(r) 1. At c = 1 there is one objective, and VPO is set-max. 64 answers an update, Adam with step
.03, 400 updates; each seed has its own answers. Users' weightings are uniform, and judge r'.
"""

import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

SHARES = (0., .25, .5, .75, .9, 1.)
ANSWERS = 64
METHODS = (
    Method('set-max, 4 slots', 'set_max', slots=4),
    Method('VPO, 4 slots', 'vpo', slots=4),
    Method('Max@K, k 4', 'max_at_k', {'k': 4}),
    Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}),
)
READING = """
The gain of the vector falls with c, is mostly gone at c = .75, and is zero at c = 1, as it must be: for VPO against
set-max and for `vpo_subsets` against Max@K alike.
"""
COMPARED = tuple(
    (better, worse, f'best@4, c {share:g}')
    for better, worse in (('VPO, 4 slots', 'set-max, 4 slots'), ('vpo_subsets, k 4', 'Max@K, k 4')) for share in SHARES)


def tables(num_seeds: int) -> np.ndarray:
  """Reward vectors `[shares, seeds, 32, 4]`."""
  rng = np.random.default_rng(1)
  own = rng.dirichlet(np.ones(4), (num_seeds, 32)) * np.array([1., .8, .6, .4])
  return np.stack([(1 - c) * own + c * own.mean(axis=-1, keepdims=True) for c in SHARES]).astype(np.float32)


def run(num_seeds=8, num_updates=400, methods=METHODS):
  """Rows of the table: label -> measure -> one value a seed."""
  instances = tables(num_seeds).reshape(-1, 32, 4)
  weights = tabular.users(4, 1.)
  rows = {}
  for method in methods:
    logits, _ = tabular.train_seeds(
        len(instances), jnp.zeros((method.slots, 32)), lambda key, ids, table: table[ids], method,
        instances=(jnp.asarray(instances),), rollouts=ANSWERS // method.slots, optimizer=optax.adam(.03),
        num_updates=num_updates)
    best = [
        tabular.expected_best(probs, tabular.user_scores(table, weights), (4,))[0]
        for probs, table in zip(tabular.probs_of(logits), instances, strict=True)]
    rows[method.label] = {
        f'best@4, c {share:g}': values
        for share, values in zip(SHARES, np.reshape(best, (len(SHARES), num_seeds)).tolist(), strict=True)}
  return {'': rows}
