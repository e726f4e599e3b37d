"""Which runs a comparison consists of: a job is a config file, what overrides it, and what is measured afterwards.

  kl0      KL 0, one learning rate for all: where the paper's claim is easiest to see
  paper    KL 1e-3, deviation and eps as in each method's paper or code
  tuned    for each method the learning rate, KL (and k) that its tuning runs chose; the checkpoint likewise
  paid_N   the tuned settings, but the first N tests alone pay: a weak verifier; the last checkpoint

Tuning runs read the split `tuning` and nothing else; all methods have equally many.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from vpo_jax import advantages

METHODS = ('grpo', 'random_weights', 'max_at_k', 'multi_rlvr', 'set_max', 'vpo', 'vpo_subsets')
# Compared in the table kl0 only: variants of a method that take one of its parts away, or pay otherwise.
ABLATIONS = {'maze_small': (
    'multi_rlvr_copies', 'vpo_lattice', 'vpo_subsets_k3', 'vpo_subsets_one_weighting', 'vpo_subsets_no_std')}
CORE_METHODS = ('grpo', 'vpo', 'multi_rlvr')
SUBSET_METHODS = ('max_at_k', 'vpo_subsets')
WEAKLY_PAID = ('grpo', 'max_at_k', 'vpo', 'vpo_subsets')  # Compared under weak verifiers.
TUNING_SEED = 99  # No final run has it.
KL, KL_KIND, RATE = 'loss.kl_coef', 'loss.kl_kind', 'optimizer.learning_rate'
K, COEFFICIENT, PAID = 'experience.advantage.k', 'experience.advantage.coefficient', 'task.rewarded'


@dataclasses.dataclass(frozen=True)
class Group:
  """A comparison on one task; `experiments/<name>/` has its configs.

  Attributes:
    name: of the folder.
    num_answers: m of the methods with several answers a rollout.
    seeds: tables that are made, and how many runs each has from a warm start.
    warm_starts: how many.
    grid: tuning runs of most methods.
    subset_grid: as many tuning runs of the methods that have a k.
    further: methods that are compared beside `METHODS`, and as many tuning runs of each.
    paid: numbers of tests that pay, of a task with tests, for the comparison of weak verifiers.
    pass_at_k: whether an answer can solve a problem outright, so that pass@k is reported beside best@k.
  """
  name: str
  num_answers: int
  seeds: Mapping[str, int]
  warm_starts: int
  grid: tuple[Mapping[str, float | str], ...]
  subset_grid: tuple[Mapping[str, float | str], ...]
  further: Mapping[str, tuple[Mapping[str, float | str], ...]] = dataclasses.field(default_factory=dict)
  paid: tuple[int, ...] = ()
  pass_at_k: bool = False

  def __post_init__(self):
    sizes = {method: len(self.grid_of(method)) for method in self.methods}
    if len(set(sizes.values())) > 1:
      raise ValueError(f'tuning runs {sizes} must be equally many: one tuning budget for all.')

  @property
  def methods(self) -> tuple[str, ...]:
    """All methods compared, in the order of the tables."""
    return (*METHODS, *self.further)

  def grid_of(self, method: str) -> tuple[Mapping[str, float | str], ...]:
    """Tuning runs of a method."""
    return self.further.get(method, self.subset_grid if method in SUBSET_METHODS else self.grid)


def product(**axes: Sequence[float]) -> tuple[dict[str, float | str], ...]:
  """Every combination of values of the axes `rate`, `kl`, `k` and `coefficient`, as overrides.

  A KL term is k2, whose gradient is that of the KL divergence, without a bound on how hard it pulls a policy back.
  """
  names = [{'rate': RATE, 'kl': KL, 'k': K, 'coefficient': COEFFICIENT}[axis] for axis in axes]
  cells = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes.values())]
  return tuple(cell | ({KL_KIND: 'k2'} if cell.get(KL) else {}) for cell in cells)


GROUPS = {group.name: group for group in (
    Group('maze_small', num_answers=3, seeds=dict(tuned=5, paper=3, kl0=3), warm_starts=2,
          grid=product(rate=(2.5e-4, 7e-4), kl=(0., .03, .1, .3)),
          subset_grid=product(rate=(2.5e-4, 7e-4), kl=(0., .1), k=(8, 16))),
    Group('maze_hard', num_answers=5, seeds=dict(tuned=3), warm_starts=1,
          grid=product(rate=(1e-4, 2.5e-4), kl=(0., .3)),
          subset_grid=product(rate=(2.5e-4,), kl=(0., .3), k=(8, 15))),
    Group('programs', num_answers=3, seeds=dict(tuned=3), warm_starts=1,
          grid=product(rate=(2.5e-4, 7e-4), kl=(0., .1)), subset_grid=product(rate=(7e-4,), kl=(0., .1), k=(8, 16)),
          further={'diversity_bonus': product(rate=(7e-4,), kl=(0., .1), coefficient=(.1, .3))},
          paid=(1, 2, 4), pass_at_k=True),
)}


@dataclasses.dataclass(frozen=True)
class Job:
  """One run, with all that decides its numbers.

  Attributes:
    group: folder of the config.
    setting: `tuning`, or a table.
    method: name of the config file; `warm_start` for the untrained policy.
    warm_start: seed of the warm start.
    seed: of the run.
    overrides: dotted field of the config to value.
    split: that is measured.
    num_answers: m that is asked for in the evaluation of a warm start; 0 elsewhere, where the config says it.
  """
  group: str
  setting: str
  method: str
  warm_start: int
  seed: int
  overrides: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
  split: str = 'test'
  num_answers: int = 0

  @property
  def name(self) -> str:
    """Of the result file."""
    if self.setting == 'tuning':
      return f'tuning_{self.method}_{_slug(self.overrides)}'
    asked = f'_m{self.num_answers}' if self.num_answers else ''
    return f'{self.setting}_{self.method}_w{self.warm_start}_s{self.seed}{asked}'

  @property
  def workdir(self) -> str:
    """Of the training; jobs that train alike share it."""
    if self.method == 'warm_start':
      return f'warm_start_{self.warm_start}'
    return f'{self.method}_{_slug(self.overrides)}_w{self.warm_start}_s{self.seed}'


def _slug(overrides: Mapping[str, float | str]) -> str:
  short = {RATE: 'lr', KL: 'kl', KL_KIND: ''}
  text = lambda value: value if isinstance(value, str) else f'{value:g}'
  return '_'.join(short.get(name, name.split('.')[-1]) + text(value) for name, value in sorted(overrides.items()))


def seed_of(warm_start: int, index: int) -> int:
  """Seed of a final run: no two runs share their training mazes' order."""
  return 10 * warm_start + index


