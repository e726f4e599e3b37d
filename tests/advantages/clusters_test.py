import numpy as np
import pytest

from vpo_jax.advantages.clusters import cluster_ids


def test_ids_are_those_given_or_all_differ_and_none_is_junk():
  np.testing.assert_array_equal(cluster_ids(np.array([[3, 3]]), (1, 2)), [[3, 3]])
  alone = np.asarray(cluster_ids(None, (2, 120)))
  assert alone.shape == (2, 120) and len(np.unique(alone[1])) == 120 and (alone < 0).all()


@pytest.mark.parametrize('clusters', [np.zeros(2, int), np.zeros((2, 1), int), np.zeros((1, 2), np.float32)])
def test_ids_must_fit(clusters):
  with pytest.raises(ValueError, match='clusters'):
    cluster_ids(clusters, (1, 2))
