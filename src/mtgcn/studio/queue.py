"""Whom to label next, and why: with no label, with one class, and with a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.studio.project import Project
from mtgcn.uncertainty.suggestions import first_suggestions, suggest

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

SKIPPED = "You skipped it, and nobody else is left."


@dataclass(frozen=True)
class QueueItem:
    """A node worth a label."""

    node: str
    index: int  # its place in the graph
    reason: str
    predicted: str | None  # the class the model takes it for; None where there is no model
    score: float  # larger is worth more


def next_nodes(project: Project, model: GraphModel | None = None, count: int = 10) -> list[QueueItem]:
    """The nodes most worth a label, the best first; fewer where fewer are left. Those that were skipped come last.

    `model` is that of the last teaching, `ProjectAnswers.model`; labels given since then are heeded. Without one, nodes
    are asked for that are typical of many others and well connected, spread over the graph.
    """
    loaded, labels, skipped = project.loaded, project.labels(), project.skipped
    labelled = np.array(sorted(loaded.place[node] for node in labels), dtype=np.int64)
    free = np.ones(len(loaded.ids), dtype=bool)
    free[labelled] = False
    free[[loaded.place[node] for node in skipped]] = False
    wanted = min(count, int(free.sum()))
    items: list[QueueItem] = []
    name_now = project.state.name_now
    if wanted and model is not None:
        items = [
            QueueItem(loaded.ids[one.index], one.index, one.reason, name_now(one.predicted), one.score)
            for one in suggest(model, wanted, labelled=labelled, free=free)
        ]
    elif wanted:
        # What is like a node that was skipped is no easier to tell.
        spoken_for = np.flatnonzero(~free)
        items = [
            QueueItem(loaded.ids[one.index], one.index, one.reason, None, one.score)
            for one in first_suggestions(project.graph, spoken_for, free, wanted)
        ]
    later = [QueueItem(node, loaded.place[node], SKIPPED, None, 0.0) for node in skipped]
    return (items + later)[:count]
