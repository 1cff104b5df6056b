"""A node, those it is joined with, and what is believed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, shown

if TYPE_CHECKING:
    from mtgcn.studio.answers import ProjectAnswers
    from mtgcn.studio.project import Project


@dataclass(frozen=True)
class Neighbour:
    """A node around the one that is looked at, or that one itself."""

    node: str
    weight: float  # of the edge; 0 for the middle itself
    given: str | None  # the label of now
    predicted: str | None  # None where there is no model
    confidence: float | None
    taught_at: int | None  # the epoch, or round, from which on it served as pseudo label


@dataclass(frozen=True)
class Neighbourhood:
    """A node, those it is joined with, and the edges among them."""

    middle: Neighbour
    neighbours: Sequence[Neighbour]  # the largest weight first
    edges: Sequence[tuple[str, str, float]]  # among all of them, each once
    left_out: int  # neighbours beyond the most that were asked for


def neighbourhood(project: Project, node: str, answers: ProjectAnswers | None, most: int = 24) -> Neighbourhood:
    """What lies around a node: at most so many neighbours, those by the heaviest edges."""
    loaded, labels = project.loaded, project.labels()
    if node not in loaded.place:
        raise InputError(f"no node is called {shown(node)}; choose one of the graph {project.source.title}")
    middle, adjacency = loaded.place[node], loaded.graph.adjacency
    some = slice(adjacency.indptr[middle], adjacency.indptr[middle + 1])
    others, weights = adjacency.indices[some], adjacency.data[some]
    weights, others = weights[others != middle], others[others != middle]
    order = np.argsort(-weights, kind="stable")[:most]

    def told(place: int, weight: float) -> Neighbour:
        return Neighbour(
            node=loaded.ids[place],
            weight=weight,
            given=labels.get(loaded.ids[place]),
            predicted=None if answers is None else answers.class_names[answers.predicted[place]],
            confidence=None if answers is None else float(answers.confidence[place]),
            taught_at=None if answers is None else answers.taught_at(place),
        )

    near = others[order]
    inside = np.concatenate([[middle], near]).astype(np.int64)
    among = sp.triu(adjacency[inside][:, inside], 1).tocoo()
    edges = zip(inside[among.row].tolist(), inside[among.col].tolist(), among.data.tolist(), strict=True)
    return Neighbourhood(
        middle=told(middle, 0.0),
        neighbours=[told(int(place), float(weight)) for place, weight in zip(near, weights[order], strict=True)],
        edges=[(loaded.ids[first], loaded.ids[second], weight) for first, second, weight in edges],
        left_out=len(others) - len(near),
    )
