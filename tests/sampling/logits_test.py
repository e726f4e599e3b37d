import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

from vpo_jax.sampling.logits import draw_token, filtered_logits, is_stop, sampling_params

# Every parameter is traced: one program a shape.
filtered = jax.jit(filtered_logits)
draw = jax.jit(draw_token)

LONG = 600  # More tokens than the shortlist of 256.
temperatures = st.sampled_from([0, 1e-40, 2e-38, 1e-6, .3, 1, 3, 1e6])
filters = st.fixed_dictionaries({
    'top_k': st.sampled_from([0, 1, 2, 3, 5, 10, 255, 256, 257, 400, 599, 600, 2**40]),
    'top_p': st.just(1.) | st.floats(0, 1), 'min_p': st.just(0.) | st.floats(0, 1)})


def params(vocab_size, stop_ids=(), **settings):
  return sampling_params(vocab_size=vocab_size, stop_ids=stop_ids, **settings)


def kept_tokens(logits, *, top_k=0, top_p=1., min_p=0.):
  """`[V]` whether a token is kept, in float64, and whether that is no matter of rounding."""
  vocab = len(logits)
  top_k = min(top_k, vocab) or vocab
  order = np.argsort(-logits, kind='stable')[:top_k]  # Among equals the lower id first.
  probs = scipy.special.softmax(logits[order].astype(np.float64))
  before = np.cumsum(probs) - probs
  keep = ((before < top_p) | (top_p == 1)) & (probs >= min_p * probs[0])
  keep[0] = True
  near = ((top_p < 1) & (np.abs(before - top_p) < 5e-6)) | ((min_p > 0) & (np.abs(probs / probs[0] - min_p) < 5e-6))
  near[0] = False
  kept, certain = np.zeros(vocab, bool), np.ones(vocab, bool)
  kept[order], certain[order] = keep, ~near
  return kept, certain


@pytest.mark.parametrize('probs, settings, kept', [
    ([.4, .3, .2, .1], dict(top_p=.8), 3),
    ([.9, .06, .04], dict(top_p=.5), 1),
    ([.5, .3, .1, .1], dict(top_p=.8), 2),  # Reached exactly: no third token.
    ([.4, .3, .2, .1], dict(top_p=1.), 4),
    ([.4, .3, .2, .1], dict(top_p=0.), 1),
    ([.4, .3, .2, .1], dict(top_k=1), 1),
    ([.4, .3, .2, .1], dict(top_k=0), 4),
    ([.4, .3, .2, .1], dict(top_k=9), 4),
    ([.4, .3, .2, .1], dict(top_k=1, top_p=.8), 1),
    ([.4, .3, .2, .1], dict(top_k=2, top_p=.6), 2),  # .4 of .7 is .571.
    ([.4, .3, .2, .1], dict(top_k=2, top_p=.57), 1),
    ([.4, .3, .2, .1], dict(min_p=.5), 3),  # .2 is half of .4, exactly.
    ([.4, .3, .2, .1], dict(min_p=.51), 2),
    ([.4, .3, .2, .1], dict(min_p=1.), 1),
    ([.3, .3, .3, .1], dict(min_p=1.), 3),
    ([.25] * 4, dict(top_k=3), 3),
    ([.25] * 4, dict(top_p=.5), 2),
    ([1 - 3e-7, 1e-7, 1e-7, 1e-7], dict(top_p=.999), 1)])
@pytest.mark.parametrize('shift', [-2., 0., 3.])
def test_filters_keep_by_hand(probs, settings, kept, shift):
  logits = np.log(np.array([probs], np.float32)) + np.float32(shift)
  actual = filtered(logits, params(len(probs), **settings))[0]
  np.testing.assert_array_equal(np.isfinite(actual), np.arange(len(probs)) < kept)  # Lower ids win ties.
  np.testing.assert_array_equal(actual[:kept], logits[0, :kept])


@hypothesis.settings(max_examples=100)
@hypothesis.example(np.zeros((2, 12), np.float32), dict(top_k=0, top_p=1 - 1e-9, min_p=0.))  # 1 in float32.
@hypothesis.given(hnp.arrays(np.float32, (2, 12), elements=st.sampled_from([-90., -3., 0., .5, 1., 40.])
                             | st.floats(-100, 100, width=32).filter(lambda x: abs(x) > 1e-6)), filters)
