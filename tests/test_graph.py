"""`Graph`, and graphs from matrices, edge lists, networkx and PyG."""

import dataclasses
import warnings

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import GraphNote, InputError
from mtgcn.graph import UNLABELED, Graph, networkx_nodes

TRIANGLE = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
PATH = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]])


def test_counts():
    # 0 - 1 (weight 2), 1 - 2, and a self-loop of 2; 3 is isolated.
    adjacency = np.array([[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    graph = Graph(adjacency, features=np.ones((4, 5)), labels=[1, -1, 0, -1])
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (4, 2, 5, 2)
    assert graph.mean_degree == 5 / 4  # neighbours: 1, 2, 2 (itself is one), 0
    assert (graph.known.tolist(), graph.label_counts.tolist()) == ([0, 2], [1, 1])
    assert graph.class_names == ("0", "1")


def test_defaults():
    graph = Graph(TRIANGLE)
    assert (graph.labels.tolist(), graph.node_ids.tolist()) == ([-1, -1, -1], [0, 1, 2])
    assert (graph.num_classes, graph.num_features) == (0, 0)


def test_duplicate_and_zero_edges():
    rows, columns, weights = [0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1], [1, 2, 1, 2, 0, 0]
    graph = Graph(sp.coo_array((weights, (rows, columns)), shape=(3, 3)))
    assert graph.adjacency.toarray().tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert graph.num_edges == 1


def test_class_without_nodes():
    graph = Graph(TRIANGLE, labels=[0, 1, -1], class_names=("a", "b", "c"))
    assert (graph.num_classes, graph.label_counts.tolist()) == (3, [1, 1, 0])


def test_arrays_are_copied():
    adjacency, features, labels = TRIANGLE.astype(np.float32), np.ones((3, 2), np.float32), np.array([0, 1, -1])
    graph = Graph(adjacency, features, labels)
    adjacency[:], features[:], labels[:] = 0, 7, 0
    assert graph.adjacency.toarray().tolist() == TRIANGLE.tolist()
    assert (graph.features.tolist(), graph.labels.tolist()) == ([[1, 1]] * 3, [0, 1, -1])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_graph_is_frozen(form):
    graph = Graph(TRIANGLE, form(np.ones((3, 2))), labels=[0, 1, -1])
    parts = [graph.labels, graph.node_ids, graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr]
    for part in (*parts, graph.features.data if sp.issparse(graph.features) else graph.features):
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.labels = np.zeros(3)


def test_without_labels():
    graph = Graph(TRIANGLE, np.ones((3, 2)), [0, 1, -1], ["x", "y", "z"], ("a", "b"), "three")
    bare = graph.without_labels
    assert (bare.labels.tolist(), len(bare.known)) == ([-1, -1, -1], 0)
    assert (bare.class_names, bare.name, bare.num_classes) == (("a", "b"), "three", 2)
    assert bare.node_ids.tolist() == ["x", "y", "z"]
    assert bare.adjacency is graph.adjacency
    assert bare.features is graph.features
    assert graph.labels.tolist() == [0, 1, -1]


OF_EDGES = Graph.from_edge_index
MATRIX, INDEX = {"adjacency": TRIANGLE}, {"edge_index": [[0, 1], [1, 0]]}


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Graph, MATRIX | {"adjacency": np.ones((2, 3))}, r"shape \(2, 3\); give a square"),
        (Graph, MATRIX | {"adjacency": np.ones((2, 2, 2))}, r"shape \(2, 2, 2\); give a square"),
        (Graph, MATRIX | {"adjacency": np.zeros((0, 0))}, "0 nodes"),
        (Graph, MATRIX | {"adjacency": [[0, -1], [-1, 0]]}, "weight -1; weights must be >= 0"),
        (Graph, MATRIX | {"adjacency": [[0, np.nan], [np.nan, 0]]}, "NaN or infinite"),
        (Graph, MATRIX | {"adjacency": [[0, np.inf], [np.inf, 0]]}, "NaN or infinite"),
        (Graph, MATRIX | {"adjacency": [[0, 1], [0, 0]]}, "not symmetric"),
        (Graph, MATRIX | {"adjacency": [[0, 1], [2, 0]]}, "not symmetric"),
        (Graph, MATRIX | {"features": np.ones((2, 4))}, r"features of shape \(2, 4\) for 3 nodes"),
        (Graph, MATRIX | {"features": np.ones(3)}, "one row per node"),
        (
            Graph,
            MATRIX | {"features": np.ones((3, 1), "m8[D]")},
            r"not a table of numbers \(they have type timedelta64",
        ),
        (Graph, MATRIX | {"features": [[1.0], [np.nan], [1.0]]}, "feature of node 1 is NaN"),
        (Graph, MATRIX | {"features": sp.csr_array([[1.0], [0.0], [np.inf]])}, "feature of node 2 is NaN or infinite"),
        (Graph, MATRIX | {"labels": [0, 1]}, r"labels of shape \(2,\) for 3 nodes"),
        (Graph, MATRIX | {"labels": [0, 1, -2]}, "label -2"),
        (Graph, MATRIX | {"labels": [0.0, 1.0, 0.0]}, "labels have type float64"),
        (Graph, MATRIX | {"labels": [0, 1, 2], "class_names": ("a", "b")}, "label 2 exceeds the 2 class names"),
        (Graph, MATRIX | {"name": 5}, "graph name '5' has type int; give text"),
        (Graph, MATRIX | {"name": "x" * 1001}, "has 1001 characters; give names of at most 1000"),
        (Graph, MATRIX | {"node_ids": ["a", "b"]}, r"node ids of shape \(2,\)"),
        (Graph, MATRIX | {"node_ids": ["a", "b", "a"]}, "node id .*'a'.* occurs twice"),
        (Graph.from_scipy, MATRIX | {"adjacency": np.zeros((3, 3))}, "the adjacency has no edges"),
        (Graph.from_scipy, MATRIX | {"adjacency": [["a", "b"], ["c", "d"]]}, "not a matrix of numbers"),
        (Graph.from_scipy, MATRIX | {"y": ["a", "b"]}, r"labels of shape \(2,\) for 3 nodes"),
        (Graph.from_scipy, MATRIX | {"y": ["a", "a", None]}, "y has one class only, 'a'"),
        (Graph.from_scipy, MATRIX | {"feature_names": ["f"]}, "1 feature names do not match 0 features"),
        (OF_EDGES, INDEX | {"edge_index": [[0, 1], [1, 2], [2, 0]]}, r"shape \(3, 2\).*; pass its transpose"),
        (OF_EDGES, INDEX | {"edge_index": [[0.5], [1.0]]}, "type float64; give two rows of whole numbers"),
        (OF_EDGES, INDEX | {"num_nodes": 1}, "edge 0 refers to node 1, but the 1 nodes are numbered from 0"),
        (OF_EDGES, INDEX | {"edge_index": np.zeros((2, 0), int), "num_nodes": 2}, "edge_index has no edges"),
        (OF_EDGES, INDEX | {"edge_weight": [1.0, -2.0]}, "edge 1 has weight -2; give finite weights >= 0"),
        (OF_EDGES, INDEX | {"edge_weight": [np.nan, 1.0]}, "edge 0 has weight nan"),
        (OF_EDGES, INDEX | {"edge_weight": [1.0]}, r"weights of shape \(1,\) for 2 edges"),
        (Graph.from_networkx, {"graph": nx.Graph()}, "has no nodes"),
        (Graph.from_networkx, {"graph": nx.empty_graph(3)}, "has no edges"),
        (Graph.from_networkx, {"graph": nx.path_graph(3), "label": "kind"}, "no node has an attribute 'kind'"),
        (Graph.from_networkx, {"graph": nx.path_graph(3), "weight": "w"}, "no edge has an attribute 'w'"),
        (Graph.from_networkx, {"graph": nx.path_graph(3), "features": ["f"]}, "node '0': attribute 'f' is 'None'"),
    ],
)
def test_invalid_graphs(make, given, message):
    with pytest.raises(InputError, match=message):
        make(**given)


