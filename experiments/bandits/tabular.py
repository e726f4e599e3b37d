"""A policy of independent softmaxes, trained on the advantage kernels and judged by enumeration.

Axes: B prompts, G rollouts, m answers in each (one softmax an answer, a "slot"), A possible answers, d reward
components, U users. All prompts of a batch see one policy, which can't tell them apart.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vpo_jax import advantages


class Method(NamedTuple):
  """A row of a table: its label, the kernel and its settings, and how many answers a rollout gives."""
  label: str
  estimator: str
  settings: Mapping = {}
  slots: int = 1


def method_advantages(method: Method, rewards, ids, key) -> jax.Array:
  """Advantages `[B, G]` of rewards `[B, G, m, d]` for answers `[B, G, m]`; a rollout's cluster is its first answer."""
  known = advantages.settings_of(method.estimator)
  about = {name: value for name, value in dict(answer_ids=ids, clusters=ids[..., 0]).items() if name in known}
  return advantages.compute(method.estimator, rewards, key, **about, **method.settings).values


def fixed(table) -> Callable:
  """The reward function of answers that always earn the same vectors `[A, d]`."""
  table = jnp.asarray(table)
  return lambda key, ids: table[ids]


def bit_strings(choices: jax.Array) -> jax.Array:
  """Numbers of bit strings: `[.., bits]` of 0 and 1 -> `[..]`, first bit lowest."""
  return (choices << jnp.arange(choices.shape[-1]).reshape([1] * (choices.ndim - 1) + [-1])).sum(axis=-1)


def train(
    key, logits, reward: Callable, method: Method, *, rollouts: int, optimizer, num_updates: int, prompts=1,
    answers=lambda choices: choices, tilts=None, watch=lambda logits: ()):
  """Policy gradient: one update a batch, the ratio is 1.

  Args:
    key: used up.
    logits: `[.., A]` a softmax for each choice that makes up a rollout.
    reward: (key, answers `[B, G, m]`) -> rewards `[B, G, m, d]`.
    method: what makes advantages of them.
    rollouts: G.
    optimizer: of optax.
    num_updates: number of updates.
    prompts: B.
    answers: choices `[B, G, ..]` -> answers `[B, G, m]`, for policies that build an answer of several choices.
    tilts: `[G, .., A]` added to the logits while sampling, but not where they are scored; nothing by default.
    watch: logits -> what to record after each update.

  Returns:
    Logits at the end; the records, with a leading axis of updates.
  """
  def update(state, key):
    logits, opt_state = state
    choice_key, reward_key, kernel_key = jax.random.split(key, 3)
    sampled_from = logits[None] if tilts is None else logits[None] + tilts
    choices = jax.random.categorical(
        choice_key, jnp.broadcast_to(sampled_from[None], (prompts, rollouts, *logits.shape)))
    ids = answers(choices)
    values = method_advantages(method, reward(reward_key, ids), ids, kernel_key)

    def loss(logits):
      logprobs = jax.nn.log_softmax(logits)
      chosen = (jax.nn.one_hot(choices, logits.shape[-1]) * logprobs[None, None]).reshape(prompts, rollouts, -1)
      return -(values * chosen.sum(axis=-1)).mean()

    changes, opt_state = optimizer.update(jax.grad(loss)(logits), opt_state, logits)
    logits = optax.apply_updates(logits, changes)
    return (logits, opt_state), watch(logits)

  (logits, _), records = jax.lax.scan(update, (logits, optimizer.init(logits)), jax.random.split(key, num_updates))
  return logits, records


def train_seeds(num_seeds: int, logits, reward: Callable, method: Method, *, instances=(), **settings):
  """`train` for every seed at once.

  Args:
    num_seeds: S.
    logits: as in `train`, like the method and the settings.
    reward: (key, answers `[B, G, m]`, *instance) -> rewards `[B, G, m, d]`.
    method: likewise.
    instances: arrays `[S, ..]`, one entry a seed, handed to `reward`.
    **settings: likewise.

  Returns:
    Logits `[S, .., A]` and records, as NumPy arrays.
  """
  def run(key, *instance):
    return train(key, logits, lambda key, ids: reward(key, ids, *instance), method, **settings)

  # Compiling takes longer than running here. At the default level it takes twice as long, and the run no less.
  run = jax.jit(jax.vmap(run), compiler_options={'xla_backend_optimization_level': 1})
  return jax.device_get(run(jax.random.split(jax.random.key(0), num_seeds), *instances))


def probs_of(logits) -> np.ndarray:
  """Chances `[.., A]` of the choices, in float64."""
  logits = np.asarray(logits, np.float64)
  exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
  return exponentials / exponentials.sum(axis=-1, keepdims=True)


def string_probs(logits: jax.Array) -> np.ndarray:
  """Chance `[m, 2^bits]` of each bit string under `[m, bits, 2]` logits, numbered as by `bit_strings`."""
  probs = np.ones((len(logits), 1))
  for bit in np.moveaxis(probs_of(logits), 1, 0):
    probs = (bit[:, :, None] * probs[:, None, :]).reshape(len(probs), -1)
  return probs


def expected_best(probs: np.ndarray, scores: np.ndarray, counts: Sequence[int]) -> list[float]:
  """Mean over users of the expected best score among n answers, exact, for every n of `counts`.

  Answers come as n/m rollouts of m; for n = 1, as one answer of a rollout at random.

  Args:
    probs: `[m, A]` chance of each answer in each slot.
    scores: `[U, A]` what each answer is worth to each user.
    counts: 1 or multiples of m.
  """
  m = len(probs)
  order = np.argsort(scores, axis=-1)
  ranked = np.take_along_axis(scores, order, axis=-1)
  below_mua = np.cumsum(probs[:, order], axis=-1)  # Chance that a slot's answer has this rank or a lower one.
  best = []
  for n in counts:
    if n != 1 and n % m:
      raise ValueError(f'{n=} must be 1 or a multiple of {m=}, the answers of a rollout.')
    below_ua = below_mua.mean(axis=0) if n == 1 else below_mua.prod(axis=0) ** (n // m)
    best.append(float((ranked * np.diff(below_ua, prepend=0, axis=-1)).sum(axis=-1).mean()))
  return best


def user_scores(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """What each of the answers `[A, d]` is worth to users `[U, d]`: `[U, A]`."""
  return np.asarray(weights, np.float64) @ np.asarray(rewards, np.float64).T


def users(d: int, alpha: float, number=512) -> np.ndarray:
  """Weightings `[U, d]` from Dir(alpha), the same ones at every call."""
  return np.random.default_rng(0).dirichlet(np.full(d, alpha), number)


def lopsided(d: int, component: int, weight=.7) -> np.ndarray:
  """One user `[1, d]` with `weight` on a component, the rest shared equally."""
  weights = np.full((1, d), (1 - weight) / (d - 1))
  weights[0, component] = weight
  return weights


def by_measure(seeds: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
  """Turns one dict of measures a seed into one list of seeds a measure, in six digits."""
  seeds = list(seeds)
  return {name: [round(float(seed[name]), 6) for seed in seeds] for name in seeds[0]}


def first_updates(reached: np.ndarray) -> list[int | None]:
  """Number of updates until `reached` `[seeds, updates]` first holds, None where it never does."""
  return [int(np.argmax(seed)) + 1 if seed.any() else None for seed in reached]
