"""Classifiers that fit within a moment, and small graphs, for tests of estimators."""

import numpy as np
import scipy.sparse as sp

from mtgcn import MutualTeachingClassifier

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier with few epochs."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)
