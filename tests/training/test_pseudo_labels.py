import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.task import MISSING, Nodes
from mtgcn.training.pseudo_labels import (
    default_per_class,
    joined,
    labelled_mask,
    most_confident,
    most_confident_per_class,
    one_hot_classes,
    top_nodes_per_class,
    unambiguous,
)


def stacked(rows):
    """One model's numbers as a stack of one run and one peer."""
    return torch.tensor(rows)[:, None, None]


def taken(chosen, run=0, peer=0):
    """The nodes of each class, in order; slots must be filled from the first on."""
    nodes, filled = (part[:, run, peer].view(-1, chosen.per_class) for part in (chosen.nodes, chosen.filled))
    assert (filled.int().diff(dim=1) <= 0).all()
    return [row[full].tolist() for row, full in zip(nodes, filled, strict=True)]


def test_probability_of_one_is_most_confident():
    chosen = most_confident(
        stacked([1.0, np.nextafter(np.float32(1), np.float32(0)).item(), 1.0, 0.25]),
        stacked([0, 0, 1, 1]),
        classes=2,
        per_class=1,
        exclude=torch.zeros(4, 1, dtype=torch.bool),
    )
    assert taken(chosen) == [[0], [2]]


@pytest.mark.parametrize("levels", [1, 2, 5, 1000])  # few levels of confidence: many ties
@pytest.mark.parametrize("seed", range(8))
def test_most_confident_matches_algorithm_1(algorithm_1, levels, seed):
    random = np.random.default_rng([levels, seed])
    nodes, classes = int(random.integers(1, 40)), int(random.integers(2, 6))
    runs, peers, per_class = int(random.integers(1, 4)), int(random.integers(1, 4)), int(random.integers(1, 9))
    confidence = 1 - random.integers(0, levels, (nodes, runs, peers)) / (levels + 1)
    confidence = confidence.astype(np.float32)
    predicted = random.integers(0, random.integers(1, classes + 1), (nodes, runs, peers))
    exclude = random.random((nodes, runs)) < 0.3
    chosen = most_confident(
        torch.from_numpy(confidence),
        torch.from_numpy(predicted),
        classes=classes,
        per_class=per_class,
        exclude=torch.from_numpy(exclude),
    )
    assert chosen.classes.flatten().tolist() == np.repeat(np.arange(classes), per_class).tolist()
    for run, peer in np.ndindex(runs, peers):
        unlabelled = set(np.flatnonzero(~exclude[:, run]))
        expected = algorithm_1(confidence[:, run, peer], predicted[:, run, peer], unlabelled, classes, per_class)
        assert taken(chosen, run, peer) == expected
        assert chosen.count[run, peer] == sum(map(len, expected))


def test_labelled_mask(two_runs):
    mask = labelled_mask(two_runs)
    assert mask.shape == (40, 2)
    assert mask[:, 0].nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert mask[:, 1].nonzero().flatten().tolist() == [8, 10, 12, 20]


def ring(nodes, name=""):
    adjacency = np.roll(np.eye(nodes), 1, axis=0)
    return Graph(adjacency + adjacency.T, labels=np.arange(nodes) % 2, name=name)


@pytest.mark.parametrize(
    ("graph", "per_class"),
    [
        (ring(8), 3),  # 3 · 8 / (2 · 2²)
        (ring(10), 3),  # 3.75, rounded down
        (Graph(np.ones((20, 20)) - np.eye(20), labels=np.arange(20) % 2), 2),  # 0.08; 15 % of a class are 1.5
        (Graph(np.zeros((4, 4)), labels=[0, 1, 0, 1]), 6),  # no edges: counted as one each
        (ring(10, "cora"), 72),
        (ring(10, "citeseer"), 216),
        (ring(10, "pubmed"), 975),
    ],
)
def test_default_per_class(graph, per_class):
    assert default_per_class(graph) == per_class


