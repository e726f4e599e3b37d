r"""Breaks the kernels and the Pareto measures in many places, one at a time, and lists the breaks that no test notices.

  python -m tests.mutants                    10 breaks a file, spread over it (`make mutants`)
  python -m tests.mutants --per_file 0       all of them
  python -m tests.mutants vpo.py --seed 3    one file, other places

A break swaps an operator, a reduction or a boundary, moves a number by one, drops a negation or a mask, or changes a
default. It is written into a copy of the repository, so that the working tree stays as it is. A file's own tests are
asked first, then all tests of the kernels; tests that no longer end have noticed, too. Takes a quarter of a minute a
break on one core; ends with 1 if one survives.
"""

import argparse
import ast
import collections
import concurrent.futures
import copy
import dataclasses
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / 'vpo_jax'
FILES = [*sorted(set((PACKAGE / 'advantages').glob('*.py')) - {PACKAGE / 'advantages' / name
                                                              for name in ('__init__.py', 'result.py')}),
         PACKAGE / 'pareto.py', PACKAGE / 'hypervolume.py']
TESTS = ('tests/advantages', 'tests/pareto_test.py', 'tests/hypervolume_test.py')
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
NAMES = {name: other for pair in (('max', 'min'), ('argmax', 'argmin'), ('maximum', 'minimum'), ('any', 'all'),
                                  ('zeros_like', 'ones_like')) for name, other in (pair, pair[::-1])}
NAMES |= {'sum': 'mean', 'mean': 'sum', 'cumsum': 'cumprod', 'cummax': 'cummin'}
TEXTS = {'mean': 'none', 'std': 'none', 'dirichlet': 'exact'}  # Settings, where they are defaults.
# Breaks that change nothing a test could see: file, what stands in the broken statement alone, and why.
CLAMPED, TWO_AXES = 'an index beyond the only entry is clamped', 'there are two axes'
EQUIVALENT = {
    ('advantages/max_at_k.py', 'scores[:, 1]'): CLAMPED,
    ('advantages/max_at_k.py', 'groups.rollouts.sum(axis=1'): TWO_AXES,
    ('advantages/max_at_k.py', 'keepdims=True), 2)'): 'a group of one gets 0',
    ('advantages/maxrl.py', 'scores, 0).sum(axis=1'): TWO_AXES,
    ('advantages/multi_rlvr.py', '- 1)).sum(axis=1)'): TWO_AXES,
    ('advantages/pkpo.py', 'eps=1.000001'): 'is only checked, for nothing is divided by a deviation',
    ('advantages/pkpo.py', '(size - 1), 2)'): 'a group of one gets 0',
    ('advantages/random_weights.py', 'num_weights=2'): 'is only checked, for being at least 1',
    ('advantages/random_weights.py', 'simplex_weights(key, 2'): 'the first of two is as random as the only one',
    ('advantages/random_weights.py', 'weights[1]'): CLAMPED,
    ('advantages/set_max.py', 'scores[:, 1]'): CLAMPED,
    ('advantages/stick_breaking.py', 'LOGIT_NODES - 3)'): 'one draw in 2^30 lies there, on the same line but for 1e-6',
    ('advantages/stick_breaking.py', 'np.sqrt(1 / a + 2 / b)'): 'a wider grid integrates as well',
    ('advantages/subset_credit.py', 'jnp.ones_like(scores).at'): 'all entries are set',
    ('advantages/vpo.py', 'pool, components)[0], 1)'): 'groups of padding are left out of the metric',
    ('advantages/vpo_subsets.py', 'rollouts.any(axis=1)'): TWO_AXES,
    ('advantages/vpo_subsets.py', 'spread.std <= 0.001'): 'no spread is .001 to the last bit',
    ('advantages/weights.py', 'jnp.where(total > 0, total, 2)'): 'zeros are divided',
}
OWN_TIMEOUT, TIMEOUT = 120., 900.  # Seconds: for a file's own tests, which take up to 20 on a quiet core, and for all.


@dataclasses.dataclass(frozen=True)
class Mutant:
  """One break: the file, the line, what stood there, what stands there now, and the whole source with it."""
  file: str
  line: int
  before: str
  after: str
  source: str


def changed(node: ast.AST, field: str) -> ast.AST | None:
  """The broken form of one node, which stands in `field` of its parent; None if it has none."""
  match node:
    case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op) if type(op) in OPERATORS:
      broken = copy.deepcopy(node)
      broken.op = OPERATORS[type(op)]()
      return broken
    case ast.Compare(ops=[op]) if type(op) in OPERATORS:
      broken = copy.deepcopy(node)
      broken.ops = [OPERATORS[type(op)]()]
      return broken
    case ast.UnaryOp(op=ast.Invert() | ast.USub() | ast.Not()):
      return node.operand
    case ast.Constant(value=bool(value)):
      return ast.Constant(not value)
    case ast.Constant(value=int(value) | float(value)):
      return ast.Constant(value + 1)
    case ast.Constant(value=str(value)) if field == 'kw_defaults' and value in TEXTS:
      return ast.Constant(TEXTS[value])
    case ast.Attribute(attr=name) if name in NAMES:
      return ast.Attribute(node.value, NAMES[name], node.ctx)
    case ast.Name(id=name) if name.endswith('_mask') and field == 'args':
      return ast.Constant(None)
  return None


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
  """Parent, field and index of every expression whose value matters: no annotations, no texts, no error messages."""
  for parent in ast.walk(tree):
    if isinstance(parent, ast.JoinedStr | ast.Raise | ast.FormattedValue):
      continue
    for field, value in ast.iter_fields(parent):
      if field in ('annotation', 'returns'):
        continue
      for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
        if isinstance(child, ast.expr):
          yield parent, field, index


