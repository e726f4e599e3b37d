"""Rare behaviour: of 20 answers 8 are right, and 2 of these (as 2 of the wrong ones) show a behaviour that is wanted.

The four answers with the behaviour share the chance eps at first. The reward is (right, behaviour), the scalar their
mean. An update takes 8 answers, plain gradient steps of .1, at most 6000 updates. "updates": until right answers with
the behaviour have more than .9 of the chance. Kernels alone must wait for the behaviour to be drawn. The last rows
draw the group from policies steered by intensities -6 to 6 along the behaviour and score it under the policy itself
(as in VSPO, arXiv:2605.15604, in a tabular reading of our own): by its intensity, by the behaviour itself, and as
controls by its intensity along a random direction and along the opposite one.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

RIGHT = np.arange(20) < 8
BEHAVIOUR = np.isin(np.arange(20), (6, 7, 18, 19))
ROLLOUTS = 8
INTENSITIES = np.linspace(-1, 1, ROLLOUTS, dtype=np.float32)
STRENGTH = 6.
# Label, method, direction of steering, whether the second component is the intensity.
METHODS = (
    (Method('GRPO on the mean', 'grpo'), 'none', False),
    (Method('GDPO', 'gdpo'), 'none', False),
    (Method('Max@K on the mean, k 4', 'max_at_k', {'k': 4}), 'none', False),
    (Method('vpo_subsets, k 4', 'vpo_subsets', {'k': 4}), 'none', False),
    (Method('steered GRPO, intensity', 'grpo'), 'behaviour', True),
    (Method('steered GRPO, behaviour', 'grpo'), 'behaviour', False),
    (Method('steered along a random direction, intensity', 'grpo'), 'random', True),
    (Method('steered the other way, intensity', 'grpo'), 'opposite', True),
)
EPS = (3e-2, 1e-2, 1e-3)
READING = """
No kernel makes up for a behaviour that is not drawn. A maximum over subsets still waits for it at one in a hundred,
where GRPO and GDPO have settled on the other right answers; at one in a thousand nobody finds it. Steering draws it,
in an eighth of the updates where others arrive at all, and only along its own direction.
"""
COMPARED = ()


def first_logits(eps: float) -> jax.Array:
  """Logits `[1, 20]`: eps on the answers with the behaviour, the rest on the others, shared equally."""
  return jnp.log(jnp.where(BEHAVIOUR, eps / BEHAVIOUR.sum(), (1 - eps) / (~BEHAVIOUR).sum()))[None]


def directions() -> dict[str, np.ndarray]:
  """Steering directions `[20]`."""
  noise = np.random.default_rng(0).normal(size=20)
  behaviour = BEHAVIOUR.astype(np.float32)
  noise *= np.linalg.norm(behaviour) / np.linalg.norm(noise)
  return {'none': 0 * behaviour, 'behaviour': behaviour, 'random': noise.astype(np.float32), 'opposite': -behaviour}


def run(num_seeds=4, num_updates=6000, methods=METHODS, eps=EPS):
  """Rows of the table: label -> measure -> one value a seed, None where the goal was not reached."""
  values = jnp.asarray(np.stack([RIGHT, BEHAVIOUR], axis=1), jnp.float32)

  def intensity_rewards(key, ids):
    pay = jnp.broadcast_to(jnp.asarray(INTENSITIES).reshape(1, -1, 1), ids.shape)
    return jnp.stack([values[ids, 0], pay], axis=-1)

  rows = {}
  for method, direction, by_intensity in methods:
    tilts = STRENGTH * INTENSITIES[:, None, None] * directions()[direction]
    row = rows[method.label] = {}
    for start in eps:
      _, reached = tabular.train_seeds(
          num_seeds, first_logits(start), intensity_rewards if by_intensity else tabular.fixed(values), method,
          rollouts=ROLLOUTS, optimizer=optax.sgd(.1), num_updates=num_updates, tilts=jnp.asarray(tilts, jnp.float32),
          watch=lambda logits: jnp.where(RIGHT & BEHAVIOUR, jax.nn.softmax(logits[0]), 0).sum() > .9)
      row[f'updates, eps {start:g}'] = tabular.first_updates(reached)
  return {'': rows}
