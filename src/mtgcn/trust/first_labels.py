"""Which nodes to label first, where there is no model to ask: typical, well-connected ones, spread over the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtgcn.graph import Graph
from mtgcn.shapes import Bool, Int
from mtgcn.trust.suggestions import appearance, centrality, choose


@dataclass(frozen=True)
class FirstSuggestion:
    """A node worth a label before there is a model."""

    index: int  # its place in the graph
    score: float  # how many nodes it stands for
    reason: str


def first_suggestions(
    graph: Graph,
    labelled: Int[np.ndarray, "labelled"],
    free: Bool[np.ndarray, "nodes"],
    count: int,
    classes: int = 2,
) -> list[FirstSuggestion]:
    """`count` of the free nodes, the best first, and why. Nothing but the graph, and who has a label, is looked at."""
    nobody_knows = np.ones(graph.num_nodes)
    chosen = choose(graph, appearance(graph), centrality(graph), nobody_knows, labelled, free, count)
    degree = np.diff(graph.adjacency.indptr)
    return [
        FirstSuggestion(
            choice.node,
            float(len(choice.region)),
            _reason(choice.is_component, len(choice.region), degree[choice.node]),
        )
        for choice in chosen
    ]


def _reason(is_component: bool, size: int, neighbours: int) -> str:
    joined = f"it has {neighbours} neighbours" if neighbours != 1 else "it has 1 neighbour"
    if is_component:
        return f"Its component of {size} nodes has no label at all; {joined}."
    if size > 1:
        return f"It is typical of {size} nodes that look alike and have no label; {joined}."
    return f"Nobody else like it has a label; {joined}."
