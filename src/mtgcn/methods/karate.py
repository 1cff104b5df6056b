"""Zachary's karate club (1977), for trying a method at once: who went with the instructor when the club broke up?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mtgcn.graph import Graph
from mtgcn.splits import Split
from mtgcn.task import Prediction, Task, observe

# The friends of each of the 34 members with a larger number than their own.
FRIENDS = (
    "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31;2 3 7 13 17 19 21 30;3 7 8 9 13 27 28 32;7 12 13;6 10;6 10 16;16;;"
    "30 32 33;33;;;;33;32 33;32 33;;;32 33;33;32 33;;32 33;25 27 29 32 33;25 27 31;31;29 33;33;31 33;32 33;32 33;"
    "32 33;33;"
)
WITH_THE_INSTRUCTOR = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21]
LABELLED = np.array([0, 11, 26, 33])  # the heads of the two sides, and one friend of each
VALIDATION = np.array([2, 3, 23, 31])


def karate_club(*, with_validation: bool = False) -> tuple[Task, Callable[[Prediction], float]]:
    """The club as a task of one run with two labels of each side, and the share of the others that a prediction gets
    right. The features of a member are its friends and itself.

    >>> task, accuracy = karate_club()
    >>> task.graph
    Graph('karate', nodes=34, edges=78, features=34, classes=2)
    """
    adjacency = np.zeros((34, 34))
    for member, friends in enumerate(FRIENDS.split(";")):
        adjacency[member, [int(friend) for friend in friends.split()]] = 1
    labels = np.ones(34, dtype=np.int64)
    labels[WITH_THE_INSTRUCTOR] = 0
    adjacency += adjacency.T
    sides = ("instructor", "officers")
    graph = Graph(adjacency, features=adjacency + np.eye(34), labels=labels, class_names=sides, name="karate")
    others = np.setdiff1d(np.arange(34), [*LABELLED, *VALIDATION])
    split = Split(train=LABELLED, validation=VALIDATION, test=others)

    def accuracy(prediction: Prediction) -> float:
        return float(np.mean(prediction.probabilities[0, others].argmax(axis=1) == labels[others]))

    return observe(graph, [split], seed=0, with_validation=with_validation), accuracy
