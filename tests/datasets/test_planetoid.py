"""Planetoid's files and Cora as text."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import planetoid
from mtgcn.datasets.dataset import undirected
from mtgcn.datasets.planetoid import _classes, _placed
from mtgcn.labels import UNLABELED
from mtgcn.splits import SPLIT_PARTS

DESCRIBED = np.array([0, 1, 2, 5, 3])  # test.index is "5 3": not sorted, and node 4 has no row


def test_rows_are_placed_by_index():
    rows = sp.csr_matrix(np.array([[1, 0], [2, 0], [3, 0], [0, 4], [0, 5]], dtype=np.float32))
    placed = _placed(rows, DESCRIBED, nodes=6)
    np.testing.assert_array_equal(placed.toarray(), [[1, 0], [2, 0], [3, 0], [0, 5], [0, 0], [0, 4]])
    assert placed.dtype == np.float32


def test_unlabelled_rows():
    one_hot = np.array([[1, 0], [0, 1], [0, 0], [0, 1], [1, 0]])  # node 2 has a row, but no class in it
    np.testing.assert_array_equal(_classes(one_hot, DESCRIBED, nodes=6), [0, 1, UNLABELED, 0, UNLABELED, 1])


def test_undirected():
    adjacency = undirected(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), nodes=3)
    np.testing.assert_array_equal(adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.data
def test_both_formats_of_cora_agree(real_files):
    pickled = planetoid.read("cora", real_files[0], planetoid.CORA_CLASSES)
    text = planetoid.read_cora_text(real_files[1])
    for one, other in (
        *((getattr(pickled.graph, part), getattr(text.graph, part)) for part in ("labels", "node_ids", "class_names")),
        *((getattr(pickled.public_split, part), getattr(text.public_split, part)) for part in SPLIT_PARTS),
    ):
        np.testing.assert_array_equal(one, other)
    assert (pickled.graph.adjacency != text.graph.adjacency).nnz == 0
    assert (pickled.graph.features != text.graph.features).nnz == 0
    assert pickled.edges_listed == text.edges_listed == 5429


def test_cora_order():
    papers = planetoid.planetoid_order()
    assert len(papers) == len(set(papers)) == 2708
