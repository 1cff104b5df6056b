"""Cached functions of a graph."""

import threading
from weakref import ref

import numpy as np
import pytest

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import normalized_adjacency, scaled_laplacian
from mtgcn.linalg.random_walks import absorbing_walk
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.uncertainty.suggestions import smoothed_features


class Thing:
    def __init__(self, *made_of):
        self.made_of = made_of


@pytest.fixture
def maker():
    calls = []

    @cached_per_graph
    def make(graph, size=3, *, colour="red"):
        calls.append((graph.labels.tolist(), size, colour))
        return Thing(size, colour)

    return make, calls


def path(labels=(0, -1, 1)):
    return Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), labels=np.array(labels), class_names=("a", "b"))


def test_labels_do_not_matter(maker):
    make, calls = maker
    graph = path()
    first = make(graph)
    assert make(graph) is make(graph.without_labels) is make(graph.without_labels.without_labels) is first
    relabelled = graph.with_labels([1, 0, -1])
    assert (relabelled.labels.tolist(), relabelled.class_names) == ([1, 0, -1], ("a", "b"))
    assert (relabelled.known.tolist(), relabelled.label_counts.tolist()) == ([0, 1], [1, 1])
    assert relabelled.adjacency is graph.adjacency
    assert make(relabelled) is make(relabelled.with_labels([0, -1, -1])) is first
    assert graph.with_labels([-1, -1, -1]) is graph.without_labels
    assert calls == [([-1, -1, -1], 3, "red")]  # no label is in reach


def test_arguments_and_graphs_are_keys(maker):
    make, calls = maker
    graph = path()
    assert make(graph) is make(graph, 3) is make(graph, size=3, colour="red")
    assert make(graph, 4) is not make(graph)
    assert make(graph, colour="blue").made_of == (3, "blue")
    assert make(path()) is not make(graph)
    assert len(calls) == 4


def test_results_are_freed_with_the_graph(maker):
    make, _ = maker
    graph, bare = path(), path((-1, -1, -1))
    made = [ref(make(graph)), ref(make(bare))]
    assert all(one() is not None for one in made)
    del graph, bare
    assert [one() for one in made] == [None, None]  # at once, without garbage collection


def test_failures_are_not_cached():
    outcomes = iter([ValueError("no"), Thing()])

    @cached_per_graph
    def make(graph):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    graph = path()
    with pytest.raises(ValueError, match="no"):
        make(graph)
    assert make(graph) is make(graph)


def test_concurrent_calls_return_the_same():
    both_are_making = threading.Barrier(2)

    @cached_per_graph
    def make(graph):
        both_are_making.wait(timeout=10)
        return Thing()

    graph, found = path(), []
    threads = [threading.Thread(target=lambda: found.append(make(graph))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]


def test_cached_functions():
    graph = path()
    for make in (normalized_adjacency, scaled_laplacian, lambda graph: absorbing_walk(graph, 0.1), smoothed_features):
        assert make(graph) is make(graph.without_labels)
    first, again, other = (with_structural_features(graph, seed) for seed in (0, 0, 1))
    assert first.features is again.features
    assert first.labels.tolist() == [0, -1, 1]
    assert not np.array_equal(first.features, other.features)
    assert normalized_adjacency(first) is normalized_adjacency(again)
    assert first.without_labels is again.without_labels is with_structural_features(graph.without_labels)
