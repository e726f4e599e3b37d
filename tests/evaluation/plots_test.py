import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from vpo_jax.advantages import ESTIMATORS
from vpo_jax.evaluation import plots
from vpo_jax.tasks import maze_rules


def lines(figure):
  return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_panels_share_the_scale_of_the_trained_methods_and_name_a_line_once():
  start, vpo, grpo = [{1: .1, 2: .2}], [{1: .5, 2: .6}, {1: .5, 2: .7}], [{1: .6, 2: .6}]
  figure = plots.best_at_k_panels({'a': {'warm_start': start, 'vpo': vpo}, 'b': {'grpo': grpo, 'vpo': vpo}}, .8)
  low, high = figure.axes[0].get_ylim()
  assert (low, high) == figure.axes[1].get_ylim() and .1 < low < .5 and high > .8
  names = [text.get_text() for text in figure.legends[0].get_texts()]
  assert names == ['Warm start', 'VPO', 'Best possible', 'GRPO']


def test_gaps_are_lines_about_zero_in_the_band_of_their_interval():
  figure = plots.gaps({'a': {'vpo': {1: (.1, .0, .3), 30: (-.1, -.2, .1)}}, 'b': {'vpo': {1: (.5, .4, .6)}}})
  zero, line = figure.axes[0].get_lines()
  np.testing.assert_array_equal(zero.get_ydata(), 0)
  np.testing.assert_allclose(line.get_xydata(), [[1, .1], [30, -.1]])
  band, = figure.axes[0].collections
  np.testing.assert_allclose(sorted(set(band.get_paths()[0].vertices[:, 1].round(6))), [-.2, 0, .1, .3])
  assert [ax.get_title() for ax in figure.axes] == ['a', 'b'] and len(figure.legends[0].get_texts()) == 1


def test_seeds_become_a_mean_in_a_band_from_lowest_to_highest():
  figure = plots.best_at_k({'vpo': [{1: .2, 3: .6}, {1: .4, 3: .6}], 'grpo': [{1: .5, 3: .5}]}, oracle=.75)
  drawn = lines(figure)
  assert set(drawn) == {'VPO (2 seeds)', 'GRPO', 'Best possible'}
  np.testing.assert_allclose(drawn['VPO (2 seeds)'].get_ydata(), [.3, .6])
  np.testing.assert_array_equal(drawn['GRPO'].get_xdata(), [1, 3])
  np.testing.assert_allclose(drawn['Best possible'].get_ydata(), .75)
  band, = figure.axes[0].collections
  np.testing.assert_allclose(sorted(set(band.get_paths()[0].vertices[:, 1].round(6))), [.2, .4, .6])
  assert figure.axes[0].get_xscale() == 'log'


def test_styles_tell_all_methods_apart_and_stay_the_same():
  assert set(ESTIMATORS) <= set(plots.STYLES)
  looks = [look[1:] for look in plots.STYLES.values()]
  assert len(set(looks)) == len(looks) and len({look[0] for look in plots.STYLES.values()}) == len(looks)
  assert plots.style('my_method') == plots.style('my_method')
  first = lines(plots.best_at_k({'grpo': [{1: 0.}], 'vpo': [{1: 0.}]}))
  second = lines(plots.diversity_over_training({'vpo': [[{'generated_tokens_total': 1, 'diversity_l1_valid': 0.}]]}))
  assert first['VPO'].get_color() == second['VPO'].get_color() != first['GRPO'].get_color()


def test_colours_differ_in_brightness_or_hue_for_colour_blind_readers():
  # Simulated deuteranopia (Viénot, Brettel & Mollon 1999) of linear RGB: red and green cones merge.
  simulate = np.array([[.29275, .70725, 0], [.29275, .70725, 0], [-.02234, .02234, 1]])
  seen = [simulate @ np.array(to_rgb(colour))**2.2 for colour in {look[1] for look in plots.STYLES.values()}]
  assert min(np.abs(a - b).sum() for a, b in itertools.combinations(seen, 2)) > .2  # Matplotlib's red and green: .125.


