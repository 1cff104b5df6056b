import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.experiments.protocol import FINAL_SEEDS
from mtgcn.graph import Graph
from mtgcn.linalg.logistic_regression import labelled_rows, one_vs_rest, probabilities
from mtgcn.methods import create
from mtgcn.methods import deepwalk as module
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe, run_seed

QUICK = {"embeddings": None, "walks_per_node": 2, "walk_length": 8, "dimensions": 6}


@pytest.fixture(autouse=True)
def cache(private_cache):
    return private_cache / "deepwalk"


@pytest.fixture
def counted(monkeypatch):
    """The seeds of all embeddings that were made, not read."""
    made = []
    original = module.DeepWalk.embedding

    def counting(self, edges, seed):
        made.append(seed)
        return original(self, edges, seed)

    monkeypatch.setattr(module.DeepWalk, "embedding", counting)
    return made


@pytest.fixture
def task(make_graph):
    graph = make_graph()
    return observe(graph, draw_splits(graph, 2, runs=3, seed=0), seed=0)


def two_cliques(size=8):
    block = np.ones((size, size)) - np.eye(size)
    edges = np.kron(np.eye(2), block)
    edges[0, size] = edges[size, 0] = 1
    return Graph(edges, labels=np.repeat([0, 1], size))


def test_nodes_of_a_clique_are_alike():
    graph = two_cliques()
    vectors = create("deepwalk", walks_per_node=40, window=3, dimensions=16).embedding(graph.adjacency, seed=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = vectors @ vectors.T
    same = graph.labels[:, None] == graph.labels
    assert likeness[same].mean() > likeness[~same].mean() + 0.2
    prediction = create("deepwalk").fit(observe(graph, [Split([3, 12], [], [5])], seed=0))
    assert np.array_equal(prediction.probabilities[0].argmax(1), graph.labels)


def test_equals_scikit_learn_on_embeddings(task):
    method = create("deepwalk", strength=3.0, **QUICK)
    found = method.fit(task).probabilities
    for run, seed in enumerate(task.seeds):
        vectors = method.embedding(task.graph.adjacency, seed)
        labelled = task.labelled[run : run + 1]
        classifier = one_vs_rest(labelled_rows(vectors, labelled), labelled, 3, 3.0)
        np.testing.assert_allclose(found[run], probabilities(classifier.scores(vectors))[0], atol=1e-12)


@pytest.mark.long
def test_embeddings_do_not_depend_on_hash_seed(make_graph):
    program = (
        "import numpy as np, sys; from mtgcn.methods import create; import scipy.sparse as sp;"
        "edges = sp.csr_array(np.load(sys.argv[1]));"
        f"np.save(sys.argv[2], create('deepwalk', **{QUICK}).embedding(edges, 7))"
    )
    folder = os.environ["MTGCN_CACHE"]
    os.makedirs(folder)
    edges = make_graph().adjacency
    np.save(f"{folder}/edges.npy", edges.toarray())
    expected = create("deepwalk", **QUICK).embedding(edges, 7)
    command = [sys.executable, "-c", program, f"{folder}/edges.npy", f"{folder}/vectors.npy"]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "1"}, check=True)  # ours is another, or none
    assert np.array_equal(np.load(f"{folder}/vectors.npy"), expected)


def test_embeddings_are_cached(task, make_graph, counted, cache):
    method, graph = create("deepwalk", **QUICK), make_graph()
    first = method.fit(task)
    assert sorted(counted) == sorted(task.seeds)
    assert len(list(cache.iterdir())) == 3
    assert np.array_equal(method.fit(task).probabilities, first.probabilities)
    more_labels = observe(graph, draw_splits(graph, 4, runs=3, seed=0), seed=0)
    create("deepwalk", strength=5.0, **QUICK).fit(more_labels)
    assert len(counted) == 3


def test_runs_may_share_a_few_embeddings(task, counted):
    method = create("deepwalk", **{**QUICK, "embeddings": 2})
    together = method.fit(task)
    assert sorted(counted) == sorted({run_seed(0, seed % 2) for seed in task.seeds})
    assert together.groups.tolist() == [seed % 2 for seed in task.seeds]
    for run, alone in enumerate(task.chunks(1)):
        np.testing.assert_allclose(method.fit(alone).probabilities[0], together.probabilities[run], atol=1e-12)


@pytest.mark.parametrize(
    "change", [{"walks_per_node": 3}, {"walk_length": 9}, {"window": 3}, {"dimensions": 7}, {"passes": 2}]
)
def test_other_settings_are_other_embeddings(task, counted, change):
    create("deepwalk", **QUICK).fit(task)
    create("deepwalk", **QUICK | change).fit(task)
    assert len(counted) == 6


def test_other_graphs_are_other_embeddings(counted):
    edges = two_cliques().adjacency.toarray()
    without, heavier = edges.copy(), edges.copy()
    without[0, 1] = without[1, 0] = 0
    heavier[0, 1] = heavier[1, 0] = 2
    for number, changed in enumerate((edges, without, heavier), start=1):
        create("deepwalk", **QUICK).fit(observe(Graph(changed, labels=[0, 1] * 8), [Split([0, 1], [], [2])], seed=0))
        assert len(counted) == number
    looped = edges + np.eye(16)  # self-edges are not walked
    create("deepwalk", **QUICK).fit(observe(Graph(looped, labels=[0, 1] * 8), [Split([0, 1], [], [2])], seed=0))
    assert len(counted) == 3


def test_nodes_without_edges():
    edges = np.zeros((20, 20))
    edges[:16, :16] = two_cliques().adjacency.toarray()
    graph = Graph(edges, labels=[0] * 8 + [1] * 8 + [0, 1, 0, 1])
    task = observe(graph, [Split([0, 1, 8], [], [18])], seed=0)
    probabilities = create("deepwalk", **QUICK).fit(task).probabilities[0, 16:]
    assert (probabilities == probabilities[0]).all()
    assert probabilities[0, 0] > probabilities[0, 1]  # two labels to one


def test_a_graph_without_edges_is_answered():
    graph = Graph(sp.csr_array((4, 4)), labels=[0, 0, 1, 1])
    task = observe(graph, [Split([0, 2], [], [1])], seed=0)
    np.testing.assert_allclose(create("deepwalk", **QUICK).fit(task).probabilities, 0.5)


def test_missing_gensim(task, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(InputError, match=r"deepwalk needs gensim, .*; pip install 'mtgcn\[deepwalk\]'"):
        create("deepwalk", **QUICK).fit(task)


def test_embeddings_depend_on_experiment_seed(make_graph, counted):
    graph = make_graph()
    for seed in (0, FINAL_SEEDS[0]):
        create("deepwalk", **{**QUICK, "embeddings": 2}).fit(observe(graph, draw_splits(graph, 2, 6, seed), seed))
    assert len(counted) == len(set(counted)) == 4
