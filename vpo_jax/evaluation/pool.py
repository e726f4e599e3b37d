"""The scored answers of a test set, from which every number of an evaluation can be recomputed."""

import dataclasses
import functools
import io

import numpy as np
from etils import epath

from vpo_jax.evaluation import atomic, preferences


@dataclasses.dataclass(frozen=True)
class Pool:
  """Candidate answers of every problem, R rollouts of m answers each, n = R m.

  Attributes:
    rewards: `[problems, n, d]` float32 in the task's units; zeros where the rollout gave no such answer.
    answer_mask: `[problems, n]` bool, False where the rollout gave no such answer: it still counts as a candidate that
      scored zero, but has no part in diversity.
    rollout: `[problems, n]` int32, which rollout the answer comes from.
    position: `[problems, n]` int32, its place among the m answers of that rollout, from 0.
    oracle: `[problems]` float32, best scalar that one answer can reach (of a perfect answer, where no better bound is
      known).
    generated_tokens: tokens sampled to make the pool, prompts not counted.
    components: names of the d reward components.
    scalar_weights: `[d]` float32, the task's fixed weighting.
    component_mask: `[problems, d]` bool, False where a problem has no such component: its rewards are 0 there, and
      weightings are renormalised to the others. All True by default.
    success_components: an answer succeeds if it has all of these, as far as its problem has them, above 0. The first
      component by default.
  """
  rewards: np.ndarray
  answer_mask: np.ndarray
  rollout: np.ndarray
  position: np.ndarray
  oracle: np.ndarray
  generated_tokens: int
  components: tuple[str, ...]
  scalar_weights: np.ndarray
  component_mask: np.ndarray | None = None
  success_components: tuple[str, ...] = ()

  def __post_init__(self):
    if self.rewards.ndim != 3 or 0 in self.rewards.shape:
      raise ValueError(f'{self.rewards.shape=} must be [problems, candidates, components], none of them 0.')
    problems, n, d = self.rewards.shape
    if self.component_mask is None:
      object.__setattr__(self, 'component_mask', np.ones((problems, d), bool))
    if not self.success_components:
      object.__setattr__(self, 'success_components', tuple(self.components[:1]))
    expected = dict(answer_mask=(problems, n), rollout=(problems, n), position=(problems, n), oracle=(problems,),
                    scalar_weights=(d,), component_mask=(problems, d))
    for field, shape in expected.items():
      actual = np.shape(getattr(self, field))
      if actual != shape:
        raise ValueError(f'{field}.shape={actual} must be {shape} beside {self.rewards.shape=}.')
    if len(self.components) != d:
      raise ValueError(f'{self.components=} must name the {d} components of rewards.')
    for field in ('rewards', 'oracle'):
      wrong = ~np.isfinite(getattr(self, field))
      if wrong.any():
        raise ValueError(f'{field} must be finite; problem {np.argwhere(wrong)[0][0]} has '
                         f'{getattr(self, field)[wrong][0]}. A failed answer scores 0.')
    if self.rewards[~self.answer_mask].any():
      raise ValueError('rewards must be 0 where answer_mask is False.')
    if (self.rewards.any(axis=1) & ~self.component_mask).any():
      raise ValueError('rewards must be 0 where component_mask is False.')
    if not (self.component_mask @ self.scalar_weights > 0).all():
      raise ValueError(f'problem {np.argmin(self.component_mask @ self.scalar_weights)} must have a component with a '
                       f'weight in {self.scalar_weights=}: nothing of it could be scored.')
    unknown = set(self.success_components) - set(self.components)
    if unknown:
      raise ValueError(f'success_components={self.success_components} must be among {self.components=}.')
    rollouts = self.num_rollouts
    if n % rollouts:
      raise ValueError(f'{n=} candidates must be the same number of answers from each of {rollouts=}.')
    ids = np.take_along_axis(self.rollout, self._order, axis=1).reshape(problems, rollouts, -1)
    places = np.take_along_axis(self.position, self._order, axis=1).reshape(problems, rollouts, -1)
    if (ids != ids[:, :, :1]).any() or (places != np.arange(n // rollouts)).any():
      raise ValueError('Every rollout must have one candidate at each position 0 .. m-1, given or not (answer_mask).')

  @property
  def num_rollouts(self) -> int:
    """Rollouts R of a problem."""
    return len(np.unique(self.rollout[0]))

  @property
  def answers_per_rollout(self) -> int:
    """Answers m of a rollout."""
    return self.rewards.shape[1] // self.num_rollouts

  @functools.cached_property
  def _order(self) -> np.ndarray:
    return np.lexsort((self.position, self.rollout), axis=-1)

  def by_rollout(self, values: np.ndarray) -> np.ndarray:
    """Arranges candidate `values` `[problems, n, ..]` as `[problems, R, m, ..]`, by rollout and position."""
    order = self._order.reshape(self._order.shape + (1,) * (values.ndim - 2))
    ordered = np.take_along_axis(values, order, axis=1)
    return ordered.reshape(len(values), self.num_rollouts, self.answers_per_rollout, *values.shape[2:])

  @functools.cached_property
  def scores(self) -> np.ndarray:
    """Scalar `[problems, n]` float64 of every candidate under `scalar_weights`."""
    return preferences.linear(self.rewards, self.component_mask, self.scalar_weights[None].astype(np.float64))[..., 0]

  @functools.cached_property
  def success(self) -> np.ndarray:
    """Whether each candidate was given and has all success components, `[problems, n]` bool."""
    asked = self.component_mask & np.isin(self.components, self.success_components)
    return self.answer_mask & ((self.rewards > 0) | ~asked[:, None]).all(axis=-1)

  def save(self, path: epath.PathLike) -> None:
    """Writes every field to `path` (`eval/<step>.npz`) by atomic rename."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{f.name: np.asarray(getattr(self, f.name)) for f in dataclasses.fields(self)})
    atomic.write_atomically(path, buffer.getvalue())

  @classmethod
  def load(cls, path: epath.PathLike) -> 'Pool':
    """Reads what `save` wrote; ValueError names a missing array."""
    with np.load(io.BytesIO(epath.Path(path).read_bytes())) as arrays:
      missing = [f.name for f in dataclasses.fields(cls)
                 if f.name not in arrays and f.default is dataclasses.MISSING]
      if missing:
        raise ValueError(f'{path} must hold the arrays of a pool; {missing=}.')
      fields = {f.name: arrays[f.name] for f in dataclasses.fields(cls) if f.name in arrays}
    fields['generated_tokens'] = int(fields['generated_tokens'])
    for name in {'components', 'success_components'} & set(fields):
      fields[name] = tuple(fields[name].tolist())
    return cls(**fields)
