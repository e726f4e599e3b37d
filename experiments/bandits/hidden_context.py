"""Hidden context: which of 8 strategies works depends on a context that the policy can't see.

A strategy works with its own chance, .55 down to .20, anew in every context; the policy starts with a preference for
the better ones. An update sees 8 contexts. Judged by the chance that one of n answers works, over 4000 contexts.

"One reward": 8 answers a context, plain gradient steps of .5 without a deviation, 3000 updates; clusters are
strategies. "Two rewards": a second success with the chances reversed, users' weightings uniform, 16 answers a context,
Adam with step .03, 600 updates.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

CHANCES = np.linspace(.55, .2, 8, dtype=np.float32)
LOGITS = np.linspace(1, -.4, 8, dtype=np.float32)
CONTEXTS = 8
COUNTS = (1, 4, 16, 64)


def log_volume(rewards, clusters, junk) -> jax.Array:
  """log det(I + V Vᵀ) of a set, V the clusters as unit vectors times their rewards: Σ over clusters of log(1 + Σ r²).

  GCPO (arXiv:2605.11461) pays what a rollout adds to such a volume of its group; this is our reading of its abstract,
  for strategies that are alike or wholly different, with the mean over sets in place of its credits.
  """
  same = (clusters[:, None] == clusters[None]) & ~junk[None]
  squares = jnp.where(same, jnp.square(rewards)[None], 0).sum(axis=1)
  return (jnp.log1p(squares) / jnp.maximum(same.sum(axis=1), 1)).sum()


ONE_REWARD = (
    Method('Dr. GRPO', 'dr_grpo'),
    Method('MaxRL', 'maxrl'),
    Method('GRPO with cluster bonus .3', 'diversity_bonus', {'coefficient': .3}),
    Method('Poly-EPO, n 4', 'poly_epo', {'n': 4}),
    Method('volume of sets of 4 (after GCPO)', 'poly_epo', {'n': 4, 'set_score': log_volume}),
    Method('PKPO, k 4', 'pkpo', {'k': 4}),
)
TWO_REWARDS = (
    Method('GRPO', 'grpo'),
    Method('Max@K, k 4', 'max_at_k', {'k': 4}),
    Method('VPO, 4 slots', 'vpo', slots=4),
    Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}),
    Method('vpo_subsets, k 2, 4 slots', 'vpo_subsets', {'k': 2}, 4),
)
READING = """
Dr. GRPO puts everything on the one best strategy: .13 more at one answer than the untrained policy, .39 less at 16.
Poly-EPO and PKPO keep the coverage, and gain .02 at one answer: so many draws leave little to gain here. The volume of
sets gains .06 there and gives up .03 at 16, like the cluster bonus. Two rewards: where rewards are random in this way,
Max@K on the mean covers already, and the vector adds .002. VPO's slots lead at 4 answers and fall behind at 16; subsets
of slots keep half of the one and lose nothing of the other.
"""
COMPARED = (
    ('Poly-EPO, n 4', 'untrained', 'best@16'), ('Dr. GRPO', 'untrained', 'best@16'),
    ('vpo_subsets, k 4', 'Max@K, k 4', 'best@16'), ('VPO, 4 slots', 'vpo_subsets, k 4', 'best@4'))


def rewards(key, ids, chances) -> jax.Array:
  """Rewards `[B, G, m, d]` of strategies `[B, G, m]` that work by `chances` `[8, d]` in each of B fresh contexts."""
  works = jax.random.bernoulli(key, chances[None], (len(ids), *chances.shape))
  return works[jnp.arange(len(ids)).reshape(-1, 1, 1), ids].astype(jnp.float32)


def contexts(chances, number=4000) -> np.ndarray:
  """What each strategy is worth in fresh contexts, each with a user: `[contexts, 8]`."""
  works = np.random.default_rng(1).random((number, *chances.shape)) < chances
  return (works * tabular.users(chances.shape[1], 1., number)[:, None]).sum(axis=-1)


def measures(probs: np.ndarray, scores: np.ndarray) -> dict[str, float]:
  """What the policy `[m, 8]` is worth."""
  return {f'best@{n}': value for n, value in zip(COUNTS, tabular.expected_best(probs, scores, COUNTS), strict=True)}


def rows(methods, chances, num_seeds, *, answers, optimizer, num_updates):
  """Rows of one table: label -> measure -> one value a seed."""
  scores = contexts(chances)
  rows = {'untrained': tabular.by_measure([measures(tabular.probs_of(LOGITS)[None], scores)] * num_seeds)}
  for method in methods:
    logits, _ = tabular.train_seeds(
        num_seeds, jnp.tile(LOGITS, (method.slots, 1)), lambda key, ids: rewards(key, ids, chances), method,
        rollouts=answers // method.slots, prompts=CONTEXTS, optimizer=optimizer, num_updates=num_updates)
    rows[method.label] = tabular.by_measure(measures(probs, scores) for probs in tabular.probs_of(logits))
  return rows


def run(num_seeds=4, num_updates=(3000, 600), methods=(ONE_REWARD, TWO_REWARDS)):
  """Rows of the two tables."""
  one, two = CHANCES[:, None], np.stack([CHANCES, CHANCES[::-1]], axis=1)
  return {
      'one reward': rows(methods[0], one, num_seeds, answers=8, optimizer=optax.sgd(.5), num_updates=num_updates[0]),
      'two rewards': rows(
          methods[1], two, num_seeds, answers=16, optimizer=optax.adam(.03), num_updates=num_updates[1])}
