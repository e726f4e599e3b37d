"""Two binary rewards, an easy one and a hard one: of 40 answers 36 pass the first, 2 the second, 1 both.

So at the start a draw passes the easy one with chance .9 and the hard one with chance .05. An update takes 8 prompts of
8 answers (whitening over the batch then differs from standardising each group); plain gradient steps of .1, at most
3000 updates. "updates": until the answer that passes both has more than .9 of the chance. The last row pays the easy
reward only where the hard one is passed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

ANSWERS = 40
BOTH = 35
REWARDS = np.stack([np.arange(ANSWERS) < 36, np.isin(np.arange(ANSWERS), (BOTH, 36))], axis=1).astype(np.float32)
CONDITIONAL = REWARDS * REWARDS[:, 1:] ** np.array([1, 0])
METHODS = (
    (Method('GRPO', 'grpo'), REWARDS),
    (Method('Dr. GRPO', 'dr_grpo'), REWARDS),
    (Method('GDPO', 'gdpo'), REWARDS),
    (Method('random weights', 'random_weights'), REWARDS),
    (Method('Pareto rank', 'pareto_rank'), REWARDS),
    (Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}), REWARDS),
    (Method('GDPO, easy reward paid only with the hard one', 'gdpo'), CONDITIONAL),
)
READING = """
GDPO needs a fifth fewer updates than GRPO, and an eighth fewer again if the easy reward is conditional. Three levels
are all there is, and Pareto ranks space them as the sum does: the same row twice. Dr. GRPO's smaller advantages are a
smaller step. Loss: `vpo_subsets` with k 4 pushes no further once four draws probably hold the best answer.
"""
COMPARED = (('GRPO', 'GDPO', 'updates'),)


def run(num_seeds=8, num_updates=3000, methods=METHODS):
  """Rows of the table: label -> measure -> one value a seed, None where the goal was not reached."""
  rows = {}
  for method, rewards in methods:
    logits, reached = tabular.train_seeds(
        num_seeds, jnp.zeros((1, ANSWERS)), tabular.fixed(rewards), method,
        prompts=8, rollouts=8, optimizer=optax.sgd(.1), num_updates=num_updates,
        watch=lambda logits: jax.nn.softmax(logits[0])[BOTH] > .9)
    rows[method.label] = {
        'updates': tabular.first_updates(reached),
        **tabular.by_measure({'passes both': probs[0, BOTH]} for probs in tabular.probs_of(logits))}
  return {'': rows}