def base_jobs(group: Group) -> list[Job]:
  """Evaluations of the warm starts, asked for one answer and for m."""
  return [Job(group.name, 'base', 'warm_start', w, w, num_answers=m)
          for w in range(group.warm_starts) for m in (1, group.num_answers)]


def tuning_jobs(group: Group) -> list[Job]:
  """The grid of every method: one warm start, one seed."""
  return [Job(group.name, 'tuning', method, 0, TUNING_SEED, overrides, split='tuning') for method in group.methods
          for overrides in group.grid_of(method)]


def weak_jobs(group: Group, chosen: Mapping[str, Mapping[str, float]]) -> list[Job]:
  """The runs under weak verifiers, at the settings that tuning chose with all tests."""
  return [Job(group.name, f'paid_{number}', method, w, seed_of(w, i), dict(chosen[method]) | {PAID: number})
          for i in range(group.seeds['tuned']) for w in range(group.warm_starts) for number in group.paid
          for method in WEAKLY_PAID]


def table_jobs(group: Group, setting: str, chosen: Mapping[str, Mapping[str, float]] | None = None,
               methods: Sequence[str] | None = None) -> list[Job]:
  """The runs of one table, seed by seed, so that an unfinished sweep has whole seeds.

  Args:
    group: the comparison.
    setting: `kl0`, `paper` or `tuned`.
    chosen: method to the overrides that tuning chose, for `tuned`.
    methods: those compared; None for the group's.
  """
  def overrides(method):
    match setting:
      case 'kl0':
        return {RATE: 7e-4, KL: 0.}
      case 'paper':
        own = advantages.settings_of(method)
        # VPO's code takes half of the group as k; `vpo_subsets` is in no paper.
        k = {K: 18} if method == 'max_at_k' else {}
        return {RATE: 7e-4, KL: 1e-3, **k, **{f'experience.advantage.{name}': own[name] for name in ('ddof', 'eps')}}
      case 'tuned':
        return dict(chosen[method])
    raise ValueError(f'{setting=} must be one of {", ".join(group.seeds)}.')

  return [Job(group.name, setting, method, w, seed_of(w, i), overrides(method))
          for i in range(group.seeds[setting]) for w in range(group.warm_starts)
          for method in (group.methods if methods is None else methods)]
