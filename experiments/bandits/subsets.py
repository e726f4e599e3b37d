"""`vpo_subsets` put to the test: where it wins, where it loses, and what its parts do.

One softmax over the answers, from which answers are drawn one by one; "slots" have one softmax for each answer of a
rollout, so they can divide the work, with m times the parameters. 64 answers an update, Adam with step .03, 600
updates, each kernel with its own defaults; each seed has its own answers. Users' weightings are Dirichlet(1).

- unequal: 32 answers, 4 components, uniform on the simplex and stretched by (1, .8, .6, .4). Methods with a fixed
  scalar are trained on the mean; the users' preferences are hidden: Dirichlet(1), Dirichlet(.3), or .7 on the first or
  on the weakest component. Controls: one weighting a group; one weighting a prompt for good, for GRPO and Max@K (there
  is one prompt, so this is a known but wrong user); k = m = 4 beside VPO with 4 slots; no division by the deviation.
- collinear: 32 answers, 4 components that are one common value but for noise of .02.
- eight components: 64 answers, first the 8 unit vectors (7 times each) and a compromise of .3 each (8 times), then 64
  different ones uniform on the simplex.
- noisy judge: four honest answers, and four poor ones whose judge errs by .4 (standard deviation) in every component of
  every draw; judged by the truth.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.bandits import tabular
from experiments.bandits.tabular import Method

ANSWERS = 64
SWEEP = tuple(Method(f'Max@K, k {k}', 'max_at_k', {'k': k}) for k in (4, 8, 16)) + tuple(
    Method(f'vpo_subsets, k {k}', 'vpo_subsets', {'k': k}) for k in (2, 4, 8, 16))
GRPO, RANDOM = Method('GRPO', 'grpo'), Method('random weights', 'random_weights')
CONTROLS = (
    Method('vpo_subsets, k 8, one weighting', 'vpo_subsets', {'k': 8, 'num_weights': 1}),
    Method('vpo_subsets, k 8, no deviation', 'vpo_subsets', {'k': 8, 'normalize': 'none'}),
)
# Trained on rewards that are d times the share of one weighting, the same one for good: their mean is its scalar.
FROZEN = (
    Method('one weighting for good, GRPO', 'grpo'),
    Method('one weighting for good, Max@K, k 8', 'max_at_k', {'k': 8}),
)


def slots(m: int) -> tuple[Method, ...]:
  """The methods that train m answers of a rollout together."""
  return (
      Method(f'set-max, {m} slots', 'set_max', slots=m), Method(f'VPO, {m} slots', 'vpo', slots=m),
      Method(f'vpo_subsets, k 2, {m} slots', 'vpo_subsets', {'k': 2}, m))


READING = """
"untrained" is the uniform policy. It covers a small table well by itself, so the question is often who keeps that.

Wins. Unequal and hidden preferences: at 16 draws k 8 is .024 (Dirichlet(1)) and .037 (Dirichlet(.3)) above Max@K at its
best k and .026 above the untrained policy, in every seed. A user of the weakest component loses by every method with
small k (k 4: .119 at 16 draws, untrained .206); k 8 keeps what the untrained policy had, Max@K with k 16 does not.
With eight components it is level with VPO's slots or above at 16 draws and more.

Losses. At as many draws as VPO has slots, VPO is ahead, by .033 with unequal heights and .013 with 64 random answers.
At one draw GRPO is ahead: by .036 (unequal) and by .14 (eight corners, k 16). Collinear: nothing to gain, and best@1
falls with k, as it does under Max@K. Noisy judge: from k 8 on nearly all answers are the poor ones, as under Max@K,
and k 4 buys a fifth; only k 2 is safe. VPO's slots buy poor answers too (.42), and are still the best at four draws.

