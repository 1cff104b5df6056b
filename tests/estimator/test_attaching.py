"""Rows that are alike are joined: among each other, and new ones with those of the fit."""

import numpy as np

from mtgcn import MutualTeachingClassifier

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier that is done in a moment."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


def test_without_a_graph_rows_are_linked_to_their_nearest(blobs):
    rows, y, _ = blobs
    either = quick(neighbors=3).fit(rows, y).graph_.adjacency
    mutual = quick(neighbors=3, mutual_neighbors=True).fit(rows, y).graph_.adjacency
    assert either.sum(axis=1).min() >= 3
    assert mutual.sum(axis=1).max() <= 3
    assert mutual.nnz < either.nnz


def test_a_table_of_few_rows_has_as_many_neighbours_as_there_are():
    rows = np.array([[0.0], [0.1], [5.0]])
    model = quick(neighbors=10).fit(rows, [0, -1, 1])
    assert model.graph_.num_edges == 3


def test_new_rows_are_attached_to_their_nearest(blobs):
    rows, y, truth = blobs
    old = np.arange(60) % 2 == 0
    old |= y != -1
    model = quick(scale=False).fit(rows[old], y[old])
    assert model.score(rows[~old], truth[~old]) > 0.9
    # By hand: the graph with the one new node in it.
    distance = np.linalg.norm(rows[old] - rows[~old][:1], axis=1)
    edges = np.zeros((old.sum() + 1, old.sum() + 1))
    edges[:-1, :-1] = model.graph_.adjacency.toarray()
    edges[-1, np.argsort(distance)[:10]] = edges[np.argsort(distance)[:10], -1] = 1
    by_hand = model.predict_proba(np.concatenate([rows[old], rows[~old][:1]]), graph=edges)[-1:]
    np.testing.assert_allclose(model.predict_proba(rows[~old][:1]), by_hand, atol=1e-5)
