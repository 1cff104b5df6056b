"""Models that are fitted without a fit, for tests of what is read off them."""

from dataclasses import dataclass, field, replace
from html import escape
from types import SimpleNamespace
from typing import Any

import numpy as np

from mtgcn.graph import Graph


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


def with_labels(graph, labelled):
    labels = np.full(graph.num_nodes, -1)
    labels[labelled] = graph.labels[labelled]
    return replace(graph, labels=labels)
