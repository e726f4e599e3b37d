"""Figures, as functions from data to a `matplotlib.figure.Figure`: no global state, no display.

A method has the same colour and line everywhere (`STYLES`, colours that colour-blind readers tell apart). Several seeds
become a line, their mean, in a band from the lowest to the highest.
"""

import io
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from vpo_jax.evaluation import atomic
from vpo_jax.tasks import maze_rules

# Okabe and Ito's colours.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PURPLE = (
    '#000000', '#E69F00', '#56B4E9', '#009E73', '#0072B2', '#D55E00', '#CC79A7')
_GREY, _DARK = '#B3B3B3', '#555555'
STYLES = {  # method: label, colour, line
    'vpo': ('VPO', _BLUE, '-'),
    'vpo_lattice': ('VPO, lattice', _BLUE, ':'),
    'vpo_subsets': ('VPO over subsets', _SKY, '-'),
    'vpo_subsets_k3': ('VPO over 3-subsets', _SKY, ':'),
    'vpo_subsets_one_weighting': ('VPO over subsets, K = 1', _SKY, '-.'),
    'vpo_subsets_no_std': ('VPO over subsets, no std', _SKY, (0, (1, 3))),
    'grpo': ('GRPO', _RED, '-'),
    'grpo_kl': ('GRPO, tuned KL', _ORANGE, '-.'),
    'dr_grpo': ('Dr. GRPO', _RED, '--'),
    'gdpo': ('GDPO', _RED, ':'),
    'maxrl': ('MaxRL', _RED, '-.'),
    'multi_rlvr': ('Multi-RLVR', _ORANGE, '-'),
    'multi_rlvr_copies': ('Multi-RLVR, copies paid', _ORANGE, ':'),
    'set_max': ('Set max', _ORANGE, '--'),
    'random_weights': ('Random weights', _SKY, '--'),
    'max_at_k': ('Max@K', _GREEN, '-'),
    'pkpo': ('PKPO', _GREEN, '--'),
    'poly_epo': ('Poly-EPO', _PURPLE, '-'),
    'diversity_bonus': ('Diversity bonus', _PURPLE, '--'),
    'pareto_rank': ('Pareto rank', _BLACK, '-'),
    'hypervolume': ('Hypervolume', _BLACK, '--'),
    'warm_start': ('Warm start', _GREY, '-'),
}


