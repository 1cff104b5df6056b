"""Labels and graphs of every kind that a person may hand to `fit`."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import InputError

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier that is done in a moment."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


# ---- labels


@pytest.mark.parametrize("missing", [None, "", float("nan")], ids=["None", "empty", "NaN"])
@pytest.mark.parametrize("as_array", [False, True], ids=["list", "array"])
def test_named_classes(blobs, missing, as_array):
    rows, y, truth = blobs
    names = np.array(["ant", "bee", "crane fly"])
    given = [missing if label == -1 else str(names[label]) for label in y]
    model = quick().fit(rows, np.array(given, dtype=object) if as_array else given)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.classes_.dtype.kind == "U"
    assert (model.transduction_ == names[truth]).mean() > 0.9
    assert model.graph_.class_names == tuple(names)
    assert model.score(rows, [*names[truth][:30], *[missing] * 30]) > 0.9


@pytest.mark.parametrize("names", [("1_23", "12_3"), ("007", "7"), ("1", "1.0"), ("1", "+1"), ("1e3", "1000")])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), np.array], ids=["list", "object", "text"])
def test_names_that_look_like_one_number_are_two(ring, names, kind):
    rows, _, _, edges = ring
    model = quick("lp", settings=None).fit(rows, kind([*names, *[""] * 14]), np.hstack([edges, edges[::-1]]))
    assert model.classes_.tolist() == sorted(names)


def test_numbers_that_floats_cannot_tell_apart_are_refused(ring):
    rows, _, _, edges = ring
    edges = np.hstack([edges, edges[::-1]])
    with pytest.raises(InputError, match="label 9007199254740992 is too large to tell from its neighbours; give names"):
        quick("lp", settings=None).fit(rows, [2**53, 2**53 + 1, 1.0, *[-1] * 13], edges)
    whole = quick("lp", settings=None).fit(rows, [2**53, 2**53 + 1, *[-1] * 14], edges)
    assert whole.classes_.tolist() == [2**53, 2**53 + 1]


def test_whole_numbers_as_floats_with_nan_for_unknown(blobs):
    rows, y, _ = blobs
    model = quick().fit(rows, np.where(y == -1, np.nan, y * 10.0))
    np.testing.assert_array_equal(model.classes_, [0.0, 10.0, 20.0])


def test_booleans_are_two_classes(blobs):
    rows, _, truth = blobs
    np.testing.assert_array_equal(quick().fit(rows, truth == 0).classes_, [False, True])


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (None, "y is None"),
        ([-1] * 60, "no node is labelled"),
        ([1, 1] + [-1] * 58, "one class only, 1, and 2 are the least"),
        ([0.5, 1] + [-1] * 58, "for instance 0.5; give whole numbers"),
        ([0, np.inf] + [-1] * 58, "contains infinity"),
        (["a", 1] + [None] * 58, "types int, str; give names alone"),
        ([0, 1] + [-1] * 50, "inconsistent numbers of samples"),
        (np.zeros((60, 2)), "1d array"),
    ],
)
def test_bad_labels_are_one_clear_error(blobs, labels, complaint):
    rows, _, _ = blobs
    with pytest.raises(ValueError, match=complaint):
        quick().fit(rows, labels)


# ---- graphs


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)


def networkx_graph(edges):
    graph = nx.Graph()
    graph.add_nodes_from(range(16))
    graph.add_edges_from(edges.T.tolist())
    return graph


GRAPHS = {
    "scipy": adjacency_of,
    "scipy coo, both directions not listed": lambda edges: sp.coo_matrix((np.ones(16), tuple(edges)), shape=(16, 16)),
    "dense": lambda edges: adjacency_of(edges).toarray(),
    "nested lists": lambda edges: adjacency_of(edges).toarray().tolist(),
    "edge index": lambda edges: edges,
    "edge index, torch": torch.from_numpy,
    "edge index, listed twice": lambda edges: np.concatenate([edges, edges[::-1], edges], axis=1),
    "sparse tensor": lambda edges: torch.from_numpy(adjacency_of(edges).toarray()).to_sparse_coo(),
    "networkx": networkx_graph,
    "Graph": lambda edges: Graph(adjacency=adjacency_of(edges)),
}


@pytest.mark.filterwarnings("ignore::mtgcn.errors.GraphNote")
@pytest.mark.parametrize("form", GRAPHS)
def test_a_graph_may_come_in_many_forms(ring, form):
    rows, y, _, edges = ring
    model = quick(scale=False).fit(rows, y, graph=GRAPHS[form](edges))
    np.testing.assert_array_equal(model.graph_.adjacency.toarray(), adjacency_of(edges).toarray())
    np.testing.assert_allclose(model.graph_.features, rows, rtol=1e-6)


def test_pyg_data(ring):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    rows, y, _, edges = ring
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    data = Data(x=torch.from_numpy(rows).float(), edge_index=both)
    by_parts, alone = quick().fit(rows, y, graph=data), quick().fit(None, y, graph=data)
    np.testing.assert_array_equal(by_parts.graph_.adjacency.toarray(), adjacency_of(edges).toarray())
    np.testing.assert_array_equal(alone.label_distributions_, by_parts.label_distributions_)


def test_node_ids_come_along(ring):
    _, y, _, edges = ring
    named = nx.relabel_nodes(networkx_graph(edges), {node: f"n{node}" for node in range(16)})
    model = quick().fit(None, y, graph=named)
    assert list(model.graph_.node_ids) == [f"n{node}" for node in range(16)]


def test_sparse_tables_are_taken_as_they_are(blobs):
    rows, y, _ = blobs
    rows = rows - rows.min()
    dense, sparse = quick(scale=False).fit(rows, y), quick().fit(sp.csr_matrix(rows), y)
    assert sp.issparse(sparse.graph_.features)
    np.testing.assert_allclose(sparse.label_distributions_, dense.label_distributions_, atol=1e-3)
    new = rows[:7] + 0.5
    np.testing.assert_allclose(sparse.predict_proba(new), dense.predict_proba(sp.csr_array(new)), atol=1e-3)


@pytest.mark.parametrize(
    ("graph", "complaint"),
    [
        (np.ones((16, 15)), r"shape \(16, 15\)"),
        (np.ones((17, 17)), "the graph has 17 nodes and X has 16 rows; give one for each node"),
        (-np.ones((16, 16)), "weight -1"),
        (np.array([[0, 1], [1, 99]]), "99"),
        (np.array([["a", "b"], ["b", "a"]]), "graph of type <U1"),
        ("edges.csv", "graph of type str; give a scipy matrix"),
    ],
)
def test_bad_graphs_are_one_clear_error(ring, graph, complaint):
    rows, y, _, _ = ring
    with pytest.raises(InputError, match=complaint):
        quick().fit(rows, y, graph=graph)
