"""Graphs from arrays, edge lists, networkx and PyG."""

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.graph import Graph
from mtgcn.graph_sources import GraphArrays, check_edges, merge_edges

PATH = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "form", [np.array, sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix, np.ndarray.tolist]
)
def test_from_scipy(form):
    graph = Graph.from_scipy(form(PATH), np.eye(3), ["b", None, "a"], node_ids=["x", "y", "z"], name="path")
    assert graph.adjacency.toarray().tolist() == PATH.tolist()
    assert graph.features.tolist() == np.eye(3).tolist()
    assert (graph.labels.tolist(), graph.class_names) == ([1, -1, 0], ("a", "b"))
    assert (graph.node_ids.tolist(), graph.name) == (["x", "y", "z"], "path")


def test_directed_matrix():
    with pytest.warns(
        GraphNote, match="the adjacency is not symmetric; its edges are taken without direction"
    ) as notes:
        graph = Graph.from_scipy([[0, 3, 0], [1, 0, 0], [0, 4, 5]])
    assert notes[0].filename == __file__  # it points at the call, not into the package
    assert graph.adjacency.toarray().tolist() == [[0, 3, 0], [3, 0, 4], [0, 4, 5]]


def test_class_names():
    graph = Graph.from_scipy(PATH, y=[0, -1, 2], class_names=("a", "b", "c"))
    assert (graph.labels.tolist(), graph.class_names) == ([0, -1, 2], ("a", "b", "c"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adjacency": np.ones((2, 3))}, r"adjacency of shape \(2, 3\); give a square matrix"),
        ({"adjacency": np.zeros((3, 3))}, "the adjacency holds no edge"),
        ({"adjacency": [["a", "b"], ["c", "d"]]}, "not a matrix of numbers"),
        ({"adjacency": [[0, -1, 0], [-1, 0, 0], [0, 0, 0]]}, "edge weight -1; weights must be >= 0"),
        ({"X": np.ones((2, 4))}, r"features of shape \(2, 4\) for 3 nodes"),
        ({"X": [[1.0], [np.nan], [2.0]]}, "a feature of node 1 is NaN"),
        ({"y": ["a", "b"]}, r"labels of shape \(2,\) for 3 nodes"),
        ({"y": ["a", "a", None]}, "y has one class only, 'a'"),
        ({"feature_names": ["f"]}, "1 feature names for 0 features"),
        ({"node_ids": ["a", "a", "b"]}, "occurs twice"),
    ],
)
def test_invalid_matrices(given, message):
    with pytest.raises(InputError, match=message):
        Graph.from_scipy(**{"adjacency": PATH, **given})