def mutants(path: pathlib.Path) -> list[Mutant]:
  """All breaks of a file, from its first line to its last."""
  tree = ast.parse(path.read_text())
  file, whole = str(path.relative_to(PACKAGE)), ast.unparse(tree).splitlines()
  unseen = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.JoinedStr)
            for inner in ast.walk(node)}
  found = []
  for parent, field, index in list(places(tree)):
    value = getattr(parent, field)
    node = value if index is None else value[index]
    broken = changed(node, field)
    if broken is None or id(node) in unseen:
      continue

    def put(new, parent=parent, field=field, index=index, value=value):
      if index is None:
        setattr(parent, field, new)
      else:
        value[index] = new

    shown = lambda now, parent=parent: ast.unparse(parent if isinstance(parent, ast.keyword) else now)
    before = shown(node)
    put(broken)
    source = ast.unparse(tree)
    statement = next(now for now, then in zip(source.splitlines(), whole, strict=True) if now != then)
    if not any(of == file and text in statement for of, text in EQUIVALENT):
      found.append(Mutant(file, node.lineno, before, shown(broken), source))
    put(node)
  return sorted(found, key=lambda mutant: mutant.line)


def verdict(mutant: Mutant, copy_of_root: pathlib.Path) -> str:
  """What the tests say with the mutant in place of its file: `caught`, `TIMEOUT` or `SURVIVED`."""
  path = copy_of_root / 'vpo_jax' / mutant.file
  original = path.read_text()
  path.write_text(mutant.source)
  own = f'tests/{mutant.file.removesuffix(".py")}_test.py'
  try:
    if (copy_of_root / own).exists() and (said := _said([own], copy_of_root, OWN_TIMEOUT)) != 'SURVIVED':
      return said
    return _said(TESTS, copy_of_root, TIMEOUT)
  finally:
    path.write_text(original)


def _said(tests: Sequence[str], folder: pathlib.Path, timeout: float) -> str:
  command = [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', '-p', 'no:xdist', *tests]
  env = os.environ | {'CI': '1', 'PYTHONDONTWRITEBYTECODE': '1', 'OMP_NUM_THREADS': '1',
                      'XLA_FLAGS': '--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0'}
  try:
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=timeout)
  except subprocess.TimeoutExpired:
    return 'TIMEOUT'
  return 'caught' if done.returncode else 'SURVIVED'


def main() -> None:
  """The command line; see the module's head."""
  parser = argparse.ArgumentParser(prog='python -m tests.mutants', description='Mutation check of the kernels.')
  parser.add_argument('files', nargs='*', help='ends of paths, such as vpo.py; all by default')
  parser.add_argument('--per_file', type=int, default=10, help='breaks of a file; 0 for all')
  parser.add_argument('--seed', type=int, default=0, help='which ones')
  arguments = parser.parse_args()
  picked = []
  for path in FILES:
    if arguments.files and not any(path.match(name) for name in arguments.files):
      continue
    found = mutants(path)
    count = len(found) if arguments.per_file == 0 else min(arguments.per_file, len(found))
    picked += sorted(random.Random(arguments.seed).sample(found, count), key=lambda mutant: mutant.line)
  slots = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
  with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(slots) as pool:
    free = queue.SimpleQueue()
    for slot in range(slots):
      to = pathlib.Path(folder) / str(slot)
      for part in ('vpo_jax', 'tests'):
        shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns('__pycache__'))
      shutil.copy(ROOT / 'pyproject.toml', to)
      free.put(to)

    def ask(mutant):
      to = free.get()
      try:
        return verdict(mutant, to)
      finally:
        free.put(to)

    if _said(TESTS, pathlib.Path(folder) / '0', TIMEOUT) != 'SURVIVED':
      sys.exit('The tests must pass before anything is broken; they fail.')
    counts = collections.Counter()
    for number, (mutant, said) in enumerate(zip(picked, pool.map(ask, picked), strict=True), 1):
      counts[said] += 1
      print(f'[{number}/{len(picked)}] {said:8} {mutant.file}:{mutant.line}: {mutant.before} -> {mutant.after}',
            flush=True)
  print(f'{len(picked) - counts["SURVIVED"]} of {len(picked)} breaks were caught, {counts["TIMEOUT"]} of them by the '
        'time limit.')
  sys.exit(1 if counts['SURVIVED'] else 0)


if __name__ == '__main__':
  main()
