import datetime
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from mtgcn import Graph, MutualTeachingClassifier, load
from mtgcn.errors import GraphNote, InputError
from mtgcn.estimator.inputs import as_graph, check_learnable, classes_and_labels, fitted_table, preprocessed_graph
from mtgcn.estimator.persistence import load_model, save_model
from small_models import adjacency_of, quick

# ---- labels


@pytest.mark.parametrize("missing", [None, "", float("nan")], ids=["None", "empty", "NaN"])
@pytest.mark.parametrize("as_array", [False, True], ids=["list", "array"])
def test_named_classes(missing, as_array):
    given = ["crane fly", missing, "ant", "bee", missing]
    classes, codes = classes_and_labels(np.array(given, dtype=object) if as_array else given)
    assert classes.tolist() == ["ant", "bee", "crane fly"]
    assert classes.dtype.kind == "U"
    assert codes.tolist() == [2, -1, 0, 1, -1]


@pytest.mark.parametrize("names", [("1_23", "12_3"), ("007", "7"), ("1", "+1"), ("1e3", "1000")])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), np.array], ids=["list", "object", "text"])
def test_names_that_are_no_numbers_stay_apart(names, kind):
    assert classes_and_labels(kind([*names, ""]))[0].tolist() == sorted(names)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([2**53, 2**53 + 1, -1], [2**53, 2**53 + 1]),
        ([0.0, np.nan, 20.0, 10.0], [0.0, 10.0, 20.0]),
        (np.array([True, False]), [False, True]),
    ],
)
def test_numeric_classes(y, classes):
    found, _ = classes_and_labels(y)
    assert found.tolist() == classes
    assert found.dtype == np.asarray(classes).dtype


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "y is None"),
        ([0.5, 1] + [-1] * 58, "such as 0.5; give whole numbers"),
        ([0, np.inf] + [-1] * 58, "contains infinity"),
        ([2**53, 2**53 + 1, 1.0] + [-1] * 57, "label 9007199254740992 exceeds"),
        (["a", 1] + [None] * 58, "types int, str; give names alone"),
        ([0, 1] + [-1] * 50, "inconsistent numbers of samples"),
        (np.zeros((60, 2)), "1d array"),
    ],
)
def test_invalid_labels(blobs, labels, message):
    rows, _, _ = blobs
    with pytest.raises(ValueError, match=message):
        quick().fit(rows, labels)


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
    "pairs, array": lambda edges: edges.T,
    "pairs, list": lambda edges: [tuple(pair) for pair in edges.T.tolist()],
    "pairs, text": lambda edges: edges.T.astype(str),
    "pandas": lambda edges: pd.DataFrame(edges.T),
    "polars": lambda edges: pl.DataFrame(edges.T, schema=["a", "b"]),
    "pyarrow, named": lambda edges: pa.table(
        {"to": edges[1], "weight": np.ones(16), "more": edges[0], "from": edges[0]}
    ),
    "Graph": lambda edges: Graph(adjacency=adjacency_of(edges)),
}


@pytest.mark.filterwarnings("ignore::mtgcn.errors.GraphNote")
@pytest.mark.parametrize("form", GRAPHS)
def test_graph_types(ring, form):
    rows, _, _, edges = ring
    graph = as_graph(GRAPHS[form](edges), len(rows))
    np.testing.assert_array_equal(graph.adjacency.toarray(), adjacency_of(edges).toarray())


def test_features_of_graph_objects(ring):
    rows, y, _, edges = ring
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    data = SimpleNamespace(x=torch.from_numpy(rows), edge_index=both, num_nodes=16)  # like PyG's Data
    by_parts, alone = quick().fit(rows, y, graph=data), quick().fit(None, y, graph=data)
    np.testing.assert_allclose(alone.label_distributions_, by_parts.label_distributions_, atol=1e-5)
    named = nx.relabel_nodes(networkx_graph(edges), {node: f"n{node}" for node in range(16)})
    assert as_graph(named, None).node_ids.tolist() == [f"n{node}" for node in range(16)]


