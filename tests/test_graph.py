import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph

TRIANGLE = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])


def test_counts():
    # 0 - 1 (weight 2), 1 - 2, and 2 linked to itself; 3 is alone.
    adjacency = np.array([[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    graph = Graph(adjacency, features=np.ones((4, 5)), labels=[1, -1, 0, -1])
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (4, 2, 5, 2)
    assert graph.mean_degree == 5 / 4  # neighbours: 1, 2, 2 (itself is one), 0
    assert graph.known.tolist() == [0, 2]
    assert graph.label_counts.tolist() == [1, 1]
    assert graph.class_names == ("0", "1")


def test_duplicate_and_zero_edges():
    rows, columns, weights = [0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1], [1, 2, 1, 2, 0, 0]
    graph = Graph(sp.coo_array((weights, (rows, columns)), shape=(3, 3)))
    assert graph.adjacency.toarray().tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert graph.num_edges == 1


def test_defaults():
    graph = Graph(TRIANGLE)
    assert graph.labels.tolist() == [-1, -1, -1]
    assert graph.node_ids.tolist() == [0, 1, 2]
    assert (graph.num_classes, graph.num_features) == (0, 0)


def test_class_without_nodes():
    graph = Graph(TRIANGLE, labels=[0, 1, -1], class_names=("a", "b", "c"))
    assert graph.num_classes == 3
    assert graph.label_counts.tolist() == [1, 1, 0]


def test_arrays_are_copied():
    adjacency, features, labels = TRIANGLE.astype(np.float32), np.ones((3, 2), np.float32), np.array([0, 1, -1])
    graph = Graph(adjacency, features, labels)
    adjacency[:], features[:], labels[:] = 0, 7, 0
    assert graph.adjacency.toarray().tolist() == TRIANGLE.tolist()
    assert graph.features.tolist() == [[1, 1]] * 3
    assert graph.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("sparse", [True, False])
def test_graph_is_frozen(sparse):
    features = np.ones((3, 2))
    graph = Graph(TRIANGLE, features=sp.csr_array(features) if sparse else features, labels=[0, 1, -1])
    parts = [graph.labels, graph.node_ids, graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr]
    parts.append(graph.features.data if sparse else graph.features)
    for part in parts:
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.labels = np.zeros(3)


def test_without_labels():
    graph = Graph(TRIANGLE, np.ones((3, 2)), [0, 1, -1], ["x", "y", "z"], ("a", "b"), "three")
    bare = graph.without_labels
    assert bare.labels.tolist() == [-1, -1, -1]
    assert len(bare.known) == 0
    assert (bare.class_names, bare.name, bare.num_classes) == (("a", "b"), "three", 2)
    assert bare.node_ids.tolist() == ["x", "y", "z"]
    assert (bare.adjacency != graph.adjacency).nnz == 0
    assert np.array_equal(bare.features, graph.features)
    assert graph.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adjacency": np.ones((2, 3))}, r"shape \(2, 3\); give a square"),
        ({"adjacency": np.zeros((0, 0))}, "0 nodes"),
        ({"adjacency": [[0, -1], [-1, 0]]}, "weight -1; weights must be >= 0"),
        ({"adjacency": [[0, np.nan], [np.nan, 0]]}, "NaN or infinite"),
        ({"adjacency": [[0, np.inf], [np.inf, 0]]}, "NaN or infinite"),
        ({"adjacency": [[0, 1], [0, 0]]}, "not symmetric"),
        ({"adjacency": [[0, 1], [2, 0]]}, "not symmetric"),
        ({"features": np.ones((2, 4))}, r"features of shape \(2, 4\) for 3 nodes"),
        ({"features": np.ones(3)}, "one row per node"),
        ({"features": [[1.0], [np.nan], [1.0]]}, "feature of node 1 is NaN"),
        ({"features": sp.csr_array([[1.0], [0.0], [np.inf]])}, "feature of node 2 is NaN or infinite"),
        ({"labels": [0, 1]}, r"labels of shape \(2,\) for 3 nodes"),
        ({"labels": [0, 1, -2]}, "label -2"),
        ({"labels": [0.0, 1.0, 0.0]}, "labels of type float64"),
        ({"labels": [0, 1, 2], "class_names": ("a", "b")}, "label 2 but only 2 class names"),
        ({"name": 5}, "graph name '5' of type int; give text"),
        ({"name": "x" * 1001}, "has 1001 characters; give names of at most 1000"),
        ({"node_ids": ["a", "b"]}, r"node ids of shape \(2,\)"),
    ],
)
def test_invalid_graphs(given, message):
    with pytest.raises(InputError, match=message):
        Graph(**{"adjacency": TRIANGLE, **given})


def test_name_is_writable():
    assert Graph(TRIANGLE, name="café \udcff.csv").name == "café \\udcff.csv"


def test_duplicate_ids():
    with pytest.raises(InputError, match="node id"):
        Graph(TRIANGLE, node_ids=["a", "b", "a"])


def test_indices_take_32_bits():
    pair = sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.float32))
    wide = sp.csr_array((pair.data, pair.indices.astype(np.int64), pair.indptr.astype(np.int64)), shape=(2, 2))
    adjacency = Graph(wide).adjacency
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    np.testing.assert_array_equal(adjacency.toarray(), pair.toarray())
    assert wide.indices.dtype == np.int64  # whoever gave it keeps what they have
