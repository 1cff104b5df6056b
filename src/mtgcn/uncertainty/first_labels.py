"""Which nodes to label first, where there is no model to ask: typical, well-connected ones, spread over the graph.

Every node should look like some node that has a label. So that node comes next whose label would bring the most nodes
nearer to one (the greedy rule for facility location, Cornuejols, Fisher and Nemhauser, 1977), where a node that walks
over the graph often come by counts for more:

    argmax_j  sqrt(centrality_j) · Σ_i max(0, s_ij - max over labelled l of s_il),   s_ij = exp(-|x_i - x_j|² / 2σ²),

x being what a node and those around it look like. Each choice is made as if those before it had been labelled, so that
labelling the first of the list does not change the rest. docs/trust.md shows what this gains over picking at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.shapes import Bool, Float, Int
from mtgcn.uncertainty.suggestions import appearance, centrality

MOST_NODES = 4_000  # that are compared with each other; of larger graphs a sample
NEAR_SHARE, LEAST_NEAR = 20, 10  # a node is like this part of the nodes, the nearest; in small graphs like so many
ALIKE = 0.5  # nodes count as alike from here on
CENTRAL_POWER = 0.5  # of the centrality that a gain is weighed by


@dataclass(frozen=True)
class FirstSuggestion:
    """A node worth a label before there is a model."""

    index: int  # its place in the graph
    score: float  # how many nodes it brings nearer to a label
    reason: str


def first_suggestions(
    graph: Graph, spoken_for: Int[np.ndarray, "some"], free: Bool[np.ndarray, "nodes"], count: int
) -> list[FirstSuggestion]:
    """`count` of the free nodes, or all of them, the best first, and why. Nothing but the graph is looked at, and
    who was asked for already: `spoken_for`."""
    central = centrality(graph) ** CENTRAL_POWER
    degree = np.diff(graph.adjacency.indptr)
    likeness = _Likeness(graph)
    covered = likeness.to_any(spoken_for)
    candidates = np.flatnonzero(free)
    if len(candidates) > MOST_NODES:  # the best connected, and some of all the others
        by_centrality = candidates[np.argsort(-central[candidates], kind="stable")]
        half = max(MOST_NODES // 2, min(count, len(candidates)))
        others = np.random.default_rng(0).permutation(by_centrality[half:])[: MOST_NODES - half]
        candidates = np.sort(np.concatenate([by_centrality[:half], others]))
    similar = likeness.between(candidates)
    found: list[FirstSuggestion] = []
    left = central[candidates]  # 0 once chosen
    for _ in range(min(count, len(candidates))):
        gain = np.maximum(similar - covered[:, None], 0).sum(axis=0)
        # Where nothing is left to gain, the best connected come first.
        value = (gain + np.finfo(np.float32).eps) * left
        best = int(value.argmax())
        node = int(candidates[best])
        brought = (similar[:, best] > covered) & (similar[:, best] >= ALIKE)
        stands_for = round(float(brought.sum()) * likeness.weight)
        found.append(FirstSuggestion(node, float(gain[best]) * likeness.weight, _reason(stands_for, int(degree[node]))))
        covered = np.maximum(covered, similar[:, best])
        left[best] = 0
    return found


class _Likeness:
    """How alike nodes are to those, all or a sample, that stand for the graph: 1 the same, 0 nothing in common."""

    def __init__(self, graph: Graph) -> None:
        self.looks = appearance(graph).astype(np.float32)
        self.sample, self.width = _sample(graph)
        self.weight = graph.num_nodes / len(self.sample)  # nodes that each of the sample stands for

    def between(self, nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "sample some"]:
        distance = _distances(self.looks[self.sample], self.looks[nodes])
        similar = np.exp(-distance / (2 * self.width))
        similar[self.sample[:, None] == nodes] = 1  # also of a node that has neither features nor edges
        return similar

    def to_any(self, nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "sample"]:
        """To the one of these nodes that is most like it."""
        nearest = np.zeros(len(self.sample), dtype=np.float32)
        for start in range(0, len(nodes), MOST_NODES):
            nearest = np.maximum(nearest, self.between(nodes[start : start + MOST_NODES]).max(axis=1))
        return nearest


@cached_per_graph
def _sample(graph: Graph) -> tuple[Int[np.ndarray, "sample"], float]:
    """Nodes that stand for the graph, and the squared distance within which nodes are alike."""
    looks = appearance(graph).astype(np.float32)
    sample = np.arange(graph.num_nodes)
    if graph.num_nodes > MOST_NODES:
        sample = np.sort(np.random.default_rng(0).choice(graph.num_nodes, MOST_NODES, replace=False))
    distance = _distances(looks[sample], looks[sample])
    place = max(len(sample) // NEAR_SHARE, min(LEAST_NEAR, len(sample) // 4))
    near = np.partition(distance, place, axis=1)[:, place]
    return sample, max(float(np.median(near)), float(np.finfo(np.float32).eps))


def _distances(
    rows: Float[np.ndarray, "rows dimensions"], others: Float[np.ndarray, "others dimensions"]
) -> Float[np.ndarray, "rows others"]:
    """Squared, of rows whose length is one or, where nothing is known of a node, none."""
    lengths = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
    return np.maximum(lengths - 2 * rows @ others.T, 0)


def _reason(stands_for: int, neighbours: int) -> str:
    joined = f"it has {neighbours} neighbours" if neighbours != 1 else "it has 1 neighbour"
    if stands_for > 1:
        return f"It is typical of about {stands_for} nodes that look alike and have no label yet; {joined}."
    return f"Nodes like it have labels already, and of the others it is the best connected; {joined}."
