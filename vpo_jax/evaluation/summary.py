"""From a pool of scored answers to the numbers of `eval/<step>.json`.

`per_problem` gives every metric for every problem under a flat name ('best_at_k/30', 'expected_best/dirichlet_1/10');
`summary` averages them, adds intervals, and nests the names.
"""

import json

import jax
import numpy as np
from etils import epath

from vpo_jax import pareto
from vpo_jax.evaluation import atomic, bootstrap, metrics, preferences
from vpo_jax.evaluation.pool import Pool

K_GRID = (1, 2, 3, 5, 10, 30, 64, 100, 256, 512)
# Below the worst reward: with the reference at 0, binary rewards would have volume only if one answer has them all.
HYPERVOLUME_REFERENCE = -.1
CHUNK = 16  # Problems at a time: bounds memory at about CHUNK x n x 100 float64.


def k_grid(n: int) -> list[int]:
  """The k at which curves are reported for a pool of n, up to n itself."""
  return [k for k in K_GRID if k <= n]


def fronts(rewards: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
  """Distinct non-dominated vectors `[f, d]`, one array a problem, of the `rewards` `[problems, n, d]` in `mask`."""
  # One problem at a time: all pairs of all problems would be gigabytes.
  kept = jax.jit(lambda r, m: jax.lax.map(lambda pair: pareto.non_dominated(*pair), (r, m)))(rewards, mask)
  return [np.unique(r[k], axis=0) for r, k in zip(rewards, np.asarray(kept & mask), strict=True)]


def hypervolumes(rewards: np.ndarray, component_mask: np.ndarray) -> np.ndarray:
  """Exact volume `[problems]` that `rewards` `[problems, n, d]` dominate above `HYPERVOLUME_REFERENCE`.

  In the components of `component_mask` `[problems, d]` alone: a missing one is no factor.
  """
  return np.array([pareto.hypervolume(np.unique(pool[:, mask], axis=0), np.full(mask.sum(), HYPERVOLUME_REFERENCE))
                   for pool, mask in zip(rewards, component_mask, strict=True)])


def _curves(name: str, scores: np.ndarray) -> dict[str, np.ndarray]:
  """Best@k of preference `scores` `[problems, n, K]`, averaged over the preferences, for the k grid."""
  ks = k_grid(scores.shape[1])
  curve = metrics.best_curve(np.swapaxes(scores, -1, -2), ks).mean(axis=-2)
  return {f'{name}/{k}': curve[..., i] for i, k in enumerate(ks)}


def _chunk_curves(pool: Pool, rows: slice) -> dict[str, np.ndarray]:
  values = {}
  for name, scores in preferences.families(pool.components, pool.component_mask.any(axis=0)).items():
    values |= _curves(f'expected_best/{name}', scores(pool.rewards[rows], pool.component_mask[rows]))
  return values


def _position_shares(pool: Pool) -> np.ndarray:
  """Share of wins `[problems, K, m]` of each position under each weighting of `dirichlet_1`."""
  weights = preferences.dirichlet_weights(len(pool.components), 1.)
  rewards = pool.by_rollout(pool.rewards)
  return np.concatenate([metrics.position_shares(rewards[i:i + CHUNK], weights)
                         for i in range(0, len(rewards), CHUNK)])


def per_problem(pool: Pool) -> dict[str, np.ndarray]:
  """Every metric of `pool` for every problem: flat name to `[problems]` float64."""
  values = _curves('best_at_k', pool.scores[..., None])
  values |= _curves('best_at_k_rollouts', pool.by_rollout(pool.scores).max(axis=-1)[..., None])
  values |= _curves('pass_at_k', pool.success[..., None])
  values |= _curves('pass_at_k_rollouts', pool.by_rollout(pool.success).max(axis=-1)[..., None])
  chunks = [_chunk_curves(pool, slice(i, i + CHUNK)) for i in range(0, len(pool.rewards), CHUNK)]
  values |= {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
  values |= {f'regret/{k}': pool.oracle - values[f'best_at_k/{k}'] for k in k_grid(pool.rewards.shape[1])}
  values['first_answer'] = pool.by_rollout(pool.scores)[:, :, 0].mean(axis=-1)
  values['completion'] = pool.success.mean(axis=-1)
  values['oracle'] = np.asarray(pool.oracle, np.float64)
  values['diversity_l1'] = metrics.diversity_l1(pool.rewards, pool.answer_mask)
  values['diversity_l1_valid'] = metrics.diversity_l1(pool.rewards, pool.success)
  values['diversity_l1_within_rollout'] = metrics.diversity_l1_within_rollout(
      pool.by_rollout(pool.rewards), pool.by_rollout(pool.answer_mask))
  values['pareto_count'] = np.array([len(front) for front in fronts(pool.rewards, pool.success)], np.float64)
  values['hypervolume'] = hypervolumes(pool.rewards, pool.component_mask)
  return values


def _nested(flat: dict[str, float]) -> dict:
  """Turns 'a/b/c' names into dicts in dicts."""
  nested = {}
  for name, value in flat.items():
    *folders, leaf = name.split('/')
    place = nested
    for folder in folders:
      place = place.setdefault(folder, {})
    place[leaf] = value
  return nested


def summary(pool: Pool, values: dict[str, np.ndarray] | None = None) -> dict:
  """Averages the metrics of `pool` over its problems, as the JSON of `eval/<step>.json`.

  Args:
    pool: the scored answers.
    values: `per_problem(pool)`, if at hand.

  Returns:
    Nested dict of floats, keys as strings: curves by k (`best_at_k`, `pass_at_k`, `regret` count answers, `_rollouts`
    whole rollouts, `expected_best` by family), scalars, sizes, `position_share` (wins of each answer position over
    weightings), `position_information` (nats), and `confidence`: flat name to the ends of the 95 % bootstrap interval
    over problems.
  """
  values = per_problem(pool) if values is None else values
  resamples = bootstrap.resample_shares(len(pool.rewards))
  shares = _position_shares(pool)
  table = {**values, **{f'position_share/{p}': shares[..., p].mean(axis=-1) for p in range(shares.shape[-1])}}
  resampled = resamples @ np.stack(list(table.values()), axis=-1)
  confidence = {name: bootstrap.interval(column) for name, column in zip(table, resampled.T, strict=True)}
  informations = metrics.position_information(np.tensordot(resamples, shares, axes=1))
  confidence['position_information'] = bootstrap.interval(informations)
  return _nested({name: float(column.mean()) for name, column in table.items()}) | {
      'position_information': float(metrics.position_information(shares.mean(axis=0))),
      'num_problems': pool.rewards.shape[0],
      'num_candidates': pool.rewards.shape[1],
      'answers_per_rollout': pool.answers_per_rollout,
      'generated_tokens': int(pool.generated_tokens),
      'confidence': confidence,
  }


def write(pool: Pool, workdir: epath.PathLike, step: int) -> dict:
  """Writes `eval/<step>.npz` and then `eval/<step>.json` in `workdir`, each by atomic rename; returns the summary."""
  folder = epath.Path(workdir) / 'eval'
  pool.save(folder / f'{step}.npz')
  result = summary(pool)
  atomic.write_atomically(folder / f'{step}.json', json.dumps(result, indent=1, allow_nan=False).encode())
  return result
