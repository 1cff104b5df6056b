"""Which nodes to label next: well-connected ones from the middle of regions that are in doubt and have no label yet.

The nodes are divided into as many regions as there will be labels, by what they and the nodes around them look like;
nodes in doubt weigh more, so that there are more regions where there is more doubt. Regions that hold a label already
are passed over, and of the others those with the most doubt come first. Of the nodes in the middle of a region the
one that most walks over the graph come by is taken, since its label reaches the most. docs/trust.md shows what this
gains over picking at random, and which other rules were tried.

They are chosen in rounds: first as many as there are classes, then as many again, then twice, four times as many, each
round as if those before it were labelled. How many are asked for decides only where to stop, so that the first two of
ten are the two of two.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import scaled_features
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.shapes import Bool, Float, Int
from mtgcn.uncertainty.peer_votes import leading_peers, vote_weights

if TYPE_CHECKING:
    from mtgcn.uncertainty.fitted_model import FittedModel

DIMENSIONS = 50  # in which nodes are compared
STEPS = 2  # a node is known by those up to so many edges away
MOST_NODES = 20_000  # that are divided into regions; of larger graphs a sample, nodes in doubt rather than others
MOST_REGIONS = 2_000
MIDDLE = 8  # the middle of a region is this part of its nodes
RESTART = 0.15  # of the walks that show which nodes are central
WALK_STEPS = 50
UNCERTAIN = 0.5  # of what a node is of which nothing is known


@dataclass(frozen=True)
class Suggestion:
    """A node worth a label."""

    node: str | int  # its id
    index: int  # its place in the graph
    score: float  # the doubt of all nodes that the label would speak for; 1 is a node of which nothing is known
    predicted: str  # the class the model takes it for
    reason: str


class Suggestions(list[Suggestion]):
    """Suggestions in their order, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        names = ("node", "predicted", "score", "why")
        rows = [(str(one.node), one.predicted, f"{one.score:.2f}", one.reason) for one in self]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Choice:
    """A chosen node and the nodes that it is to speak for."""

    node: int
    region: Int[np.ndarray, "some"]
    uncertainty: float  # of the region
    is_component: bool  # whether the region is a whole component that had no label


def suggest(
    model: FittedModel,
    count: int = 10,
    *,
    labelled: Int[np.ndarray, "labelled"] | None = None,
    free: Bool[np.ndarray, "nodes"] | None = None,
) -> Suggestions:
    """The nodes whose labels should teach the model most, the best first, and why. Where more were labelled since the
    fit, `labelled` are all of them; `free` are those that may be suggested, if not all others."""
    graph = model.graph_
    labelled = graph.known if labelled is None else labelled
    if free is None:
        free = np.ones(graph.num_nodes, dtype=bool)
        free[labelled] = False
    if not 1 <= count <= free.sum():
        raise InputError(f"count is {count}; give at least 1 and at most {free.sum()}, the nodes without a label")
    uncertainty = uncertainty_of(model.label_distributions_, model.peer_distributions_, vote_weights(model))
    chosen = choose(graph, appearance(graph), centrality(graph), uncertainty, labelled, free, count)
    return Suggestions(
        Suggestion(
            node=np.asarray(graph.node_ids[choice.node]).item(),
            index=choice.node,
            score=choice.uncertainty,
            predicted=graph.class_names[int(model.label_distributions_[choice.node].argmax())],
            reason=_reason(choice, model, uncertainty),
        )
        for choice in chosen
    )


def uncertainty_of(
    probabilities: Float[np.ndarray, "nodes classes"],
    peers: Float[np.ndarray, "peers nodes classes"] | None,
    weights: Float[np.ndarray, "peers"] | None = None,
) -> Float[np.ndarray, "nodes"]:
    """How little is known of each node: the entropy of its probabilities and the disagreement of the peers.

    The unit is the entropy of not knowing anything. Disagreement is what the entropy of the peers' mean exceeds the
    mean of their entropies by (Jensen-Shannon); both means are weighted where votes have weights.

    >>> uncertainty_of(np.array([[0.5, 0.5], [1.0, 0.0]]), None).round(2)
    array([1., 0.])
    """
    uncertainty = _entropy(probabilities)
    if peers is not None:
        together = np.average(peers, axis=0, weights=weights)
        uncertainty = uncertainty + np.maximum(_entropy(together) - np.average(_entropy(peers), 0, weights), 0)
    return uncertainty


