"""Small graphs and plain reference implementations, shared by all tests."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.datasets import SourceUnreachable
from mtgcn.graph import Graph
from mtgcn.methods import METHODS
from mtgcn.splits import Split
from mtgcn.task import observe


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip tests marked `data` if a dataset cannot be loaded, except in CI."""
    try:
        return (yield)
    except SourceUnreachable as error:
        if item.get_closest_marker("data") and os.environ.get("CI") != "true":
            pytest.skip(str(error))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Escape file names that are not Unicode, which a worker process could not send."""
    return _as_text((yield))


def _as_text(content):
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace").decode()
    if isinstance(content, dict):
        return {key: _as_text(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(map(_as_text, content))
    return content


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small graphs are faster on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def private_cache(tmp_path, monkeypatch):
    """The folder of a cache of the test's own, instead of the user's."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def empty_cache(tmp_path_factory):
    """A cache of the module's own, instead of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def make_graph():
    """A factory of stochastic block models with informative features; `easy` separates the classes well."""

    def make(nodes=40, classes=3, features=12, seed=0, *, sparse=True, weighted=False, unreached=False, easy=False):
        random = np.random.default_rng([nodes, classes, features, seed])
        labels = np.arange(nodes) % classes
        same = labels[:, None] == labels
        edges = np.triu(random.random((nodes, nodes)) < np.where(same, 0.2, 0.005 if easy else 0.04), 1).astype(float)
        if weighted:
            edges *= random.uniform(0.2, 3, (nodes, nodes))
        # Random values, so that no two nodes have the same probabilities.
        values = random.random((nodes, features)) * (random.random((nodes, features)) < 0.6)
        values[:, 0] += 0.1
        values[np.arange(nodes), 1 + labels] += 4 if easy else 0.5
        if unreached:  # the last five nodes: one alone, one alone and empty, and an empty component of three
            edges[:, -5:] = 0
            values[-4:] = 0
            edges[-3, -2] = edges[-2, -1] = 1
        edges /= edges[edges > 0].mean()  # as every method does
        return Graph(adjacency=edges + edges.T, features=sp.csr_array(values) if sparse else values, labels=labels)

    return make


@pytest.fixture(scope="session")
def awkward(make_graph):
    """Two weighted components of 30 nodes, a weighted triangle of unknown classes, a lone node without features and one
    with an edge to itself alone."""
    halves = [make_graph(nodes=30, features=8, seed=seed, weighted=True) for seed in (0, 1)]
    triangle = sp.csr_array(np.array([[0, 0.5, 2], [0.5, 0, 1e-3], [2, 1e-3, 0]]))
    lone = sp.csr_array(np.diag([0.0, 1.5]))
    values = np.random.default_rng(0).random((5, 8))
    values[3] = 0
    return Graph(
        adjacency=sp.block_diag([*(half.adjacency for half in halves), triangle, lone], format="csr"),
        features=sp.vstack([*(half.features for half in halves), sp.csr_array(values)], format="csr"),
        labels=np.concatenate([*(half.labels for half in halves), np.full(5, -1)]),
    )


@pytest.fixture
def weighted_peers(monkeypatch):
    """The name of a registered method whose peers have different weights."""
    from weighted_peers import WeightedPeers

    monkeypatch.setitem(METHODS, "weighted-peers", WeightedPeers)
    return "weighted-peers"


@pytest.fixture
def two_runs(make_graph):
    """A task of two runs, six labels in the one and four in the other."""
    graph = make_graph()
    splits = [Split([0, 1, 2, 3, 4, 5], [], [10, 11]), Split([12, 8, 10, 20], [], [0, 1])]
    return observe(graph, splits, seed=3)


@pytest.fixture(scope="session")
def dense_propagation():
    """Â by its formula, in doubles, of a graph with a mean weight of 1."""

    def dense(graph):
        with_self = graph.adjacency.toarray().astype(np.float64) + np.eye(graph.num_nodes)
        degree = with_self.sum(1)
        return torch.from_numpy(with_self / np.sqrt(np.outer(degree, degree)))

    return dense


@pytest.fixture(scope="session")
def dense_features():
    """Features with rows that sum to one, in doubles; no row may be empty."""

    def dense(graph):
        features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        features = torch.from_numpy(np.array(features, dtype=np.float64))
        return features / features.sum(1, keepdim=True)

    return dense


@pytest.fixture(scope="session")
def algorithm_1():
    """Algorithm 1, line by line: for every class the nodes taken, in order. `per_class` is met, not exceeded."""

    def algorithm(confidence, predicted, unlabelled, classes, per_class):
        order = sorted(range(len(confidence)), key=lambda node: -confidence[node])  # stable: first nodes win
        taken = [[] for _ in range(classes)]
        for node in order:
            for number in range(classes):
                if len(taken[number]) < per_class and predicted[node] == number and node in unlabelled:
                    taken[number].append(node)
        return taken

    return algorithm