@pytest.mark.parametrize("form", [np.array, torch.tensor, list])
def test_from_edge_index(form):
    graph = Graph.from_edge_index(form([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_weight=form([2.0, 2, 1, 1]), num_nodes=4)
    assert graph.adjacency.toarray()[:3, :3].tolist() == PATH.tolist()
    assert graph.num_nodes == 4
    assert Graph.from_edge_index(form([[0, 1], [1, 0]]), np.ones((5, 1))).num_nodes == 5
    assert Graph.from_edge_index(form([[0, 6], [6, 0]])).num_nodes == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_index": [[0, 1], [1, 2], [2, 0]]}, r"edge_index of shape \(3, 2\).*; pass its transpose"),
        ({"edge_index": [[0.5], [1.0]]}, "type float64; give two rows of whole numbers"),
        ({"num_nodes": 1}, "edge 0 ends in node 1 and there are 1"),
        ({"edge_weight": [1.0]}, r"weights of shape \(1,\) for 2 edges"),
        ({"edge_weight": [1.0, -1.0]}, "edge 1 weighs -1"),
        ({"edge_index": np.zeros((2, 0), int), "num_nodes": 2}, "edge_index holds no edge"),
    ],
)
def test_invalid_edge_index(given, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edge_index(**{"edge_index": [[0, 1], [1, 0]], **given})


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
    seen = Graph.from_pyg(data, mask="train_mask")
    assert (seen.labels.tolist(), seen.class_names) == ([1, 0, -1], ("0", "1", "2"))  # a class may be unseen
    data.x = torch.eye(3).to_sparse()
    assert np.array_equal(Graph.from_pyg(data).features.toarray(), np.eye(3))
    with pytest.raises(InputError, match="without val_mask"):
        Graph.from_pyg(data, mask="val_mask")
    with pytest.raises(InputError, match="Data without edge_index"):
        Graph.from_pyg(pyg.Data(x=torch.eye(3)))
    data.edge_index, data.edge_weight = torch.tensor([[0, 1], [1, 2]]), None
    with pytest.warns(GraphNote, match="2 of 2 edges go one way"):
        assert Graph.from_pyg(data).num_edges == 2


def test_from_networkx():
    graph = nx.Graph()
    graph.add_node("b", size=1, vector=[1.0, 2.0], label="x")
    graph.add_node("a", size=2, vector=[3.0, 4.0], label="y")
    graph.add_node("c", size=True, vector=np.array([5.0, 6.0]))
    graph.add_edge("b", "a", weight=3)
    found = Graph.from_networkx(graph)
    assert found.node_ids.tolist() == ["b", "a", "c"]
    assert dict(zip(found.feature_names, found.features[1].tolist(), strict=True)) == {
        "size": 2,
        "vector[0]": 3,
        "vector[1]": 4,
    }
    assert (found.labels.tolist(), found.class_names) == ([0, 1, -1], ("x", "y"))
    assert found.adjacency[0, 1] == 3
    bare = Graph.from_networkx(graph, weight=False, label=False, features=[])
    assert (bare.num_features, bare.num_classes, bare.adjacency[0, 1]) == (0, 0, 1)


def test_networkx_of_other_kinds():
    assert Graph.from_networkx(nx.karate_club_graph(), label="club").class_names == ("Mr. Hi", "Officer")
    assert Graph.from_networkx(nx.grid_2d_graph(2, 2)).node_ids.tolist() == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    assert Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1), (1, 1)])).adjacency.toarray().tolist() == [[0, 1], [1, 1]]
    with pytest.warns(GraphNote, match="the networkx graph: 2 of 2 edges go one way"):
        assert Graph.from_networkx(nx.DiGraph([(0, 1), (2, 1)])).num_edges == 2


@pytest.mark.parametrize(
    ("graph", "choices", "message"),
    [
        (nx.Graph(), {}, "has no nodes"),
        (nx.empty_graph(3), {}, "holds no edge"),
        (nx.path_graph(3), {"label": "kind"}, "no node has an attribute 'kind'"),
        (nx.path_graph(3), {"weight": "w"}, "no edge has an attribute 'w'"),
        (nx.path_graph(3), {"features": ["f"]}, "node '0': attribute 'f' is 'None'"),
    ],
)
def test_invalid_networkx(graph, choices, message):
    with pytest.raises(InputError, match=message):
        Graph.from_networkx(graph, **choices)