@cached_per_graph
def appearance(graph: Graph) -> Float[np.ndarray, "nodes dimensions"]:
    """What each node and those around it look like: features, or places in the graph where there are none, averaged
    over neighbours, neighbours' neighbours and the node itself. Rows have length one."""
    features: Any = (
        with_structural_features(graph).features if graph.features is None else scaled_features(graph, "length")
    )
    if features.shape[1] > DIMENSIONS and graph.num_nodes > DIMENSIONS:
        from sklearn.decomposition import TruncatedSVD

        features = TruncatedSVD(DIMENSIONS, random_state=0).fit_transform(features)
    rows: np.ndarray = features.toarray() if sp.issparse(features) else np.asarray(features)
    with_self = graph.adjacency + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
    mean_around = sp.diags_array(1 / with_self.sum(axis=1)) @ with_self
    for _ in range(STEPS):
        rows = mean_around @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    looks = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    looks.setflags(write=False)  # it is shared
    return looks


def centrality(graph: Graph) -> Float[np.ndarray, "nodes"]:
    """PageRank: how often each node is met by walks that follow the edges and now and then start again anywhere."""
    degree = graph.adjacency.sum(axis=1, dtype=np.float64)  # of which even the smallest can be divided by
    leave = (1 - RESTART) * np.divide(1, degree, out=np.zeros(graph.num_nodes), where=degree > 0)
    rank = np.full(graph.num_nodes, 1 / graph.num_nodes)
    for _ in range(WALK_STEPS):  # the adjacency is symmetric
        rank = graph.adjacency @ (leave * rank) + RESTART / graph.num_nodes
    return rank


def choose(
    graph: Graph,
    looks: Float[np.ndarray, "nodes dimensions"],
    central: Float[np.ndarray, "nodes"],
    uncertainty: Float[np.ndarray, "nodes"],
    labelled: Int[np.ndarray, "labelled"],
    free: Bool[np.ndarray, "nodes"],
    count: int,
) -> list[Choice]:
    """`count` of the free nodes, the first of as many as could be asked for. Two neighbours are chosen only if nobody
    else is left."""
    chooser = _Chooser(graph, looks, central, uncertainty, free.copy(), free.copy())
    chosen: list[Choice] = []
    for size in _rounds(graph.num_classes):
        if len(chosen) >= count or not chooser.free.any():
            return chosen[:count]
        spoken_for = np.union1d(labelled, [choice.node for choice in chosen]).astype(np.int64)
        chosen += chooser.round(spoken_for, min(size, int(chooser.free.sum())))
    raise AssertionError("there are rounds without end")


def _rounds(classes: int) -> Iterator[int]:
    """How many nodes are chosen in each round, whatever is asked for."""
    yield (size := max(1, classes))
    while True:
        yield size
        size *= 2


