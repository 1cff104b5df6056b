"""What the estimator refuses, whatever the method."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.inputs import check_classes, check_width

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier that is done in a moment."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)


def test_numbers_too_large_to_reckon_with_are_refused(ring):
    rows, y, _, edges = ring
    with pytest.raises(InputError, match=r"a feature of size 1e\+20, the limit is 1e\+15; scale all of them down"):
        quick().fit(np.where(rows == rows.max(), -1e20, rows), y)
    with pytest.raises(InputError, match=r"an edge weight of size 1e\+20, the limit is 1e\+15"):
        quick().fit(rows, y, graph=1e20 * adjacency_of(edges))
    with pytest.raises(ValueError, match="infinity"):
        quick().fit(1e300 * rows, y)


def test_labels_of_fewer_than_two_classes_are_refused():
    for classes, complaint in (([], "no node is labelled"), ([7], "labels of one class only, 7")):
        with pytest.raises(InputError, match=complaint):
            check_classes(np.array(classes))
    check_classes(np.array([7, 8]))


def test_what_peers_cannot_read_is_refused(ring):
    rows, _, _, edges = ring
    graph = Graph(adjacency_of(edges), rows)
    check_width(3, graph)
    with pytest.raises(InputError, match="4 features for each node of the graph and 3 in training"):
        check_width(4, graph)
    with pytest.raises(InputError, match="fitted without features"):
        check_width(3, Graph(adjacency_of(edges)))
