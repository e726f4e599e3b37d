"""Hypervolume: a rollout earns the volume that its answers alone add to their group's front. No paper's recipe.

Functions see one prompt. Axes: G rollouts, m answers in each, d reward components, S sampled points.
"""

import operator

import jax
import jax.numpy as jnp

from vpo_jax.advantages.group_advantage import NOISE, batch_advantages, check_settings
from vpo_jax.advantages.groups import clean_groups
from vpo_jax.advantages.result import Advantages
from vpo_jax.advantages.weights import prompt_keys
from vpo_jax.hypervolume import MAX_EXACT_COMPONENTS, hypervolume_jax

METHODS = ('exact', 'monte_carlo')


def contributions(rewards: jax.Array, live: jax.Array, reference: jax.Array) -> tuple[jax.Array, jax.Array]:
  """What the group's volume loses without each rollout, `[G]`, and the volume `[]`.

  Args:
    rewards: `[G, m, d]` reward vector of every answer.
    live: `[G, m]` bool, answers that count.
    reference: `[d]` the corner from which volume is measured.
  """
  g, m, d = rewards.shape
  points = rewards.reshape(g * m, d)
  volume = lambda live: hypervolume_jax(points, reference, live.reshape(g * m))
  total = volume(live)
  lost = total - jax.vmap(volume)(live[None] & ~jnp.eye(g, dtype=bool)[:, :, None])
  return jnp.where(lost > NOISE * total, lost, 0), total  # The difference of two volumes is a little off zero.


def sampled_contributions(
    key, rewards: jax.Array, live: jax.Array, reference: jax.Array, *, num_samples: int) -> tuple[jax.Array, jax.Array]:
  """`contributions`, estimated by the shares of points that one rollout alone reaches.

  The points fill the box up to the best entries; a share p of it deviates by √(p (1-p) / S).
  """
  corner = jnp.where(live[..., None], rewards, reference[None, None]).max(axis=(0, 1))
  sides = jnp.maximum(corner - reference, 0)
  points = reference[None] + sides[None] * jax.random.uniform(key, (num_samples, len(reference)), rewards.dtype)
  reached_sg = ((rewards[None] >= points[:, None, None]).all(axis=-1) & live[None]).any(axis=-1)
  alone = reached_sg & (reached_sg.sum(axis=1) == 1)[:, None]
  return alone.mean(axis=0) * sides.prod(), reached_sg.any(axis=1).mean() * sides.prod()


def hypervolume(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, prompt_ids=None, reference=0.,
    method='exact', num_samples=4096, ddof=1, eps=1e-6, baseline='mean', normalize='std') -> Advantages:
  """Advantages of the contributions, standardised within the group.

  Two equal answers add nothing either of them alone, nor does a dominated one.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: for 'monte_carlo', folded with the prompt's id; else not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component: volume is then measured in the others.
    prompt_ids: `[B]` integers, the position by default.
    reference: number or `[d]`, the corner from which volume is measured. From 0, an answer with one zero has no volume:
      for binary rewards take `vpo_jax.hypervolume.BINARY_REFERENCE`.
    method: 'exact', for at most five components; 'monte_carlo', for any number.
    num_samples: points a prompt for 'monte_carlo'.
    ddof: 0 for the population deviation, 1 for the sample one.
    eps: added to the deviation.
    baseline: 'mean', 'loo' or 'none', see `group_advantage`.
    normalize: 'std' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics, with the group's volume as `pool_best`.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  check_settings(ddof=ddof, eps=eps, baseline=baseline, normalize=normalize)
  if method not in METHODS:
    raise ValueError(f'{method=} must be one of {", ".join(METHODS)}.')
  if operator.index(num_samples) < 1:
    raise ValueError(f'{num_samples=} must be at least 1.')
  groups = clean_groups(rewards, rollout_mask, answer_mask, component_mask)
  b, _, _, d = groups.rewards.shape
  if method == 'exact' and d > MAX_EXACT_COMPONENTS:
    raise ValueError(f"{method=} takes at most {MAX_EXACT_COMPONENTS} components, not {d}: use method='monte_carlo'.")
  reference = jnp.asarray(reference, groups.rewards.dtype)
  if reference.shape not in ((), (d,)):
    raise ValueError(f'reference has shape {reference.shape}; it must be a number or ({d},), one for a component.')
  reference = jnp.broadcast_to(reference, (d,))
  # All answers reach as far along an absent component, one unit: it multiplies all volumes by 1.
  rewards = jnp.where(groups.components[:, None, None], groups.rewards, reference[None, None, None] + 1)
  live = groups.answers & groups.rollouts[..., None]
  if method == 'exact':
    credits, volumes = jax.vmap(lambda rewards, live: contributions(rewards, live, reference))(rewards, live)
  else:
    credits, volumes = jax.vmap(
        lambda key, rewards, live: sampled_contributions(key, rewards, live, reference, num_samples=num_samples))(
            prompt_keys(key, prompt_ids, b), rewards, live)
  return batch_advantages(
      groups, credits, set_rewards=credits, pool_best=volumes, ddof=ddof, eps=eps, baseline=baseline,
      normalize=normalize)
