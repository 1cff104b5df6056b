import torch

from mtgcn.task import MISSING, Nodes
from mtgcn.training.label_growing import best_of_each_class, joined, marked_as, surest_predictions, uncontested

NOBODY_LABELLED = torch.zeros(5, 1, dtype=torch.bool)


def marks_of(pairs, nodes=5, classes=2, runs=1):
    """Marks at (node, class) in run 0, or at (node, class, run)."""
    marks = torch.zeros(nodes, classes, runs, dtype=torch.bool)
    for node, its_class, *run in pairs:
        marks[node, its_class, run[0] if run else 0] = True
    return marks


def test_every_class_takes_its_best_nodes_whatever_other_classes_say():
    score = torch.tensor([[9.0, 8.0], [7.0, 7.0], [6.0, 1.0], [5.0, 7.0], [0.0, 0.0]])[..., None]
    assert torch.equal(best_of_each_class(score, 2, NOBODY_LABELLED), marks_of([(0, 0), (1, 0), (0, 1), (1, 1)]))
    labelled = torch.tensor([True, False, False, False, False])[:, None]
    # Without node 0; of nodes 1 and 3, equal in class 1, the first goes first.
    assert torch.equal(best_of_each_class(score, 1, labelled), marks_of([(1, 0), (1, 1)]))


def test_nodes_that_score_nothing_are_never_taken():
    score = torch.tensor([[0.0, 2.0], [0.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 0.0]])[..., None]
    assert torch.equal(best_of_each_class(score, 4, NOBODY_LABELLED), marks_of([(0, 1), (2, 0), (3, 1)]))


def test_the_surest_predictions_are_taken_from_those_predicted_as_the_class():
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.45, 0.55], [0.2, 0.8]])
    logits = probabilities.log()[..., None, None]
    assert torch.equal(surest_predictions(logits, 2, NOBODY_LABELLED), marks_of([(0, 0), (2, 0), (4, 1), (3, 1)]))
    labelled = torch.tensor([True, False, False, False, True])[:, None]
    # Node 1 comes after 2 in class 0; class 1 has node 3 alone, and takes no node that is predicted as class 0.
    assert torch.equal(surest_predictions(logits, 2, labelled), marks_of([(2, 0), (1, 0), (3, 1)]))
    assert torch.equal(surest_predictions(logits, 9, labelled), marks_of([(2, 0), (1, 0), (3, 1)]))


def test_other_peers_are_not_asked():
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.45, 0.55], [0.2, 0.8]])
    logits = torch.stack([probabilities.log(), probabilities.flip(1).log()], -1)[:, :, None]
    alone = surest_predictions(logits[..., :1], 2, NOBODY_LABELLED)
    assert torch.equal(surest_predictions(logits, 2, NOBODY_LABELLED), alone)


def test_node_0_is_not_marked_by_classes_that_nobody_is_predicted_as():
    logits = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [0.0, 5.0]])[..., None, None]
    assert torch.equal(surest_predictions(logits, 1, NOBODY_LABELLED), marks_of([(4, 1)]))


def test_runs_choose_apart():
    score = torch.tensor([[[1.0, 2.0]], [[2.0, 1.0]]])  # two nodes, one class, two runs
    labelled = torch.zeros(2, 2, dtype=torch.bool)
    expected = marks_of([(1, 0, 0), (0, 0, 1)], nodes=2, classes=1, runs=2)
    assert torch.equal(best_of_each_class(score, 1, labelled), expected)


def test_a_node_of_two_classes_is_contested():
    marks = marks_of([(0, 0), (0, 1), (1, 0), (4, 1)])
    assert torch.equal(uncontested(marks), marks_of([(1, 0), (4, 1)]))


def test_marks_of_given_classes():
    assert torch.equal(marked_as(torch.tensor([[1], [0], [1]]), 2), marks_of([(0, 1), (1, 0), (2, 1)], nodes=3))


def test_what_is_marked_joins_behind_the_labels():
    labelled = Nodes(torch.tensor([[4, 2], [3, MISSING]]), torch.tensor([[1, 0], [1, 0]]))
    marks = marks_of([(0, 0, 0), (1, 1, 0), (1, 0, 0), (0, 1, 1)], runs=2)
    grown = joined(labelled, marks)
    # Node 1 is marked for both classes and enters with both; the second run's row ends in nobody.
    assert grown.index.tolist() == [[4, 2, 0, 1, 1], [3, 0, MISSING, MISSING, MISSING]]
    assert grown.classes.tolist()[0] == [1, 0, 0, 0, 1]
    assert grown.classes[1, :2].tolist() == [1, 1]


def test_nothing_may_join():
    labelled = Nodes(torch.tensor([[4, 2]]), torch.tensor([[1, 0]]))
    grown = joined(labelled, marks_of([]))
    assert grown.index.tolist() == [[4, 2]]
    assert grown.classes.tolist() == [[1, 0]]
