"""Graphs from Python: matrices, edge indices, networkx graphs and PyG data with something wrong, or nothing."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch

from fuzz import malformed
from fuzz.case import require_sound_graph
from mtgcn import Graph
from mtgcn.estimator.inputs import as_graph

NODES = 6
RING = np.eye(NODES, k=1) + np.eye(NODES, k=-1)
EDGE_INDEX = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
FEATURES = np.arange(2.0 * NODES).reshape(NODES, 2)
LABELS = np.array([0, 1, 0, 1, -1, -1])


def random_case(random):
    make = random.choice((_from_scipy, _from_scipy, _from_edge_index, _from_edge_index, _graph, _networkx, _as_graph))
    return _checked(lambda: make(random))


def _checked(make):
    return lambda folder: require_sound_graph(make())


def _odd(random, plain, chance=0.3):
    """The plain thing, or something like it."""
    if random.random() > chance:
        return plain
    changed = malformed.array(random, plain)
    others = (malformed.json_value(random), malformed.number(random), None, object())
    return random.choice((changed, changed, changed.tolist(), [malformed.text(random) for _ in range(NODES)], *others))


def _matrix(random):
    plain = _odd(random, RING, 0.4)
    if isinstance(plain, np.ndarray) and plain.ndim == 2 and plain.dtype.kind in "biuf" and random.random() < 0.5:
        return random.choice((sp.csr_array, sp.coo_matrix, sp.csc_array, sp.lil_array))(plain.astype(np.float64))
    return plain


def _parts(random, features="X", labels="y"):
    parts = {features: _odd(random, FEATURES), labels: _odd(random, LABELS)}
    if random.random() < 0.3:
        parts["node_ids"] = _odd(random, np.array(list("abcdef")), 0.5)
    if random.random() < 0.3:
        names = (("red", "blue"), ("x", "x"), (1, 2), ("a" * 2000, "b"), ("\ud800", "b"), 5)
        parts["class_names"] = random.choice(names)
    if random.random() < 0.2:
        parts["feature_names"] = random.choice((("p", "q"), ("p",), (None, None), ("p", "p")))
    return parts


def _from_scipy(random):
    return Graph.from_scipy(_matrix(random), **_parts(random))


def _graph(random):
    return Graph(_matrix(random), **_parts(random, "features", "labels"))


def _from_edge_index(random):
    edges, parts = _odd(random, EDGE_INDEX, 0.4), _parts(random)
    if random.random() < 0.3:
        parts["edge_weight"] = _odd(random, np.ones(5), 0.6)
    if random.random() < 0.3:
        parts["num_nodes"] = random.choice((NODES, 5, 0, -1, 10**6, 10**12, 10**30, None, 6.0, "6", True))
    if isinstance(edges, np.ndarray) and edges.dtype.kind in "if" and random.random() < 0.3:
        edges = torch.from_numpy(np.ascontiguousarray(edges))
    return Graph.from_edge_index(edges, **parts)


def _networkx(random):
    graph = random.choice((nx.path_graph, nx.star_graph, nx.complete_graph, nx.empty_graph))(NODES)
    graph = random.choice((nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph))(graph)
    for node in graph:
        graph.nodes[node]["label"] = _odd(random, random.choice("ab"), 0.05)
        graph.nodes[node]["x"] = _odd(random, 1.5, 0.05)
    for *_, attributes in graph.edges(data=True):
        attributes["weight"] = _odd(random, 1.0, 0.05)
    if random.random() < 0.2:
        named = dict(enumerate([malformed.text(random), malformed.number(random), (1, 2), "b", 3.5, "c"]))
        graph = nx.relabel_nodes(graph, named)
    options = ({}, {}, {"weight": False}, {"label": "no such"}, {"features": ["x", "no such"]}, {"label": "x"})
    return Graph.from_networkx(graph, **random.choice(options))


def _as_graph(random):
    nodes = random.choice((NODES, None, -1))
    data = SimpleNamespace(edge_index=_odd(random, EDGE_INDEX), x=_odd(random, FEATURES), num_nodes=nodes)
    given = (data, _matrix(random), _odd(random, EDGE_INDEX, 0.6), malformed.json_value(random))
    return as_graph(random.choice(given), random.choice((None, NODES, 2)))


def _attributed(feature, weight):
    graph = nx.path_graph(NODES)
    nx.set_node_attributes(graph, feature, "x")
    nx.set_edge_attributes(graph, weight, "weight")
    return graph


REGRESSIONS = {
    "a node numbered 10^12": lambda: Graph.from_edge_index(EDGE_INDEX + 10**12),
    "10^12 nodes": lambda: Graph.from_edge_index(EDGE_INDEX, num_nodes=10**12),
    "a node numbered beyond 2^63": lambda: Graph.from_edge_index(EDGE_INDEX.astype(np.uint64) + 2**63),
    "no columns": lambda: Graph.from_scipy(RING, np.zeros((NODES, 0)), LABELS),
    "a label of 10^12": lambda: Graph(RING, labels=[10**12, 0, 0, 0, 0, 0]),
    "labels of one byte": lambda: Graph(RING, labels=LABELS.clip(0).astype(np.uint8)),
    "class names that are a number": lambda: Graph(RING, labels=LABELS, class_names=5),
    "half a surrogate pair in a class": lambda: Graph(RING, labels=LABELS, class_names=("\ud800", "b")),
    "node ids that are a number": lambda: Graph.from_edge_index(EDGE_INDEX, node_ids=np.array(5)),
    "a number of nodes that is text": lambda: Graph.from_edge_index(EDGE_INDEX, num_nodes="6"),
    "complex weights": lambda: Graph((RING * 1j).tolist()),
    "complex features": lambda: Graph(RING, FEATURES * 1j),
    "an attribute without axes": lambda: Graph.from_networkx(_attributed(np.array(1.5), 1)),
    "a weight of 1e300": lambda: Graph.from_networkx(_attributed(1.5, 1e300)),
    "bytes as labels": lambda: Graph.from_scipy(RING, y=[b"a", b"\xff", b"a", b"b", b"a", b"b"]),
}
REGRESSIONS = {description: _checked(make) for description, make in REGRESSIONS.items()}