def test_networkx_nodes_are_matched_with_rows(ring):
    rows, y, _, edges = ring
    graph = networkx_graph(edges)
    expected = quick("lp", settings=None).fit(rows, y, graph=graph)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(np.random.default_rng(1).permutation(16).tolist())
    shuffled.add_edges_from(graph.edges)
    named = nx.relabel_nodes(shuffled, {node: f"n{node}" for node in range(16)})
    frame = pd.DataFrame(rows, index=[f"n{node}" for node in range(16)])
    for form, data in ((shuffled, rows), (named, frame), (named, pd.Series(y, frame.index))):
        np.testing.assert_array_equal(as_graph(form, 16, data).adjacency.toarray(), adjacency_of(edges).toarray())
    found = quick("lp", settings=None).fit(frame[::-1], y[::-1], graph=named)
    np.testing.assert_allclose(found.label_distributions_[::-1], expected.label_distributions_, atol=1e-5)
    with pytest.raises(InputError, match="neither a row number from 0 to 15 nor in the index of X"):
        quick().fit(rows, y, graph=named)


def test_edges_by_the_index_of_rows(ring):
    rows, y, _, edges = ring
    names = [f"n{node}" for node in range(16)]
    pairs = [(names[one], names[other]) for one, other in edges.T]
    frame = pd.DataFrame(rows, index=names)
    for graph in (pairs, pd.DataFrame(pairs), pl.DataFrame(pairs, schema=["a", "b"], orient="row")):
        found = as_graph(graph, 16, frame)
        np.testing.assert_array_equal(found.adjacency.toarray(), adjacency_of(edges).toarray())
        assert found.node_ids.tolist() == names
    model = quick("lp", settings=None).fit(frame, y, graph=pairs)
    assert (model.has_node_ids_, model.predictions()["id"].tolist()) == (True, names)
    assert not quick("lp", settings=None).fit(rows, y, graph=edges.T).has_node_ids_
    weights = pd.DataFrame({"source": ["n0", "n1"], "target": ["n1", "n2"], "weight": [0.5, 3]})
    assert as_graph(weights, 16, frame).adjacency[[0, 1], [1, 2]].tolist() == [0.5, 3]


def test_edges_without_rows(ring):
    """Nodes without an edge are counted by y."""
    _, y, _, _ = ring
    assert quick("lp", settings=None).fit(None, y, graph=[(0, 1), (8, 9), (1, 2)]).graph_.num_nodes == 16


def test_two_by_two(ring):
    """Two rows of node numbers, unless there are two nodes: then a matrix."""
    square = np.array([[0, 1], [2, 3]])
    assert sp.triu(as_graph(square, 4).adjacency).nnz == 2
    assert as_graph(square, 4).adjacency[0, 2] == 1
    with pytest.warns(GraphNote, match="not symmetric"):
        assert as_graph(square, 2).adjacency[0, 1] == 2