def test_features_that_32_bits_round():
    timestamps = np.array([[1.7e9], [1.7e9 + 60], [1.7e9 + 120]])
    with pytest.warns(GraphNote, match="feature 0 varies by 120 around 1.7e.09, which 32-bit floats round; subtract"):
        Graph(TRIANGLE, timestamps)
    Graph(TRIANGLE, timestamps - timestamps.mean())
    assert Graph(TRIANGLE, np.array([["1.5"], ["200"], ["3"]])).features.tolist() == [[1.5], [200], [3]]


def test_name_is_writable():
    assert Graph(TRIANGLE, name="café \udcff.csv").name == "café \\udcff.csv"


def test_indices_take_32_bits():
    pair = sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.float32))
    wide = sp.csr_array((pair.data, pair.indices.astype(np.int64), pair.indptr.astype(np.int64)), shape=(2, 2))
    adjacency = Graph(wide).adjacency
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    assert adjacency.toarray().tolist() == pair.toarray().tolist()
    assert wide.indices.dtype == np.int64  # the given matrix is unchanged


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.csr_matrix, sp.coo_array, np.ndarray.tolist])
def test_from_scipy(form):
    graph = Graph.from_scipy(form(PATH), np.eye(3), ["b", None, "a"], node_ids=["x", "y", "z"], name="path")
    assert graph.adjacency.toarray().tolist() == PATH.tolist()
    assert graph.features.tolist() == np.eye(3).tolist()
    assert (graph.labels.tolist(), graph.class_names) == ([1, -1, 0], ("a", "b"))
    assert (graph.node_ids.tolist(), graph.name) == (["x", "y", "z"], "path")
    graph = Graph.from_scipy(form(PATH), y=[0, -1, 2], class_names=("a", "b", "c"))
    assert (graph.labels.tolist(), graph.class_names) == ([0, -1, 2], ("a", "b", "c"))


