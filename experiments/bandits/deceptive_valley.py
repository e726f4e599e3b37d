"""Deceptive valley: four objectives of three bits each, whose easy optimum is far from the best string.

An objective pays .8 for 000, .4 with one bit set, nothing with two, 1 for 111: single steps lead to .8, and only
111 111 111 111 is best for everybody. A policy of independent bits (12 for an answer, fair at first) gives 128 answers
an update, plain gradient steps of .15 on the two logits of a bit (.3 on their difference), 500 updates. Users'
weightings are uniform. "all ones": the most probable string of a slot is the best string.
"""

import itertools

import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

BITS, BLOCK = 12, 3
ANSWERS = 128
METHODS = (
    Method('GRPO', 'grpo'),
    Method('GRPO, 4 slots', 'grpo', slots=4),
    Method('random weights', 'random_weights'),
    Method('Pareto rank', 'pareto_rank'),
    Method('set-max, 4 slots', 'set_max', slots=4),
    Method('Multi-RLVR, 4 slots', 'multi_rlvr', slots=4),
    Method('VPO, 4 slots', 'vpo', slots=4),
    Method('Max@K, k 4', 'max_at_k', {'k': 4}),
    Method('Max@K, k 16', 'max_at_k', {'k': 16}),
    Method('vpo_subsets, k 2', 'vpo_subsets', {'k': 2}),
    Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}),
    Method('vpo_subsets, k 8', 'vpo_subsets', {'k': 8}),
    Method('vpo_subsets, k 16', 'vpo_subsets', {'k': 16}),
    Method('vpo_subsets, k 2, 4 slots', 'vpo_subsets', {'k': 2}, 4),
)
READING = """
GRPO never finds the best string, nor does any method that looks at one answer at a time, nor Multi-RLVR, which pays a
sum. VPO finds it in all seeds. What crosses is a maximum over enough answers, more than the vector: set-max does it in
7 of 8 seeds, Max@K with k 16 in all, and it ends .004 above `vpo_subsets` with k 16. With k 2 `vpo_subsets` never
crosses, from k 4 on always.
"""
COMPARED = (('VPO, 4 slots', 'GRPO, 4 slots', 'best@4'), ('vpo_subsets, k 16', 'Max@K, k 16', 'best@4'))


def rewards() -> np.ndarray:
  """Reward vectors `[2^12, 4]` of all strings, in the order of `tabular.bit_strings`."""
  strings = np.array(list(itertools.product((0, 1), repeat=BITS)))[:, ::-1]
  ones = strings.reshape(-1, BITS // BLOCK, BLOCK).sum(axis=-1)
  return np.array([.8, .4, 0., 1.], np.float32)[ones]


def measures(logits: np.ndarray) -> dict[str, float]:
  """What the policy `[m, 12, 2]` is worth."""
  scores = tabular.user_scores(rewards(), tabular.users(BITS // BLOCK, 1., 64))
  best = tabular.expected_best(tabular.string_probs(logits), scores, (1, 4, 16))
  modes = logits[..., 1] > logits[..., 0]
  return {
      **{f'best@{n}': value for n, value in zip((1, 4, 16), best, strict=True)},
      'all ones': modes.all(axis=-1).any()}


def run(num_seeds=8, num_updates=500, methods=METHODS):
  """Rows of the table: label -> measure -> one value a seed."""
  reward = tabular.fixed(rewards())
  rows = {'untrained': tabular.by_measure([measures(np.zeros((1, BITS, 2)))] * num_seeds)}
  for method in methods:
    logits, _ = tabular.train_seeds(
        num_seeds, jnp.zeros((method.slots, BITS, 2)), reward, method,
        rollouts=ANSWERS // method.slots, optimizer=optax.sgd(.15), num_updates=num_updates,
        answers=tabular.bit_strings)
    rows[method.label] = tabular.by_measure(map(measures, logits))
  return {'': rows}