NONE_LABELLED = torch.zeros(5, 1, dtype=torch.bool)


def marks_of(pairs, nodes=5, classes=2, runs=1):
    """Marks at (node, class) in run 0, or at (node, class, run)."""
    marks = torch.zeros(nodes, classes, runs, dtype=torch.bool)
    for node, its_class, *run in pairs:
        marks[node, its_class, run[0] if run else 0] = True
    return marks


def test_top_nodes_per_class():
    score = torch.tensor([[9.0, 8.0], [7.0, 7.0], [6.0, 1.0], [5.0, 7.0], [0.0, 0.0]])[..., None]
    assert torch.equal(top_nodes_per_class(score, 2, NONE_LABELLED), marks_of([(0, 0), (1, 0), (0, 1), (1, 1)]))
    labelled = torch.tensor([True, False, False, False, False])[:, None]
    # Without node 0; of nodes 1 and 3, equal in class 1, the first goes first.
    assert torch.equal(top_nodes_per_class(score, 1, labelled), marks_of([(1, 0), (1, 1)]))
    # A score of 0 is never taken.
    score = torch.tensor([[0.0, 2.0], [0.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 0.0]])[..., None]
    assert torch.equal(top_nodes_per_class(score, 4, NONE_LABELLED), marks_of([(0, 1), (2, 0), (3, 1)]))


def test_most_confident_per_class():
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.45, 0.55], [0.2, 0.8]])
    logits = probabilities.log()[..., None, None]
    assert torch.equal(most_confident_per_class(logits, 2, NONE_LABELLED), marks_of([(0, 0), (2, 0), (4, 1), (3, 1)]))
    labelled = torch.tensor([True, False, False, False, True])[:, None]
    # Node 1 comes after 2 in class 0; class 1 has node 3 alone, and takes no node that is predicted as class 0.
    assert torch.equal(most_confident_per_class(logits, 2, labelled), marks_of([(2, 0), (1, 0), (3, 1)]))
    # Empty slots do not mark node 0, and only the first peer counts.
    two_peers = torch.cat([logits, logits.flip(1)], -1)
    assert torch.equal(most_confident_per_class(two_peers, 9, labelled), marks_of([(2, 0), (1, 0), (3, 1)]))


def test_top_nodes_of_each_run():
    score = torch.tensor([[[1.0, 2.0]], [[2.0, 1.0]]])  # two nodes, one class, two runs
    labelled = torch.zeros(2, 2, dtype=torch.bool)
    expected = marks_of([(1, 0, 0), (0, 0, 1)], nodes=2, classes=1, runs=2)
    assert torch.equal(top_nodes_per_class(score, 1, labelled), expected)


def test_unambiguous():
    marks = marks_of([(0, 0), (0, 1), (1, 0), (4, 1)])
    assert torch.equal(unambiguous(marks), marks_of([(1, 0), (4, 1)]))


def test_one_hot_classes():
    assert torch.equal(one_hot_classes(torch.tensor([[1], [0], [1]]), 2), marks_of([(0, 1), (1, 0), (2, 1)], nodes=3))


def test_joined_labels():
    labelled = Nodes(torch.tensor([[4, 2], [3, MISSING]]), torch.tensor([[1, 0], [1, 0]]))
    marks = marks_of([(0, 0, 0), (1, 1, 0), (1, 0, 0), (0, 1, 1)], runs=2)
    grown = joined(labelled, marks)
    # Node 1 enters with both classes; the second run is padded.
    assert grown.index.tolist() == [[4, 2, 0, 1, 1], [3, 0, MISSING, MISSING, MISSING]]
    assert grown.classes.tolist()[0] == [1, 0, 0, 0, 1]
    assert grown.classes[1, :2].tolist() == [1, 1]
    grown = joined(labelled[:1], marks_of([]))
    assert grown.index.tolist() == [[4, 2]]
    assert grown.classes.tolist() == [[1, 0]]