def test_directed_matrix():
    with pytest.warns(GraphNote, match="not symmetric; its edges are taken without direction") as notes:
        graph = Graph.from_scipy([[0, 3, 0], [1, 0, 0], [0, 4, 5]])
    assert notes[0].filename == __file__  # the note points at the call, not into the package
    assert graph.adjacency.toarray().tolist() == [[0, 3, 0], [3, 0, 4], [0, 4, 5]]


@pytest.mark.parametrize("form", [np.array, torch.tensor, list])
def test_from_edge_index(form):
    graph = Graph.from_edge_index(form([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_weight=form([2.0, 2, 1, 1]), num_nodes=4)
    assert graph.adjacency.toarray()[:3, :3].tolist() == PATH.tolist()
    assert graph.num_nodes == 4
    assert Graph.from_edge_index(form([[0, 1], [1, 0]]), np.ones((5, 1))).num_nodes == 5
    with pytest.warns(GraphNote, match="edge_index: 2 of 2 edges go one way, or weigh more one way"):
        graph = Graph.from_edge_index(form([[0, 1, 1, 1, 2], [1, 0, 2, 2, 2]]), edge_weight=form([2.0, 5, 3, 1, 1]))
    assert graph.adjacency.toarray().tolist() == [[0, 5, 0], [5, 0, 3], [0, 3, 1]]
    assert Graph.from_edge_index(form([[0, 6], [6, 0]])).num_nodes == 7


def test_from_pyg():
    pyg = pytest.importorskip("torch_geometric.data")
    data = pyg.Data(
        x=torch.eye(3),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_weight=torch.tensor([2.0, 2, 1, 1]),
        y=torch.tensor([1, 0, 2]),
        train_mask=torch.tensor([True, True, False]),
    )
    graph = Graph.from_pyg(data, name="three")
    assert graph.adjacency.toarray().tolist() == PATH.tolist()
    assert (graph.labels.tolist(), graph.num_classes, graph.num_features) == ([1, 0, 2], 3, 3)
    back = graph.to_pyg()
    assert back.validate()
    assert all(torch.equal(getattr(back, name), getattr(data, name)) for name in ("x", "edge_index", "y"))
    assert Graph.from_pyg(back).adjacency.toarray().tolist() == PATH.tolist()
    masked = Graph.from_pyg(data, mask="train_mask")
    assert masked.to_pyg().y.tolist() == [1, 0, -1]
    assert (masked.labels.tolist(), masked.class_names) == ([1, 0, -1], ("0", "1", "2"))
    data.x = torch.eye(3).to_sparse()
    assert np.array_equal(Graph.from_pyg(data).features.toarray(), np.eye(3))
    with pytest.raises(InputError, match="has no val_mask"):
        Graph.from_pyg(data, mask="val_mask")
    with pytest.raises(InputError, match="Data has no edge_index"):
        Graph.from_pyg(pyg.Data(x=torch.eye(3)))
    data.edge_index, data.edge_weight = torch.tensor([[0, 1], [1, 2]]), None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # each edge is listed once
        assert Graph.from_pyg(data).num_edges == 2
    data.edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    with pytest.warns(GraphNote, match="1 of 2 edges go one way"):
        Graph.from_pyg(data)


def test_from_networkx():
    graph = nx.Graph()
    graph.add_node("b", size=1, vector=[1.0, 2.0], label="x")
    graph.add_node("a", size=2, vector=[3.0, 4.0], label="y")
    graph.add_node("c", size=True, vector=np.array([5.0, 6.0]))
    graph.add_edge("b", "a", weight=3)
    found = Graph.from_networkx(graph)
    assert found.node_ids.tolist() == ["b", "a", "c"]
    row = dict(zip(found.feature_names, found.features[1].tolist(), strict=True))
    assert row == {"size": 2, "vector[0]": 3, "vector[1]": 4}
    assert (found.labels.tolist(), found.class_names) == ([0, 1, -1], ("x", "y"))
    assert found.adjacency[0, 1] == 3
    bare = Graph.from_networkx(graph, weight=False, label=False, features=[])
    assert (bare.num_features, bare.num_classes, bare.adjacency[0, 1]) == (0, 0, 1)


def test_networkx_nodes_in_the_order_of_rows():
    graph = nx.Graph([(2, 0), (0, 1), (1, 3)])
    found = Graph.from_networkx(graph)
    assert found.node_ids.tolist() == [0, 1, 2, 3]
    assert found.adjacency.toarray().tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert networkx_nodes(graph, rows=4) == [0, 1, 2, 3]
    assert networkx_nodes(graph, rows=4, index=[3, 1, 0, 2]) == [3, 1, 0, 2]
    named = nx.relabel_nodes(graph, {0: "a", 1: "b", 2: "c", 3: "d"})
    assert networkx_nodes(named, rows=4, index=["a", "b", "c", "d"]) == ["a", "b", "c", "d"]
    assert networkx_nodes(named) == ["c", "a", "b", "d"]
    assert Graph.from_networkx(named, nodes=["a", "b", "c", "d"]).adjacency.toarray().tolist()[0] == [0, 1, 1, 0]
    with pytest.raises(InputError, match="node 'c' of the networkx graph is neither a row number from 0 to 3 nor in"):
        networkx_nodes(named, rows=4, index=[0, 1, 2, 3])
    with pytest.raises(InputError, match="has 4 nodes, but others are listed"):
        Graph.from_networkx(named, nodes=["a", "b", "c", "c"])


def test_networkx_of_other_kinds():
    assert Graph.from_networkx(nx.karate_club_graph(), label="club").class_names == ("Mr. Hi", "Officer")
    assert Graph.from_networkx(nx.grid_2d_graph(2, 2)).node_ids.tolist() == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    assert Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1), (1, 1)])).adjacency.toarray().tolist() == [[0, 1], [1, 1]]
    with pytest.warns(GraphNote, match="the networkx graph: 2 of 2 edges go one way"):
        assert Graph.from_networkx(nx.DiGraph([(0, 1), (2, 1)])).num_edges == 2