def test_diversity_is_read_at_common_token_counts():
  rows = lambda tokens, values: [{'step': i, 'generated_tokens_total': t, 'diversity_l1_valid': v}
                                 for i, (t, v) in enumerate(zip(tokens, values, strict=True))]
  seeds = [rows([0, 2e6], [0., 1.]), rows([0, 1e6, 4e6], [1., 1., None])]
  line = lines(plots.diversity_over_training({'vpo': seeds}))['VPO (2 seeds)']
  # Both reach 1 M tokens with a value: there the first seed, a straight line, is at .5.
  np.testing.assert_allclose([line.get_xdata()[-1], line.get_ydata()[-1]], [1, .75])


def test_temperatures():
  figure = plots.temperatures({'vpo': {1.: [(.6, .7), (.62, .72)], .7: [(.67, .7)]}, 'grpo': {1.: [(.65, .68)]}})
  line = next(c for c in figure.axes[0].containers if c.get_label() == 'VPO').lines[0]
  np.testing.assert_allclose(line.get_xydata(), [[.67, .7], [.61, .71]])
  assert [text.get_text() for text in figure.axes[0].texts] == ['T 0.7', 'T 1', 'T 1']


def test_maze_draws_every_route_from_the_start():
  rules = maze_rules
  cells = np.full(9, rules.EMPTY)
  cells[[0, 2, 3, 4, 8]] = [rules.START, rules.GOLD, rules.WALL, rules.LAVA, rules.EXIT]
  figure = plots.maze(cells, 3, {'vpo': [[1, 2, 5, 8], [1, 4, 5, 8]], 'grpo': [[1, 2, 5, 8]]})
  assert [ax.get_title() for ax in figure.axes] == ['VPO, 2 routes', 'GRPO, 1 route']
  (route,) = figure.axes[1].get_lines()
  np.testing.assert_allclose(route.get_xydata(), [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2]])
  assert len(figure.axes[0].get_lines()) == 2
  assert {text.get_text() for text in figure.axes[0].texts} == {'S', 'E', '●', '✕'}


def test_reward_vectors_count_equal_answers():
  rewards = np.array([[1, .2, .8], [1, .2, .8], [1, .9, .1], [1, .5, .5]])
  assert plots.trade_off(rewards) == (1, 2)
  figure = plots.reward_vectors({'grpo': rewards[:2], 'vpo': rewards}, ('completion', 'gold', 'diamond'), (1, 2))
  assert [text.get_text() for text in figure.axes[1].texts] == ['2', '1', '1']
  np.testing.assert_allclose(figure.axes[1].collections[0].get_sizes(), [300, 150, 150])
  assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ('gold', 'diamond')


def test_passed_tests_have_the_best_answers_on_top():
  rewards = np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1.]])
  figure = plots.passed_tests({'grpo': rewards}, ('test_5', 'test_6', 'test_8'))
  assert figure.axes[0].images[0].get_array().astype(int).tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 1], [0, 0, 0]]
  assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ['test_5', 'test_6', 'test_8']


def test_evolution_is_drawn_through_and_independent_answers_dashed():
  arm = dict(solved=[[.1, 0, .2], [.5, .4, .6]], best=[[.3, .2, .4], [.7, .6, .8]])
  figure = plots.evolution({'vpo': {'evolution': arm, 'independent': arm}})
  solved, best = figure.axes
  assert [line.get_linestyle() for line in solved.lines] == ['-', '--']
  assert best.lines[0].get_xydata().tolist() == [[1, .3], [2, .7]]


@pytest.mark.parametrize('suffix, start', [('png', b'\x89PNG'), ('pdf', b'%PDF'), ('svg', b'<?xml')])
def test_saved_formats(tmp_path, suffix, start):
  plots.save(plots.best_at_k({'vpo': [{1: .2, 3: .6}]}), tmp_path / 'figures' / f'curve.{suffix}')
  assert (tmp_path / 'figures' / f'curve.{suffix}').read_bytes().startswith(start)


def test_maze_symbols_are_in_the_font(tmp_path):
  # A missing glyph is a warning, and warnings are errors here.
  plots.save(plots.maze(np.array([*range(10), *[0] * 6]), 4, {'grpo': [[3]]}), tmp_path / 'maze.png')
