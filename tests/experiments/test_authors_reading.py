"""The authors' way of drawing and reading: optimistic, and repeated faithfully."""

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.experiments.authors_reading import authors_splits, with_unknown_as_first_class
from mtgcn.experiments.scoring import score, score_better_peer
from mtgcn.graph import Graph
from mtgcn.splits import Split
from mtgcn.task import Prediction


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=40, classes=3)


def walked(labels, order, wanted):
    """The drawing as a walk, node after node."""
    train, missing = [], dict(enumerate(wanted))
    for position, node in enumerate(order):
        if missing[labels[node]] > 0:
            missing[labels[node]] -= 1
            train.append(node)
        if not any(missing.values()):
            return train, list(order[position + 1 :])
    raise AssertionError("too few nodes of a class")


def test_splits_are_a_walk_through_the_nodes(graph):
    for run, split in enumerate(authors_splits(graph, 2, runs=5, seed=7)):
        order = np.random.default_rng([7, run]).permutation(graph.num_nodes)
        train, test = walked(graph.labels.tolist(), order.tolist(), [2, 2, 2])
        assert split.train.tolist() == train
        assert split.test.tolist() == test
        assert not len(split.validation)


def test_nodes_passed_over_are_neither_given_nor_tested(graph):
    splits = authors_splits(graph, 2, runs=20, seed=0)
    assert any(len(split.train) + len(split.test) < graph.num_nodes for split in splits)
    assert all(np.bincount(graph.labels[split.train]).tolist() == [2, 2, 2] for split in splits)


def test_a_run_has_the_same_split_however_many_runs_there_are(graph):
    few, many = authors_splits(graph, 2, runs=2, seed=0), authors_splits(graph, 2, runs=4, seed=0)
    assert all(np.array_equal(one.test, other.test) for one, other in zip(few, many, strict=False))


def test_nodes_without_a_label_are_read_as_the_first_class():
    graph = Graph(np.ones((4, 4)) - np.eye(4), labels=[1, -1, 0, -1], name="small")
    read = with_unknown_as_first_class(graph)
    assert read.labels.tolist() == [1, 0, 0, 0]
    assert (read.name, read.class_names) == (graph.name, graph.class_names)
    assert graph.labels.tolist() == [1, -1, 0, -1]


def test_the_better_peer_is_chosen_by_its_accuracy_on_the_test_nodes(ring):
    right = np.eye(3)[ring.labels]
    wrong = np.roll(right, 1, axis=1)
    half = right.copy()
    half[[4, 5]] = wrong[[4, 5]]
    splits = [Split(train=[0, 1, 2], validation=[], test=[4, 5, 6, 7])] * 2
    peers = np.stack([[wrong, half], [right, wrong]])
    prediction = Prediction(peers.mean(axis=1), peers=peers)
    assert [result.accuracy for result in score_better_peer(prediction, ring, splits)] == [0.5, 1.0]
    # Each is what that peer alone would score.
    [alone] = score(Prediction(half[None]), ring, splits[:1])
    assert score_better_peer(prediction, ring, splits)[0] == alone


def test_without_peers_there_is_no_better_one(ring):
    with pytest.raises(InputError, match="no peers to take the better of"):
        score_better_peer(Prediction(np.full((1, 12, 3), 1 / 3)), ring, [Split([0], [], [1])])