def style(method: str) -> tuple[str, str, str | tuple]:
  """Label, colour and line of `method`; one that is not in `STYLES` gets its own by a hash of its name."""
  if method in STYLES:
    return STYLES[method]
  colours = (_BLUE, _SKY, _GREEN, _ORANGE, _RED, _PURPLE)
  code = zlib.crc32(method.encode())
  return method, colours[code % 6], ('--', ':', '-.')[code // 6 % 3]


def _figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
  figure = Figure(figsize=(width, height), layout='constrained')
  axes = list(figure.subplots(1, columns, squeeze=False)[0])
  for ax in axes:
    ax.spines[['top', 'right']].set_visible(False)
  return figure, axes


def _legend(figure: Figure) -> None:
  """Names each line once, above the axes, where they cover none of them."""
  lines = {label: line for ax in figure.axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
  figure.legend(lines.values(), lines, loc='outside upper center', ncols=1 + len(figure.axes), frameon=False,
                fontsize='small')


def _band(ax: Axes, method: str, x: Sequence[float], rows: np.ndarray, marker: str | None = None,
          count: bool = True) -> None:
  """Draws the mean of the seeds in `rows` `[seeds, x]` in a band from the lowest to the highest."""
  label, colour, line = style(method)
  label = f'{label} ({len(rows)} seeds)' if count and len(rows) > 1 else label
  ax.plot(x, rows.mean(axis=0), color=colour, linestyle=line, marker=marker, markersize=4, label=label)
  if len(rows) > 1:
    ax.fill_between(x, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=.2, linewidth=0)


def best_at_k(curves: Mapping[str, Sequence[Mapping[int, float]]], oracle: float | None = None,
              title: str = '') -> Figure:
  """Best@k against k on a log axis, one line a method.

  Args:
    curves: method to one curve a seed, each from k to score, over the same k.
    oracle: best score that can be reached, drawn as a line.
    title: of the figure.
  """
  return best_at_k_panels({title: curves}, oracle)


def best_at_k_panels(panels: Mapping[str, Mapping[str, Sequence[Mapping[int, float]]]],
                     oracle: float | None = None) -> Figure:
  """As `best_at_k`, a panel a title, side by side on one scale: that of the trained methods.

  The curve of `warm_start`, where there is one, may begin below the frame. Several panels share a legend, without the
  numbers of seeds.
  """
  figure, axes = _figure(1 + 4 * len(panels), 3.6, len(panels))
  scores = [score for curves in panels.values() for method, seeds in curves.items()
            if method != 'warm_start' or len(curves) == 1 for curve in seeds for score in curve.values()]
  scores += [] if oracle is None else [oracle]
  margin = .05 * (max(scores) - min(scores)) or .05
  for ax, (title, curves) in zip(axes, panels.items(), strict=True):
    for method, seeds in curves.items():
      ks = sorted(seeds[0])
      _band(ax, method, ks, np.array([[curve[k] for k in ks] for curve in seeds]), marker='o',
            count=len(panels) == 1)
    if oracle is not None:
      ax.axhline(oracle, color=_DARK, linestyle=':', label='Best possible')
    ticks = sorted({k for seeds in curves.values() for k in seeds[0]})
    ax.set_xscale('log')
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.minorticks_off()
    ax.set(xlabel='k, answers tried', title=title, ylim=(min(scores) - margin, max(scores) + margin))
  axes[0].set_ylabel('best@k, scalar reward')
  _legend(figure)
  return figure


def gaps(panels: Mapping[str, Mapping[str, Mapping[int, Sequence[float]]]]) -> Figure:
  """How far methods are ahead of others at every k, a panel a title, each on its own scale.

  Args:
    panels: title to method to k to (difference, low, high).
  """
  figure, axes = _figure(1 + 3.2 * len(panels), 3.4, len(panels))
  for ax, (title, methods) in zip(axes, panels.items(), strict=True):
    ax.axhline(0, color=_DARK, linewidth=.8)
    for method, by_k in methods.items():
      label, colour, line = style(method)
      ks = sorted(by_k)
      means, low, high = np.array([by_k[k] for k in ks]).T
      ax.plot(ks, means, color=colour, linestyle=line, marker='o', markersize=4, label=label)
      ax.fill_between(ks, low, high, color=colour, alpha=.2, linewidth=0)
    ticks = sorted({k for by_k in methods.values() for k in by_k})[::2]
    ax.set_xscale('log')
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.minorticks_off()
    ax.set(xlabel='k, answers tried', title=title)
  axes[0].set_ylabel('ahead of the best scalar method by')
  _legend(figure)
  return figure


def temperatures(points: Mapping[str, Mapping[float, Sequence[tuple[float, float]]]]) -> Figure:
  """Best@1 against best@30 along the sampling temperature, one line a method, a cross as wide as its seeds a point.

  Args:
    points: method to temperature to one (best@1, best@30) a seed.
  """
  figure, (ax,) = _figure(5, 4)
  for method, by_temperature in points.items():
    label, colour, line = style(method)
    heats = sorted(by_temperature)
    seeds = [np.array(by_temperature[t]) for t in heats]
    centres = np.array([s.mean(axis=0) for s in seeds])
    spans = np.array([[s.mean(axis=0) - s.min(axis=0), s.max(axis=0) - s.mean(axis=0)] for s in seeds])
    spans = np.maximum(spans, 0)  # The mean of equal seeds may round to just outside of them.
    ax.errorbar(centres[:, 0], centres[:, 1], xerr=spans[:, :, 0].T, yerr=spans[:, :, 1].T, color=colour,
                linestyle=line, marker='o', markersize=4, elinewidth=.7, label=label)
    for heat, centre in zip(heats, centres, strict=True):
      ax.annotate(f'T {heat:g}', centre, xytext=(4, 4), textcoords='offset points', fontsize=7, color=colour)
  ax.set(xlabel='best@1, scalar reward', ylabel='best@30, scalar reward')
  _legend(figure)
  return figure


def diversity_over_training(histories: Mapping[str, Sequence[Sequence[Mapping]]],
                            metric: str = 'diversity_l1_valid') -> Figure:
  """A diversity over the tokens generated in training, one line a method.

  Args:
    histories: method to the rows of `metrics.jsonl` of each seed. Rows without the metric are left out.
    metric: column of the rows to draw.
  """
  figure, (ax,) = _figure(5, 3.6)
  for method, seeds in histories.items():
    lines = []
    for rows in seeds:
      kept = [(row['generated_tokens_total'], row[metric]) for row in rows if row.get(metric) is not None]
      lines.append(np.array(kept, np.float64).reshape(-1, 2))
    lines = [line for line in lines if len(line)]
    if not lines:
      continue
    # Seeds generate differently many tokens a step: read all at the same places, as far as the shortest run goes.
    start, end = max(line[0, 0] for line in lines), min(line[-1, 0] for line in lines)
    x = np.linspace(start, end, min(200, max(map(len, lines))))
    _band(ax, method, x / 1e6, np.array([np.interp(x, line[:, 0], line[:, 1]) for line in lines]))
  names = {'diversity_l1': 'all answers', 'diversity_l1_valid': 'successful answers'}
  ax.set(xlabel='generated tokens, millions', ylabel=f'reward L1, {names.get(metric, metric)}')
  ax.set_ylim(bottom=0)
  _legend(figure)
  return figure


def maze(cells: np.ndarray, size: int, routes: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
  """One maze, a panel a method, with the routes it gave.

  Args:
    cells: `[size * size]` kinds of `maze_rules`, row-major.
    size: side of the grid.
    routes: method to its routes; a route is the list of the cells walked, the start not written.
  """
  figure, axes = _figure(3 * len(routes), 3.3, len(routes))
  kinds = np.asarray(cells).reshape(size, size)
  marks = {maze_rules.START: ('S', _BLACK), maze_rules.EXIT: ('E', _BLACK), maze_rules.LAVA: ('✕', _RED),
           maze_rules.BONUS: ('+', _BLACK), maze_rules.GOLD: ('●', _ORANGE), maze_rules.DIAMOND: ('◆', _SKY),
           maze_rules.RUBY: ('▲', _PURPLE), maze_rules.PEARL: ('■', _GREEN)}
  start = int(np.argmax(np.asarray(cells) == maze_rules.START))
  for ax, (method, lines) in zip(axes, routes.items(), strict=True):
    label, colour, _ = style(method)
    ax.imshow(kinds == maze_rules.WALL, cmap=ListedColormap(['white', '#4D4D4D']), vmin=0, vmax=1)
    ax.set_xticks(np.arange(size + 1) - .5, labels=[])
    ax.set_yticks(np.arange(size + 1) - .5, labels=[])
    ax.spines[:].set_visible(True)
    ax.grid(color='#DDDDDD', linewidth=.6)
    ax.tick_params(length=0)
    for (row, column), kind in np.ndenumerate(kinds):
      if kind in marks:
        text, ink = marks[kind]
        ax.text(column, row, text, color=ink, ha='center', va='center', fontsize=64 / size)
    for i, route in enumerate(lines):
      walked = np.array([start, *route])
      shift = .36 * ((i + .5) / len(lines) - .5)  # Beside each other, so that shared stretches show.
      ax.plot(walked % size + shift, walked // size + shift, color=colour, alpha=.8,
              linewidth=max(.6, 3 / len(lines)**.5), solid_capstyle='round')
    ax.set(title=f'{label}, {len(lines)} route{"s" * (len(lines) != 1)}', xlim=(-.5, size - .5), ylim=(size - .5, -.5))
  return figure


def trade_off(rewards: np.ndarray) -> tuple[int, int]:
  """The two components of `rewards` `[n, d]`, d > 1, that most oppose each other: smallest covariance."""
  covariance = np.cov(np.asarray(rewards, np.float64).T)
  first, second = np.triu_indices(len(covariance), 1)
  best = int(np.argmin(covariance[first, second]))
  return int(first[best]), int(second[best])


def reward_vectors(pools: Mapping[str, np.ndarray], components: Sequence[str], pair: tuple[int, int]) -> Figure:
  """Reward vectors of one problem's pool, a panel a method: two components, each dot as large as its count.

  Args:
    pools: method to `[n, d]` rewards.
    components: the d names.
    pair: the two components to draw, such as `trade_off`.
  """
  figure, axes = _figure(3.2 * len(pools), 3.2, len(pools))
  for ax, (method, rewards) in zip(axes, pools.items(), strict=True):
    label, colour, _ = style(method)
    points, counts = np.unique(np.asarray(rewards)[:, list(pair)], axis=0, return_counts=True)
    ax.scatter(points[:, 0], points[:, 1], s=600 * counts / len(rewards), color=colour, alpha=.6, linewidth=0)
    for point, count in zip(points, counts, strict=True):
      ax.annotate(str(count), point, ha='center', va='center', fontsize=7)
    ax.set(title=f'{label}, {len(rewards)} answers', xlabel=components[pair[0]], ylabel=components[pair[1]],
           xlim=(-.1, 1.1), ylim=(-.1, 1.1))
  return figure


def passed_tests(pools: Mapping[str, np.ndarray], tests: Sequence[str]) -> Figure:
  """Which tests of one problem each answer of a pool passes, a panel a method: a row an answer, the best on top.

  Args:
    pools: method to `[n, d]` rewards, above 0 where the test is passed.
    tests: the d names.
  """
  figure, axes = _figure(3 * len(pools), 3.6, len(pools))
  for ax, (method, rewards) in zip(axes, pools.items(), strict=True):
    label, colour, _ = style(method)
    passed = np.asarray(rewards) > 0
    order = np.lexsort((*passed.T[::-1], passed.sum(axis=1)))[::-1]
    ax.imshow(passed[order], cmap=ListedColormap(['#EEEEEE', colour]), vmin=0, vmax=1, aspect='auto',
              interpolation='nearest')
    ax.set_xticks(np.arange(len(tests)), labels=tests, rotation=90)
    ax.set(title=f'{label}, {len(passed)} answers', ylabel='answers')
  return figure


def evolution(curves: Mapping[str, Mapping[str, Mapping[str, Sequence[Sequence[float]]]]]) -> Figure:
  """What searches found by the number of answers scored: problems solved, and the mean best, a colour a method.

  Args:
    curves: method to arm ('evolution' is drawn through, others dashed) to `solved` and `best`, each (mean, low, high)
      after every answer.
  """
  figure, axes = _figure(8, 3.6, 2)
  for ax, (name, title) in zip(axes, (('solved', 'share of problems solved'), ('best', 'mean best so far')),
                               strict=True):
    for method, arms in curves.items():
      label, colour, _ = style(method)
      for arm, found in arms.items():
        means = [mean for mean, _, _ in found[name]]
        ax.plot(np.arange(1, len(means) + 1), means, color=colour, linestyle='-' if arm == 'evolution' else '--',
                label=f'{label}, {arm}')
    ax.set(xlabel='programs scored', ylabel=title)
    ax.set_ylim(bottom=0)
  _legend(figure)
  return figure


def save(figure: Figure, path: epath.PathLike) -> None:
  """Writes `figure` to `path` by atomic rename; the suffix (png, pdf, svg) gives the format."""
  buffer = io.BytesIO()
  figure.savefig(buffer, format=epath.Path(path).suffix.removeprefix('.'), dpi=160)
  atomic.write_atomically(path, buffer.getvalue())