@pytest.mark.parametrize("kind", [int, float, bool, str])
def test_classes_keep_their_type(ring, kind, tmp_path):
    rows, y, _, edges = ring
    y = np.where(y == -1, np.arange(16) // 8, y).astype(kind)
    by_arrays = quick("lp", settings=None).fit(rows, y, graph=adjacency_of(edges))
    for graph in (
        Graph.from_scipy(adjacency_of(edges), rows, y),
        Graph.from_edge_index(np.concatenate([edges, edges[::-1]], 1), rows, y),
        by_arrays.graph_,
    ):
        model = quick("lp", settings=None).fit_graph(graph)
        assert model.classes_.dtype.kind == y.dtype.kind or kind is float  # whole numbers
        assert (model.transduction_ == y).all()
        save_model(model, tmp_path / "model")
        assert load_model(tmp_path / "model").graph_.classes.dtype == model.classes_.dtype
    codes = Graph(adjacency_of(edges), rows, np.arange(16) // 8)
    assert quick("lp", settings=None).fit_graph(codes).classes_.tolist() == [0, 1]
    assert quick("lp", settings=None).fit_graph(replace(codes, class_names=("a", "b"))).classes_.tolist() == ["a", "b"]


def test_masked_arrays(ring):
    rows, y, _, edges = ring
    hidden = np.ma.masked_array(np.arange(16) // 8, y == -1)
    assert classes_and_labels(hidden)[1].tolist() == y.tolist()
    table = np.ma.masked_array(rows, rows > 0.9)
    expected = quick().fit(np.where(rows > 0.9, np.nan, rows), y, graph=adjacency_of(edges))
    model = quick().fit(table, hidden, graph=adjacency_of(edges))
    np.testing.assert_array_equal(model.label_distributions_, expected.label_distributions_)
    np.testing.assert_array_equal(model.predict_proba(table[:3]), model.label_distributions_[:3])


def test_sparse_tables_are_not_scaled(blobs):
    rows, y, _ = blobs
    rows = rows - rows.min()
    dense, sparse = quick(scale=False).fit(rows, y), quick().fit(sp.csr_matrix(rows), y)
    assert sp.issparse(sparse.graph_.features)
    np.testing.assert_allclose(sparse.label_distributions_, dense.label_distributions_, atol=1e-3)
    new = rows[:7] + 0.5
    np.testing.assert_allclose(sparse.predict_proba(new), dense.predict_proba(sp.csr_array(new)), atol=1e-3)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((16, 15)), r"shape \(16, 15\)"),
        (np.ones((17, 17)), "the graph has 17 nodes and X has 16 rows; give one for each node"),
        (-np.ones((16, 16)), "weight -1"),
        (np.array([[0, 1], [1, 99]]), "99"),
        (np.array([["a", "b"], ["b", "a"]]), "node 'a' of the edges is neither a row number"),
        ([[0, 1], [2]], "rows of different lengths"),
        (np.array([["a", "b", "c"]]), "graph of type <U1"),
        (pd.DataFrame({"a": [0, 3], "b": [1, 16]}), "node '16' of the edges is neither a row number from 0 to 15 nor"),
        (pd.DataFrame({"a": [0, None], "b": [1, 2]}), "an id is missing or a fraction"),
        (pd.DataFrame({"a": [0, "x"], "b": [1, 2]}), "node 'x' of the edges is neither a row number"),
        (pd.DataFrame({"a": [0], "b": [1], "weight": ["x"]}), "edges cannot be read .* numbers as weights"),
        (pd.DataFrame({"a": [], "b": []}), "edge_index has no edges"),
        (pd.DataFrame(np.eye(16)), r"edges of shape \(16, 16\); give pairs of ids"),
        ("edges.csv", "graph of type str; give a scipy matrix"),
        (np.full((16, 16), 1e20), r"an edge weight of size 1e\+20, the limit is 1e\+15; scale all of them down"),
    ],
)
def test_invalid_graphs(ring, graph, message):
    rows, y, _, edges = ring
    with pytest.raises(InputError, match=message):
        quick().fit(rows, y, graph=graph)
    with pytest.raises(InputError, match="the graph has 16 nodes and y has 10 labels; give one for each node"):
        quick().fit(None, y[:10], graph=adjacency_of(edges))


def test_magnitude_limit(ring):
    rows, y, _, _ = ring
    with pytest.raises(InputError, match=r"a feature of size 1e\+20, the limit is 1e\+15; scale all of them down"):
        quick().fit(np.where(rows == rows.max(), -1e20, rows), y)
    with pytest.raises(InputError, match="the limit is 1e"):
        quick().fit(1e300 * rows, y)


@pytest.mark.parametrize(
    ("names", "counts", "nodes", "message"),
    [
        ([], [], None, "no node is labelled; label nodes of at least two classes"),
        ([7], [3], None, "all labels are of one class, '7'"),
        (["a", "b"], [2, 0], None, "class 'b' has no labelled node; label at least one, or remove the class"),
        (["a", "b"], [2, 1], 3, "all 3 nodes are labelled, so there is nothing to predict"),
    ],
)
def test_check_learnable(names, counts, nodes, message):
    with pytest.raises(InputError, match=message):
        check_learnable(names, counts, nodes)
    check_learnable(["a", "b"], [1, 2], 4)


ROWS = 60
gcn = partial(quick, "gcn", settings={"epochs": 30})


def people():
    """Two classes of people in mixed columns; the last two columns are uninformative."""
    random = np.random.default_rng(0)
    kind = np.arange(ROWS) % 2
    columns = {
        "income": np.where(random.random(ROWS) < 0.1, np.nan, random.normal(30000 + 30000 * kind, 6000)),
        "rating": random.normal(2 + kind, 0.3),
        "city": [("Köln", "Ulm", None)[int(place)] for place in (kind + (random.random(ROWS) < 0.2)) % 3],
        "joined": [datetime.date(2020 + one, 1, 1 + row % 28) for row, one in enumerate(kind.tolist())],
        "member": (kind == 1) ^ (random.random(ROWS) < 0.1),
        "notes": [f"note-{number}" for number in range(ROWS)],
        "country": ["DE"] * ROWS,
    }
    return columns, kind, np.where(np.arange(ROWS) < 8, kind, -1)


