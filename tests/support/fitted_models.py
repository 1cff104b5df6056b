"""Models that are fitted without a fit, for tests of what is read off them."""

from dataclasses import dataclass, field, replace
from html import escape
from types import SimpleNamespace
from typing import Any

import numpy as np

from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.task import Prediction
from mtgcn.training.calibration import tempered


@dataclass(frozen=True)
class Model:
    """What a fitted estimator has."""

    graph_: Graph
    method_: Any = None
    label_distributions_: Any = None
    peer_distributions_: Any = None
    peer_report_: Any = None
    history_: Any = field(default_factory=dict)
    expected_accuracy_: Any = None

    def explain(self, node):
        return SimpleNamespace(_repr_html_=lambda: f"<p>reasons of {escape(str(node))}</p>")


@dataclass(frozen=True, kw_only=True)
class Knows(Method):
    """Answers the same whatever it is shown, and remembers what that was."""

    probabilities: Any
    shown: list = field(default_factory=list)

    def fit(self, task):
        self.shown.extend(set(row[row >= 0].tolist()) for row in task.labelled.index)
        return Prediction(np.repeat(self.probabilities[None], task.runs, axis=0))


def drawn_probabilities(nodes, classes, seed, sharpness):
    """Probabilities, the same `sharpness` times as sure, and classes drawn from the former."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(nodes, classes)) * 1.5
    true = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (true.cumsum(1) > random.random((nodes, 1))).argmax(1)
    return true, tempered(true, 1 / sharpness), labels


def with_labels(graph, labelled):
    labels = np.full(graph.num_nodes, -1)
    labels[labelled] = graph.labels[labelled]
    return replace(graph, labels=labels)