def test_filters_keep_something_and_what_they_promise(logits, settings):
  actual = np.asarray(filtered(logits, params(12, **settings)))
  for row, left in zip(logits, actual, strict=True):
    keep = np.isfinite(left)
    expected, certain = kept_tokens(row, **settings)
    np.testing.assert_array_equal(keep[certain], expected[certain])
    assert keep[np.argmax(row)] and keep.sum() <= (settings['top_k'] or 12)
    np.testing.assert_array_equal(left[keep], row[keep])
    # Nothing left out is likelier than what is kept.
    assert row[keep].min() >= row[~keep].max(initial=-np.inf)
    if settings['min_p'] == 0:
      among = np.sort(row)[::-1][: min(settings['top_k'], 12) or 12]
      mass = np.sort(scipy.special.softmax(among.astype(np.float64)))[::-1][: keep.sum()]
      # Reached, and by no token too many, up to rounding to float32.
      assert mass.sum() >= settings['top_p'] - 5e-6
      assert settings['top_p'] == 1 or keep.sum() == 1 or mass[:-1].sum() < settings['top_p'] + 5e-6


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.integers(0, 2**32 - 1), st.sampled_from([0., .01, .3, 2., 10.]), filters)
@hypothesis.example(0, .3, dict(top_k=400, top_p=.5, min_p=0.))  # Half of the 400's mass, not of all 600's.
@hypothesis.example(0, 0., dict(top_k=0, top_p=.9, min_p=0.))  # So flat that 540 tokens are kept.
@hypothesis.example(0, 0., dict(top_k=300, top_p=1., min_p=1.))
def test_long_vocabularies_are_filtered_as_by_a_full_sort(seed, scale, settings):
  rng = np.random.default_rng(seed)
  # A flat row beside a sharp one; the sharp one alone would fit the shortlist.
  logits = (rng.standard_normal((2, LONG)) * [[scale], [5.]] + 0).astype(np.float32)
  actual = np.asarray(filtered(logits, params(LONG, **settings)))
  for row, left in zip(logits, actual, strict=True):
    expected, certain = kept_tokens(row, **settings)
    np.testing.assert_array_equal(np.isfinite(left)[certain], expected[certain])
    np.testing.assert_array_equal(left[np.isfinite(left)], row[np.isfinite(left)])


@hypothesis.example(145_951, 0, dict(top_k=0, top_p=1., min_p=0.))  # Two of 1e4 that are 9 apart: log-prob -1.2e-4.
@hypothesis.given(st.integers(0, 2**32 - 1), temperatures, filters)
def test_draws_are_finite_and_kept(seed, temperature, settings):
  rng = np.random.default_rng(seed)
  logits = (rng.standard_normal((4, 12)) * [[0], [1], [30], [1e4]] + 0).astype(np.float32)  # + 0: no -0.
  uniforms = rng.uniform(1e-7, 1 - 1e-7, (4, 12)).astype(np.float32)
  tokens, logprobs, sampling_logprobs = map(
      np.asarray, draw(uniforms, logits, params(12, temperature=temperature, **settings)))
  untempered = scipy.special.log_softmax(logits.astype(np.float64), axis=1)
  np.testing.assert_allclose(logprobs, np.take_along_axis(untempered, tokens[:, None], 1)[:, 0], rtol=1e-5, atol=2e-5)
  assert np.isfinite(sampling_logprobs).all() and (sampling_logprobs <= 1e-6).all()
  if temperature < 1e-5:
    np.testing.assert_array_equal(logits[np.arange(4), tokens], logits.max(axis=1))
  else:
    for row, token in zip(logits / np.float32(temperature), tokens, strict=True):
      expected, certain = kept_tokens(row, **settings)
      assert expected[token] or not certain[token]


def test_greedy_takes_the_first_of_the_likeliest():
  logits = np.array([[1, 2, -1], [3, 3, 3], [-5, 0, 0]], np.float32)
  uniforms = np.full((3, 3), [.9, .1, .5], np.float32)
  tokens, logprobs, sampling_logprobs = draw(uniforms, logits, params(3, temperature=0))
  np.testing.assert_array_equal(tokens, [1, 0, 1])
  np.testing.assert_array_equal(sampling_logprobs, 0)
  np.testing.assert_allclose(logprobs[1], -np.log(3), rtol=1e-6)


@pytest.mark.parametrize('settings', [
    dict(), dict(temperature=.6), dict(temperature=1.7), dict(top_k=3), dict(top_p=.8), dict(min_p=.2),
    dict(temperature=.7, top_k=5, top_p=.9, min_p=.1)], ids=str)