def test_tables(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,2\nb,a,3\nb,c,1\nb,c,1\nc,c,4\n")
    (tmp_path / "nodes.csv").write_text("id,f1,f2\nc,1,2\nb,3,4\na,5,6\nalone,7,8\n")
    (tmp_path / "labels.csv").write_text("id,label\na,dog\nc,cat\nb,\n")
    with pytest.warns(GraphNote, match=r"edges.csv: 2 of 2 edges go one way, or weigh more one way") as notes:
        graph = read_graph(
            tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", labels=tmp_path / "labels.csv", name="zoo"
        )
    assert len(notes) == 1
    assert notes[0].filename == __file__
    assert graph.node_ids.tolist() == ["c", "b", "a", "alone"]
    assert graph.adjacency.toarray().tolist() == [[4, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert (graph.labels.tolist(), graph.class_names) == ([0, -1, 1, -1], ("cat", "dog"))
    assert (graph.feature_names, graph.without_labels.feature_names) == (("f1", "f2"), ("f1", "f2"))
    assert graph.name == "zoo"


@pytest.mark.parametrize("text", ["a,b\nb,c\n", "a,b\nb,a\nb,c\nc,b\n", "a,b\na,b\nb,c\n"])
def test_undirected_lists(tmp_path, text):
    (tmp_path / "edges.csv").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(tmp_path / "edges.csv").num_edges == 2


def test_directed_list(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b\nb,a\nb,c\n")
    with pytest.warns(GraphNote, match="1 of 2 edges go one way"):
        read_graph(tmp_path / "edges.csv")


def test_node_table_only(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f,label\na,1,x\nb,2,y\n")
    graph = read_graph(None, nodes=tmp_path / "nodes.csv")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (2, 0, 1)


def test_graph_files(tmp_path):
    sp.save_npz(tmp_path / "g.npz", sp.csr_array(PATH))
    assert read_graph(tmp_path / "g.npz").adjacency.toarray().tolist() == PATH.tolist()
    nx.write_graphml(nx.path_graph(3), tmp_path / "g.graphml")
    (tmp_path / "labels.csv").write_text("id,label\n2,x\n0,y\n")
    graph = read_graph(tmp_path / "g.graphml", labels=tmp_path / "labels.csv")
    assert (graph.node_ids.tolist(), graph.labels.tolist()) == ([0, 1, 2], [1, -1, 0])
    np.savez(tmp_path / "bad.npz", edge_index=[[0, 1], [1, 0]], x=np.ones((3, 2)), y=[0, 1])
    with pytest.raises(InputError, match=r"labels of shape \(2,\) for 3 nodes"):
        read_graph(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", edge_index=[[0, 9], [1, 0]], x=np.ones((3, 2)))
    with pytest.raises(InputError, match=r"bad.npz: edge 1 ends in node 9 and there are 3"):
        read_graph(tmp_path / "bad.npz")


def test_few_labels(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    for content, counts in (("id,label\na,x\n", {"x": 1}), ("id,label\n", {}), ("id,label\na,\n", {})):
        (tmp_path / "labels.csv").write_text(content)
        with pytest.raises(InputError, match="label"):
            read_graph(tmp_path / "edges.csv", labels=tmp_path / "labels.csv")
        graph = read_graph(tmp_path / "edges.csv", labels=tmp_path / "labels.csv", few_labels=True)
        assert dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)) == counts
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 0]]))
    (tmp_path / "labels.csv").write_text("id,label\n1,x\n")
    with pytest.raises(InputError, match="one class only"):
        read_graph(tmp_path / "graph.npz", labels=tmp_path / "labels.csv")
    assert read_graph(tmp_path / "graph.npz", labels=tmp_path / "labels.csv", few_labels=True).class_names == ("x",)


def merged(pairs, weights=None, nodes=4):
    sources, targets = np.array(pairs).T
    return merge_edges(sources, targets, None if weights is None else np.array(weights), nodes)


def test_merge_duplicates():
    edges = merged([(0, 1), (1, 0), (0, 1), (2, 1), (3, 3)])
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = expected[1, 2] = expected[2, 1] = expected[3, 3] = 1
    assert edges.adjacency(4).toarray().tolist() == expected.tolist()
    assert (edges.one_way, edges.both_ways, edges.uneven) == (1, 1, 0)


def test_merge_takes_the_largest_weight():
    edges = merged([(0, 1), (1, 0), (1, 2), (1, 2)], [2, 5, 3, 1])
    assert edges.adjacency(3).toarray().tolist() == [[0, 5, 0], [5, 0, 3], [0, 3, 0]]
    assert (edges.one_way, edges.both_ways, edges.uneven) == (1, 1, 1)


def test_merge_equals_dense():
    random = np.random.default_rng(0)
    pairs, weights = random.integers(0, 12, (200, 2)), random.random(200).astype(np.float32)
    dense = np.zeros((12, 12), np.float32)
    for (one, other), weight in zip(pairs, weights, strict=True):
        dense[one, other] = dense[other, one] = max(dense[one, other], weight)
    assert np.array_equal(merged(pairs, weights, 12).adjacency(12).toarray(), dense)


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        ([[], []], None, "here holds no edge; give at least one"),
        ([[0, 5], [1, 1]], None, "edge 1 ends in node 5 and there are 3"),
        ([[0, -1], [1, 1]], None, "edge 1 ends in node -1"),
        ([[0, 1], [1, 2]], [1.0, -2.0], "edge 1 weighs -2; give finite weights >= 0"),
        ([[0, 1], [1, 2]], [np.nan, 1.0], "edge 0 weighs nan"),
        ([[0, 1], [1, 2]], [1.0, np.inf], "edge 1 weighs inf"),
        ([[0, 1], [1, 2]], [1.0], r"weights of shape \(1,\) for 2 edges"),
    ],
)
def test_check_edges(edges, weights, message):
    sources, targets = np.array(edges, dtype=np.int64)
    with pytest.raises(InputError, match=message):
        check_edges(GraphArrays(np.arange(3), sources, targets, weights and np.array(weights)), "here")
