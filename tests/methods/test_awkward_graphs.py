"""Every method on one graph that has it all: components without a label, lone nodes, weights, self-edges; with sparse
features, dense ones and none."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, create
from mtgcn.splits import draw_splits
from mtgcn.task import observe

RUNS = 2
USE_LINKS_ALONE = {"deepwalk", "lp", "planetoid"}  # planetoid uses features where there are some
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", METHODS)]  # every method on every such graph


@pytest.fixture(autouse=True, scope="module")
def empty_cache(tmp_path_factory):
    """What a method keeps between fits is not looked for in, or added to, the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def awkward(make_graph):
    """Two components of 30 nodes, a weighted triangle of unknown classes, a lone node without features and one with a
    edge to itself alone."""
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


def fit(name, graph):
    few = {one.name: 5 for one in dataclasses.fields(METHODS[name]) if "epochs" in one.name}
    method = create(name, **few)
    splits = draw_splits(graph, 2, RUNS, seed=0, validation=6)
    return method.fit(observe(graph, splits, seed=0, with_validation=method.uses_validation)).probabilities


def assert_is_belief(probabilities, graph):
    assert probabilities.shape == (RUNS, graph.num_nodes, graph.num_classes)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)


def test_sparse_features(name, awkward):
    assert_is_belief(fit(name, awkward), awkward)


def test_dense_features(name, awkward):
    dense = Graph(awkward.adjacency, awkward.features.toarray(), awkward.labels)
    assert_is_belief(fit(name, dense), dense)


def test_no_features(name, awkward):
    bare = Graph(awkward.adjacency, labels=awkward.labels)
    if name in USE_LINKS_ALONE:
        assert_is_belief(fit(name, bare), bare)
    else:
        with pytest.raises(InputError, match="features"):
            fit(name, bare)
