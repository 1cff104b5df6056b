"""Rows of Planetoid's files go to the nodes they describe, by hand on six nodes."""

import numpy as np
import scipy.sparse as sp

from mtgcn.datasets.dataset import undirected
from mtgcn.datasets.planetoid import _classes, _placed
from mtgcn.graph import UNKNOWN

DESCRIBED = np.array([0, 1, 2, 5, 3])  # test.index is "5 3": not sorted, and nothing is said of node 4


def test_rows_follow_the_index_and_gaps_stay_zero() -> None:
    rows = sp.csr_matrix(np.array([[1, 0], [2, 0], [3, 0], [0, 4], [0, 5]], dtype=np.float32))
    placed = _placed(rows, DESCRIBED, nodes=6)
    np.testing.assert_array_equal(placed.toarray(), [[1, 0], [2, 0], [3, 0], [0, 5], [0, 0], [0, 4]])
    assert placed.dtype == np.float32


def test_a_node_without_label_is_not_of_class_0() -> None:
    one_hot = np.array([[1, 0], [0, 1], [0, 0], [0, 1], [1, 0]])  # node 2 has a row, but no class in it
    np.testing.assert_array_equal(_classes(one_hot, DESCRIBED, nodes=6), [0, 1, UNKNOWN, 0, UNKNOWN, 1])


def test_edges_count_once_however_they_are_listed() -> None:
    adjacency = undirected(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), nodes=3)
    np.testing.assert_array_equal(adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
