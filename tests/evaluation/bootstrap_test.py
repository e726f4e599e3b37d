import numpy as np

from vpo_jax.evaluation import bootstrap


def test_shares_are_resamples():
  shares = bootstrap.resample_shares(7, resamples=50)
  np.testing.assert_allclose(shares.sum(axis=1), 1)
  np.testing.assert_allclose(shares * 7, np.round(shares * 7), atol=1e-12)
  np.testing.assert_array_equal(shares, bootstrap.resample_shares(7, resamples=50))


def test_interval_of_a_mean_is_the_normal_one():
  values = np.random.default_rng(1).normal(size=400)
  low, high = bootstrap.interval(bootstrap.resample_shares(400, resamples=20000) @ values)
  half = 1.96 * values.std() / 20
  np.testing.assert_allclose([low, high], [values.mean() - half, values.mean() + half], atol=.1 * half)