@dataclass(frozen=True)
class _Chooser:
    graph: Graph
    looks: Float[np.ndarray, "nodes dimensions"]
    central: Float[np.ndarray, "nodes"]
    uncertainty: Float[np.ndarray, "nodes"]
    free: Bool[np.ndarray, "nodes"]  # who may be chosen still
    apart: Bool[np.ndarray, "nodes"]  # free, and not next to a chosen node

    def round(self, labelled: Int[np.ndarray, "labelled"], count: int) -> list[Choice]:
        """`count` nodes more. First come large components without a label, since nothing else speaks for them, then
        regions by their doubt."""
        chosen: list[Choice] = []
        for component in _large_components_without_label(self.graph, labelled, count):
            if len(chosen) < count:
                chosen += self.middle_of(component, is_component=True)
        spoken_for = np.union1d(labelled, [choice.node for choice in chosen]).astype(np.int64)
        for region in _regions(self.looks, self.uncertainty, spoken_for, len(spoken_for) + count - len(chosen)):
            if len(chosen) < count:
                chosen += self.middle_of(region)
        for nodes in (self.apart, self.free):  # what regions did not give, nodes in doubt do, one by one
            for node in np.argsort(-self.uncertainty, kind="stable"):
                if len(chosen) == count:
                    return chosen
                if nodes[node]:
                    self.apart[node] = True
                    chosen += self.middle_of(np.array([node]))
        return chosen

    def middle_of(self, region: Int[np.ndarray, "some"], *, is_component: bool = False) -> list[Choice]:
        """The best connected of the nodes in the middle of a region; none where all are next to chosen ones."""
        candidates = region[self.apart[region]]
        if not len(candidates):
            return []
        middle = np.average(self.looks[region], axis=0, weights=self.uncertainty[region] + _TINY)
        by_distance = np.argsort(((self.looks[candidates] - middle) ** 2).sum(axis=1), kind="stable")
        near = candidates[by_distance[: max(1, len(region) // MIDDLE)]]
        node = int(near[self.central[near].argmax()])
        self.apart[_neighbours(self.graph, node)] = False
        self.apart[node] = self.free[node] = False
        return [Choice(node, region, float(self.uncertainty[region].sum()), is_component)]


def _large_components_without_label(graph: Graph, labelled: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Those that would have a label if labels lay evenly; the largest first."""
    number, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component, minlength=number)
    sizes[component[labelled]] = 0
    fair_share = graph.num_nodes / (len(labelled) + count)
    for which in np.argsort(-sizes, kind="stable"):
        if sizes[which] < max(fair_share, 2):
            return
        yield np.flatnonzero(component == which)


def _regions(looks: np.ndarray, uncertainty: np.ndarray, labelled: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Regions without a label, those with the most doubt first."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    nodes = _sample(uncertainty, labelled)
    number = min(number, MOST_REGIONS, len(nodes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # nodes that look the same make fewer regions, rightly
        clusters = KMeans(number, n_init=1, random_state=0).fit(looks[nodes], sample_weight=uncertainty[nodes] + _TINY)
    region = clusters.labels_
    mass = np.bincount(region, uncertainty[nodes], minlength=number)
    mass[region[np.isin(nodes, labelled)]] = -1
    for which in np.argsort(-mass, kind="stable"):
        if mass[which] < 0:
            return
        yield nodes[region == which]


_TINY = 1e-9  # what a node weighs that is in no doubt at all, since not all weights may be 0


def _sample(uncertainty: np.ndarray, labelled: np.ndarray) -> Int[np.ndarray, "some"]:
    if len(uncertainty) <= MOST_NODES:
        return np.arange(len(uncertainty))
    share = (uncertainty + _TINY) / (uncertainty + _TINY).sum()
    drawn = np.random.default_rng(0).choice(len(uncertainty), MOST_NODES, replace=False, p=share)
    return np.union1d(drawn, labelled)


def _neighbours(graph: Graph, node: int) -> np.ndarray:
    return graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    """In units of the entropy of not knowing anything."""
    parts = np.where(
        probabilities > 0, -probabilities * np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny)), 0
    )
    return parts.sum(axis=-1) / np.log(max(2, probabilities.shape[-1]))


def _reason(choice: Choice, model: FittedModel, uncertainty: np.ndarray) -> str:
    """One sentence: what the label would speak for, and what is thought of the node now."""
    names, probabilities, peers = (
        model.graph_.class_names,
        model.label_distributions_[choice.node],
        model.peer_distributions_,
    )
    size = len(choice.region)
    if choice.is_component:
        place = f"its component of {size} nodes has no label at all"
    elif size > 1:
        unsure = int((uncertainty[choice.region] > UNCERTAIN).sum())
        place = f"it stands for {size} nodes that look alike and have no label, {unsure} of them in doubt"
    else:
        place = "it is among the nodes in most doubt"
    weights = vote_weights(model)
    heard = slice(None) if weights is None else leading_peers(weights)
    votes = () if peers is None else tuple(dict.fromkeys(peers[heard, choice.node].argmax(axis=1).tolist()))
    first, second = np.argsort(-probabilities)[:2]
    if len(votes) > 1:
        thought = "the peers disagree about it: " + " or ".join(repr(names[vote]) for vote in votes)
    elif uncertainty[choice.node] > UNCERTAIN:
        likely = [f"{names[one]!r} ({_percent(probabilities[one])})" for one in (first, second)]
        thought = f"it may be {likely[0]} or {likely[1]}"
    else:
        thought = f"it is taken for {names[first]!r} ({_percent(probabilities[first])})"
    return f"{place[0].upper()}{place[1:]}; {thought}."


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f} %"