def test_dropped_weights():
    edges = [[0, 1, 1, 2], [1, 0, 2, 1]]
    tiny = sp.csr_array(([1e-60, 1e-60, 1.0, 1.0], edges), shape=(3, 3))
    for read in (
        lambda: Graph.from_edge_index(edges, edge_weight=[1e-60, 1e-60, 1.0, 1.0]),
        lambda: Graph.from_scipy(tiny),
        lambda: Graph.from_scipy(tiny.toarray()),
    ):
        with pytest.warns(GraphNote, match=r": 2 of 4 edges have weight 0 and are dropped, 2 of them too small for 32"):
            assert read().num_edges == 1
    with pytest.warns(GraphNote, match="edge_index: 4 of 4 edges have weight 0 and are dropped, as all others"):
        assert Graph.from_edge_index(edges, edge_weight=[0.0] * 4).num_edges == 0
    assert Graph.from_edge_index(edges, edge_weight=[0.0, 0, 1, 1]).num_edges == 1  # some zeros are no surprise


def test_methods_see_no_cells():
    """The cells hold the target as written, also where it is hidden."""
    edges = np.array([[0, 1], [1, 0]])
    cells = pa.table({"id": ["a", "b"], "class": ["x", "y"]})
    for labels in ([0, 1], [UNLABELED, UNLABELED]):
        graph = Graph(edges, labels=labels, class_names=("x", "y"), cells=cells)
        assert graph.node_cells(1) == {"id": "b", "class": "y"}
        assert graph.without_labels.cells is None
        assert graph.with_labels([0, UNLABELED]).without_labels.cells is None
    with pytest.raises(InputError, match="cells have 2 rows for 3 nodes"):
        Graph(np.ones((3, 3)), cells=cells)