@pytest.mark.parametrize("package", [pd, pl])
def test_data_frames(package, tmp_path):
    columns, kind, y = people()
    frame = package.DataFrame(columns)
    model = gcn().fit(frame, y)
    assert (model.transduction_ == kind).mean() > 0.9
    assert model.n_features_in_ == 7
    assert model.feature_names_in_.tolist() == list(columns)
    assert model.graph_.preprocessing.lines()[-2:] == [
        "notes: left out, 60 different values",
        "country: left out, always 'DE'",
    ]
    np.testing.assert_array_equal(model.predict_proba(frame), model.label_distributions_)
    new = frame[8:20] if package is pl else frame.iloc[8:20]
    np.testing.assert_array_equal(model.predict_proba(new), model.label_distributions_[8:20])
    save_model(model, tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert loaded.graph_.preprocessing == model.graph_.preprocessing
    assert loaded.n_features_in_ == 7
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    unseen = package.DataFrame(
        {"income": [float("nan")], "rating": [90.0], "city": ["Paris"], "joined": [None], "member": [None]}
        | {"notes": ["x"], "country": ["FR"]}
    )
    with pytest.warns(GraphNote) as caught:
        assert np.isfinite(loaded.predict_proba(unseen)).all()
    outside, unknown, *others = sorted(str(one.message) for one in caught)
    assert outside.startswith("1 of 1 new rows have values far outside the range of the fit, for instance of 'rating'")
    assert unknown == "1 of 1 values of 'city' are unknown to the fit ('Paris') and were ignored"
    assert others == []
    empty = package.DataFrame({name: [None] * 2 if name == "city" else values[:2] for name, values in columns.items()})
    with pytest.warns(GraphNote, match="no row has a value in 'city', which the fit used; missing values are filled"):
        loaded.predict_proba(empty)


@pytest.mark.slow
def test_standardisation():
    random = np.random.default_rng(0)
    y = np.where(np.arange(40) < 6, np.arange(40) % 2, -1)
    measured = random.normal(0, 1, (40, 3)) * [1, 100, 10000]
    np.testing.assert_allclose(gcn().fit(measured, y).graph_.features.std(axis=0), 1, atol=1e-5)
    for unchanged in (
        gcn(scale=False).fit(measured, y),
        gcn().fit(sp.csr_array(measured), y),
        gcn().fit(random.poisson(2, (40, 3)), y),
        gcn().fit(load_digits().data[:40] / 16, y),
    ):
        assert unchanged.graph_.preprocessing is None
    np.testing.assert_array_equal(gcn(scale=False).fit(measured, y).graph_.features, measured.astype(np.float32))
    measured[3, 1] = np.nan  # is imputed, and marked in another column
    model = gcn().fit(measured, y)
    assert (model.n_features_in_, model.graph_.num_features) == (3, 4)
    np.testing.assert_array_equal(model.predict_proba(measured[2:5]), model.label_distributions_[2:5])
    with pytest.raises(ValueError, match="contains NaN"):
        gcn(scale=False).fit(measured, y)
    with pytest.raises(InputError, match=r"nothing can be learned from these columns .a: left out, always 'x'"):
        gcn().fit(pd.DataFrame({"a": ["x"] * 6}), [0, 1, -1, -1, -1, -1])


def test_timestamps_are_standardised_in_64_bits():
    moments = 1.7e9 + 2.0 * np.arange(40)[:, None]
    table, _ = fitted_table(MutualTeachingClassifier(), moments)
    expected = (np.arange(40) - 19.5) / np.arange(40).std()
    np.testing.assert_allclose(table[:, 0], expected, atol=1e-6)
    assert table.dtype == np.float32


def test_graph_features_are_standardised(ring):
    rows, y, _, edges = ring
    graph = Graph(adjacency_of(edges), rows * [1, 10, 1000], y, class_names=("a", "b"))
    model = gcn().fit_graph(graph)
    np.testing.assert_allclose(model.graph_.features.std(axis=0), 1, atol=1e-4)
    renamed = replace(graph, node_ids=np.arange(16) + 100)
    np.testing.assert_allclose(model.predict_proba(graph=renamed), model.label_distributions_, atol=1e-5)
    with pytest.raises(InputError, match="1 features for each node of the graph and 3 in training"):
        model.predict_proba(graph=replace(graph, features=graph.features[:, :1]))
    other = preprocessed_graph(replace(renamed, features=graph.features**2), scale=True)
    with pytest.raises(InputError, match=r"other preprocessing .*preprocessing=model.graph_.preprocessing"):
        model.predict_proba(graph=other)


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "digits"])
def test_named_datasets_are_unchanged(name):
    graph = load(name)
    assert preprocessed_graph(graph, scale=True) is graph
