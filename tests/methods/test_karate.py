"""The club that the methods' examples are on."""

import networkx
import numpy as np
import pytest

from mtgcn.methods import karate_club
from mtgcn.task import Prediction


def test_it_is_the_club_that_everybody_knows():
    known = networkx.karate_club_graph()
    task, accuracy = karate_club()
    expected = networkx.to_numpy_array(known, weight=None)
    assert np.array_equal(task.graph.adjacency.toarray(), expected)
    assert np.array_equal(task.graph.features, expected + np.eye(34))
    officers = np.array([known.nodes[member]["club"] == "Officer" for member in known], dtype=float)
    assert accuracy(Prediction(np.stack([1 - officers, officers], -1)[None])) == 1
    assert accuracy(Prediction(np.stack([officers, 1 - officers], -1)[None])) == 0


def test_two_labels_of_each_side_are_given_and_validation_only_where_asked_for():
    task, _ = karate_club()
    assert task.labelled.classes.tolist() == [[0, 0, 1, 1]]
    assert task.validation is None
    with_validation, _ = karate_club(with_validation=True)
    assert with_validation.validation.classes.tolist() == [[0, 0, 1, 1]]
    assert not set(with_validation.validation.index.flatten().tolist()) & set(task.labelled.index.flatten().tolist())


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_only_the_others_count(share):
    task, accuracy = karate_club()
    probabilities = np.full((1, 34, 2), 0.5)
    probabilities[0, task.labelled.index[0]] = [share, 1 - share]
    everybody_with_the_instructor = accuracy(Prediction(probabilities))
    assert everybody_with_the_instructor == 13 / 26