Parts. One weighting a group costs .0045 at 16 draws and part of the weakest component. Without the deviation nothing
changes under Adam where answers differ; where they are collinear, best@1 falls by .08. A weighting for good is one
user's: all others lose. With 64 random answers all means are equal, so methods with the fixed scalar have no signal.
"""
COMPARED = (
    ('vpo_subsets, k 8', 'Max@K, k 16', 'Dir(1) @16'), ('vpo_subsets, k 8', 'Max@K, k 16', 'Dir(.3) @16'),
    ('vpo_subsets, k 8', 'Max@K, k 16', 'weakest @16'), ('vpo_subsets, k 8', 'VPO, 4 slots', 'Dir(1) @4'),
    ('vpo_subsets, k 4', 'VPO, 4 slots', 'Dir(1) @4'), ('vpo_subsets, k 8', 'GRPO', 'Dir(1) @1'),
    ('vpo_subsets, k 8, one weighting', 'vpo_subsets, k 8', 'Dir(1) @16'),
    ('vpo_subsets, k 8, no deviation', 'vpo_subsets, k 8', 'Dir(1) @16'),
    ('vpo_subsets, k 8', 'untrained', 'Dir(1) @16'), ('vpo_subsets, k 4', 'untrained', 'weakest @16'),
    ('vpo_subsets, k 8', 'VPO, 8 slots', 'best@8'), ('vpo_subsets, k 16', 'VPO, 8 slots', 'best@64'),
    ('vpo_subsets, k 16', 'Max@K, k 16', 'best@1'), ('vpo_subsets, k 16', 'GRPO', 'best@1'),
    ('vpo_subsets, k 8', 'Max@K, k 8', 'true @1'), ('vpo_subsets, k 8', 'GRPO', 'true @1'))


def unequal(rng) -> np.ndarray:
  return rng.dirichlet(np.ones(4), 32) * np.array([1., .8, .6, .4])


def corners(rng) -> np.ndarray:
  return np.concatenate([np.repeat(np.eye(8), 7, axis=0), np.full((8, 8), .3)])


def random_eight(rng) -> np.ndarray:
  return rng.dirichlet(np.ones(8), 64)


def collinear(rng) -> np.ndarray:
  return rng.random((32, 1)) + .02 * rng.normal(size=(32, 4))


HONEST = np.array([[1., .2], [.2, 1.], [.7, .7], [.5, .5]])
POOR = np.repeat([[.4], [.42], [.43], [.45]], 2, axis=1)


def judged(rng) -> np.ndarray:
  return np.concatenate([HONEST, POOR])


def table_reward(key, ids, table):
  """Rewards of answers that always earn the same."""
  return table[ids]


def judge(key, ids, table):
  """Rewards of a judge that errs on the poor answers."""
  errors = .4 * jax.random.normal(key, (*ids.shape, 2))
  return table[ids] + jnp.where(ids[..., None] >= len(HONEST), errors, 0)


def at(counts, rewards, probs, weights, name) -> dict[str, float]:
  """`expected_best` for each count, named."""
  best = tabular.expected_best(probs, tabular.user_scores(rewards, weights), counts)
  return {f'{name}@{n}': value for n, value in zip(counts, best, strict=True)}


def unequal_measures(rewards, probs) -> dict[str, float]:
  measure = functools.partial(at, rewards=rewards, probs=probs)
  return {
      **measure((1, 4, 16), weights=tabular.users(4, 1.), name='Dir(1) '),
      **measure((1, 4, 16), weights=tabular.users(4, .3), name='Dir(.3) '),
      **measure((1, 4), weights=tabular.lopsided(4, 0), name='first '),
      **measure((1, 16), weights=tabular.lopsided(4, 3), name='weakest ')}


def eight_measures(rewards, probs) -> dict[str, float]:
  return {
      **at((1, 8, 16, 64), rewards, probs, tabular.users(8, 1.), 'best'),
      **at((8,), rewards, probs, tabular.users(8, .3), 'Dir(.3) ')}


def collinear_measures(rewards, probs) -> dict[str, float]:
  return at((1, 4, 16), rewards, probs, tabular.users(4, 1.), 'best')


def judged_measures(rewards, probs) -> dict[str, float]:
  return {'poor answers': probs[:, len(HONEST):].sum(axis=-1).mean(),
          **at((1, 4), rewards, probs, tabular.users(2, 1.), 'true ')}


# Methods, and the problems of one shape that they meet: title -> answers of a seed, measures.
GROUPS = (
    ((GRPO, RANDOM, *slots(4), *SWEEP, *CONTROLS, *FROZEN), table_reward,
     {'unequal': (unequal, unequal_measures), 'collinear': (collinear, collinear_measures)}),
    ((GRPO, *slots(8), *SWEEP), table_reward,
     {'eight components, corners': (corners, eight_measures),
      'eight components, random': (random_eight, eight_measures)}),
    ((GRPO, *slots(4), *SWEEP), judge, {'noisy judge': (judged, judged_measures)}),
)


def run(num_seeds=8, num_updates=600, groups=GROUPS):
  """Rows of each table: label -> measure -> one value a seed."""
  results = {}
  for methods, reward, problems in groups:
    # Problems of one shape train at once, as more seeds: [problems · seeds, A, d].
    rng = np.random.default_rng(1)
    rewards = np.stack([make(rng) for make, _ in problems.values() for _ in range(num_seeds)])
    d = rewards.shape[-1]
    frozen = rng.dirichlet(np.ones(d), len(rewards))
    untrained = np.full((1, rewards.shape[1]), 1 / rewards.shape[1])
    for i, (title, (_, measures)) in enumerate(problems.items()):
      of_problem = rewards[i * num_seeds:(i + 1) * num_seeds]
      results[title] = {'untrained': tabular.by_measure(measures(table, untrained) for table in of_problem)}
    for method in methods:
      trained_on = rewards * d * frozen[:, None] if method in FROZEN else rewards
      logits, _ = tabular.train_seeds(
          len(rewards), jnp.zeros((method.slots, rewards.shape[1])), reward, method,
          instances=(jnp.asarray(trained_on, jnp.float32),), rollouts=ANSWERS // method.slots,
          optimizer=optax.adam(.03), num_updates=num_updates)
      probs = tabular.probs_of(logits)
      for i, (title, (_, measures)) in enumerate(problems.items()):
        mine = slice(i * num_seeds, (i + 1) * num_seeds)
        results[title][method.label] = tabular.by_measure(map(measures, rewards[mine], probs[mine]))
  return results