def test_draws_follow_the_recorded_distribution(settings):
  logits = np.array([2., 1.5, 1.5, 1., 0., -.5, -1., -3.], np.float32)
  tempered = logits / settings.get('temperature', 1)
  kept, certain = kept_tokens(tempered, **{k: v for k, v in settings.items() if k != 'temperature'})
  assert certain.all()
  probs = np.where(kept, scipy.special.softmax(np.where(kept, tempered.astype(np.float64), -np.inf)), 0)
  n = 20_000
  uniforms = np.random.default_rng(7).uniform(1e-7, 1 - 1e-7, (n, 8)).astype(np.float32)
  tokens, logprobs, sampling_logprobs = draw(uniforms, np.tile(logits, (n, 1)), params(8, **settings))
  counts = np.bincount(tokens, minlength=8)
  assert counts[~kept].sum() == 0
  assert kept.sum() == 1 or scipy.stats.chisquare(counts[kept], n * probs[kept]).pvalue > 1e-3
  np.testing.assert_allclose(sampling_logprobs, np.log(probs[tokens]), atol=1e-5)
  np.testing.assert_allclose(logprobs, scipy.special.log_softmax(logits)[tokens], atol=1e-5)


def test_shortlisted_draws_follow_the_filtered_distribution():
  logits = np.linspace(0, -150, LONG, dtype=np.float32)[np.random.default_rng(0).permutation(LONG)]
  kept, certain = kept_tokens(logits, top_p=.7)
  assert certain.all() and 3 < kept.sum() < 10
  n = 3000
  uniforms = np.random.default_rng(7).uniform(1e-7, 1 - 1e-7, (n, LONG)).astype(np.float32)
  tokens, _, sampling_logprobs = draw(uniforms, np.tile(logits, (n, 1)), params(LONG, top_p=.7))
  probs = scipy.special.softmax(np.where(kept, logits, -np.inf).astype(np.float64))
  counts = np.bincount(tokens, minlength=LONG)
  assert counts[~kept].sum() == 0
  assert scipy.stats.chisquare(counts[kept], n * probs[kept]).pvalue > 1e-3
  np.testing.assert_allclose(sampling_logprobs, np.log(probs[tokens]), atol=1e-5)


@pytest.mark.parametrize('stop_ids', [(), (4,), (0,), (151_643, 151_645), (1, 2, 3, 5, 7, 11, 13, 17)])
def test_any_stop_id_stops_and_no_other_token(stop_ids):
  tokens = np.array([0, 1, 2, 3, 4, 5, 7, 11, 13, 17, 151_643, 151_645, 151_644, 151_935], np.int32)
  actual = is_stop(tokens, params(151_936, stop_ids))
  np.testing.assert_array_equal(actual, np.isin(tokens, stop_ids))


def test_settings_are_traced():
  settings = [dict(temperature=0), dict(top_k=2, stop_ids=(1, 2)), dict(top_p=.5, min_p=.5), dict(temperature=2)]
  program = jax.jit(lambda *args: draw_token(*args))
  for s in settings:
    program(np.full((1, 3), .5, np.float32), np.zeros((1, 3), np.float32), params(3, **s))
  assert program._cache_size() == 1


@pytest.mark.parametrize('settings, message', [
    (dict(temperature=-1), 'sampling.temperature=-1 must be finite and at least 0'),
    (dict(temperature=float('nan')), 'sampling.temperature=nan must be finite'),
    (dict(temperature=float('inf')), 'sampling.temperature=inf must be finite'),
    (dict(top_k=-1), 'sampling.top_k=-1 must be a whole number of at least 0'),
    (dict(top_k=2.5), 'sampling.top_k=2.5 must be a whole number'),
    (dict(top_p=1.1), r'sampling.top_p=1.1 must lie in \[0, 1\]'),
    (dict(top_p=float('nan')), r'sampling.top_p=nan must lie in \[0, 1\]'),
    (dict(min_p=-.1), r'sampling.min_p=-0.1 must lie in \[0, 1\]'),
    (dict(stop_ids=tuple(range(9))), r'stop_ids=\(0, 1, .*\) must hold at most 8 ids'),
    (dict(stop_ids=(3, 10)), r'stop id 10 of stop_ids=\(3, 10\) must be a token of the vocabulary, 0 to 9'),
    (dict(stop_ids=(-1,)), r'stop id -1 of stop_ids=\(-1,\) must be')])
def test_error_names_field_value_and_rule(settings, message):
  with pytest.raises(ValueError, match=message):
    params(10, **settings)
