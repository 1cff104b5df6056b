"""Planetoid's files and Cora as text."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import planetoid
from mtgcn.datasets.dataset import undirected
from mtgcn.datasets.planetoid import _classes, _placed
from mtgcn.labels import UNLABELED

DESCRIBED = np.array([0, 1, 2, 5, 3])  # test.index is "5 3": not sorted, and nothing is said of node 4


def test_rows_are_placed_by_index() -> None:
    rows = sp.csr_matrix(np.array([[1, 0], [2, 0], [3, 0], [0, 4], [0, 5]], dtype=np.float32))
    placed = _placed(rows, DESCRIBED, nodes=6)
    np.testing.assert_array_equal(placed.toarray(), [[1, 0], [2, 0], [3, 0], [0, 5], [0, 0], [0, 4]])
    assert placed.dtype == np.float32


def test_unlabelled_rows() -> None:
    one_hot = np.array([[1, 0], [0, 1], [0, 0], [0, 1], [1, 0]])  # node 2 has a row, but no class in it
    np.testing.assert_array_equal(_classes(one_hot, DESCRIBED, nodes=6), [0, 1, UNLABELED, 0, UNLABELED, 1])


def test_undirected() -> None:
    adjacency = undirected(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), nodes=3)
    np.testing.assert_array_equal(adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.data
def test_both_formats_of_cora_agree(real_files: dict[str, bytes], real_text_files: dict[str, bytes]) -> None:
    pickled = planetoid.read("cora", real_files, planetoid.CORA_CLASSES)
    text = planetoid.read_cora_text(real_text_files)
    for matrix in ("adjacency", "features"):
        one, other = getattr(pickled.graph, matrix), getattr(text.graph, matrix)
        assert one.shape == other.shape
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    for array in ("labels", "node_ids"):
        np.testing.assert_array_equal(getattr(pickled.graph, array), getattr(text.graph, array))
    assert pickled.graph.class_names == text.graph.class_names
    assert pickled.edges_listed == text.edges_listed == 5429
    assert pickled.public_split is not None
    assert text.public_split is not None
    for nodes in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(pickled.public_split, nodes), getattr(text.public_split, nodes))


def test_cora_order() -> None:
    papers = planetoid.planetoid_order()
    assert len(papers) == len(set(papers)) == 2708
