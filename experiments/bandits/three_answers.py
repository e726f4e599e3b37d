"""Three answers, (1, 0), (0, 1) and the compromise (.6, .6): what is left of the specialists?

Users' weightings are uniform. The compromise is the best single answer, .6 for everybody against .5; the two
specialists together are worth 3/4; to a user with weights (.9, .1) one of them is worth .9. Each update takes 64
answers. Adam, step .03. The last three columns: what that user gets, and the chance of the compromise.
"""

import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

REWARDS = np.array([[1., 0.], [0., 1.], [.6, .6]], np.float32)
ANSWERS = 64
METHODS = (
    Method('GRPO', 'grpo'),
    Method('GRPO, 4 slots', 'grpo', slots=4),
    Method('random weights', 'random_weights'),
    Method('Max@K, k 4', 'max_at_k', {'k': 4}),
    Method('Max@K, k 16', 'max_at_k', {'k': 16}),
    Method('set-max, 4 slots', 'set_max', slots=4),
    Method('VPO, 1 slot', 'vpo'),
    Method('VPO, 4 slots', 'vpo', slots=4),
    Method('vpo_subsets, k 2', 'vpo_subsets', {'k': 2}),
    Method('vpo_subsets, k 3', 'vpo_subsets', {'k': 3}),
    Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}),
    Method('vpo_subsets, k 16', 'vpo_subsets', {'k': 16}),
    Method('vpo_subsets, k 2, 4 slots', 'vpo_subsets', {'k': 2}, 4),
)
READING = """
GRPO, GRPO under random weightings and VPO with one answer a rollout end on the compromise: with one answer there is
nobody to differ from. VPO's four slots divide the work and come within .001 of what all three answers together are
worth to these users (.755). Losses of `vpo_subsets`: its four answers are drawn independently and repeat each other
(.722 at four draws, and no independent draws do better than .723), and it gives up .08 at one draw. The uniform policy
("untrained") has .718 there: with three answers, to keep them is nearly all there is to do.
"""
COMPARED = (
    ('VPO, 4 slots', 'vpo_subsets, k 4', 'best@4'),
    ('vpo_subsets, k 4', 'Max@K, k 16', 'best@4'),
    ('GRPO', 'vpo_subsets, k 4', 'best@1'))


def measures(probs: np.ndarray) -> dict[str, float]:
  """What the policy `[m, 3]` is worth."""
  best = tabular.expected_best(probs, tabular.user_scores(REWARDS, tabular.users(2, 1.)), (1, 4, 16))
  first = tabular.expected_best(probs, tabular.user_scores(REWARDS, [[.9, .1]]), (1, 4))
  return {
      **{f'best@{n}': value for n, value in zip((1, 4, 16), best, strict=True)},
      '(.9, .1) @1': first[0], '(.9, .1) @4': first[1], 'compromise': probs[:, 2].mean()}


def run(num_seeds=8, num_updates=300, methods=METHODS):
  """Rows of the table: label -> measure -> one value a seed."""
  rows = {'untrained': tabular.by_measure([measures(np.full((1, 3), 1 / 3))] * num_seeds)}
  for method in methods:
    logits, _ = tabular.train_seeds(
        num_seeds, jnp.zeros((method.slots, 3)), tabular.fixed(REWARDS), method,
        rollouts=ANSWERS // method.slots, optimizer=optax.adam(.03), num_updates=num_updates)
    rows[method.label] = tabular.by_measure(map(measures, tabular.probs_of(logits)))
  return {'': rows}
