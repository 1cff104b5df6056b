"""Which nodes to label next, and which given labels are probably wrong.

`suggest` uses a fitted model. Nodes are clustered into as many regions as there will be labels, by features smoothed
over the graph and weighted by uncertainty. Regions that hold a label are skipped, the others are sorted by total
uncertainty, and of the nodes near the centre of a region the one with the highest PageRank is chosen. Nodes are chosen
in rounds of fixed sizes, each as if the nodes of earlier rounds were labelled, so that the first two of ten suggestions
are the two of two.

`first_suggestions` needs no model: it greedily maximises coverage (facility location; Cornuejols, Fisher and Nemhauser,
1977), weighted by centrality,

    argmax_j  sqrt(centrality_j) · Σ_i max(0, s_ij - max over labelled l of s_il),   s_ij = exp(-|x_i - x_j|² / 2σ²),

where x are the smoothed features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.labels import UNLABELED
from mtgcn.linalg.normalisation import relative_adjacency, scaled_features
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import task_of
from mtgcn.shapes import Bool, Float, Int
from mtgcn.splits import Split
from mtgcn.uncertainty.held_out import fits_without, folds
from mtgcn.uncertainty.peer_weights import FittedModel, leading_peers, peer_weights
from mtgcn.uncertainty.warnings import components_without_label

# Settings of smoothed features and centrality.
DIMENSIONS = 50  # number of smoothed features
SMOOTHING_STEPS = 2
RESTART = 0.15  # restart probability of PageRank
PAGERANK_STEPS = 50
# Settings of suggestions with a fitted model.
MAX_CLUSTERED_NODES = 20_000  # larger graphs are sampled by uncertainty
MAX_REGIONS = 2_000
CENTRE_DIVISOR = 8  # the centre of a region consists of one eighth of its nodes
UNCERTAIN = 0.5  # relative entropy from which a node is uncertain
LONGEST_ROW = 160  # maximum number of characters of a row on one line
MIN_WEIGHT = 1e-9  # added to uncertainties used as weights, which may all be 0
# Settings of first suggestions.
MAX_COMPARED_NODES = 4_000  # larger graphs are sampled
BANDWIDTH_DIVISOR, MIN_BANDWIDTH_NODES = 20, 10  # σ: distance to the nearest twentieth of the nodes, at least 10
SIMILAR = 0.5  # smallest similarity of similar nodes
CENTRALITY_POWER = 0.5


@dataclass(frozen=True)
class Suggestion:
    """A node to label, suggested by a model."""

    node: str | int  # id
    index: int  # position in the graph
    score: float  # total uncertainty of the nodes that it represents; 1 for a node with a uniform prediction
    predicted: str  # predicted class
    reason: str
    name: str = ""  # title of the row
    cells: Mapping[str, str] = field(default_factory=dict)  # columns of the node table, as text

    @property
    def title(self) -> str:
        """Name and id."""
        return title_of(self)

    @property
    def row(self) -> str:
        """The cells on one line."""
        cells = (f"{column}: {cell}" for column, cell in self.cells.items() if cell != self.name)
        text = " ".join(" · ".join(cells).split())
        return text if len(text) <= LONGEST_ROW else text[: LONGEST_ROW - 1] + "…"


class Suggestions(list[Suggestion]):
    """A list of suggestions, shown as a table in notebooks."""

    @property
    def header(self) -> list[str]:
        return ["node", *(["row"] if any(one.cells for one in self) else []), "predicted", "score", "why"]

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table."""
        rows = [[one.title, one.row, one.predicted, f"{one.score:.2f}", one.reason] for one in self]
        return rows if "row" in self.header else [[title, *rest] for title, _, *rest in rows]

    def _repr_html_(self) -> str:
        return table_html(self.header, self.rows)


def title_of(one: Suggestion | DoubtfulLabel) -> str:
    return f"{one.name} ({one.node})" if one.name else str(one.node)


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for notebooks."""
    lines = [("th", header), *(("td", row) for row in rows)]
    cells = (f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>" for tag, row in lines)
    return f"<table>{''.join(cells)}</table>"


@dataclass(frozen=True)
class FirstSuggestion:
    """A node to label before there is a model."""

    index: int  # position in the graph
    score: float  # gain in coverage, as a number of nodes
    reason: str


# ------------------------------------------------------------------------------------------------- with a fitted model


def suggest(
    model: FittedModel,
    count: int = 10,
    *,
    labelled: Int[np.ndarray, "labelled"] | None = None,
    free: Bool[np.ndarray, "nodes"] | None = None,
) -> Suggestions:
    """Nodes to label next, most useful first.

    `labelled` are all labelled nodes, by default those of the fit; `free` are the nodes that may be suggested, by
    default all others.
    """
    graph = model.graph_
    labelled = graph.known if labelled is None else labelled
    if free is None:
        free = np.ones(graph.num_nodes, dtype=bool)
        free[labelled] = False
    if not 1 <= count <= free.sum():
        raise InputError(f"count is {count}; give at least 1 and at most {free.sum()}, the nodes without a label")
    uncertainty = uncertainty_of(model.label_distributions_, model.peer_distributions_, peer_weights(model))
    chosen = choose(graph, smoothed_features(graph), centrality(graph), uncertainty, labelled, free, count)
    ids = None if graph.preprocessing is None else graph.preprocessing.id_column
    return Suggestions(
        Suggestion(
            node=np.asarray(graph.node_ids[choice.node]).item(),
            index=choice.node,
            score=choice.uncertainty,
            predicted=graph.class_names[int(model.label_distributions_[choice.node].argmax())],
            reason=_reason(choice, model, uncertainty),
            name="" if graph.node_names is None else graph.node_names[choice.node],
            cells={column: cell for column, cell in graph.node_cells(choice.node).items() if cell and column != ids},
        )
        for choice in chosen
    )


def uncertainty_of(
    probabilities: Float[np.ndarray, "nodes classes"],
    peers: Float[np.ndarray, "peers nodes classes"] | None,
    weights: Float[np.ndarray, "peers"] | None = None,
) -> Float[np.ndarray, "nodes"]:
    """Entropy of the prediction plus the Jensen-Shannon divergence of the peers, weighted if weights are given.

    The unit is the entropy of the uniform distribution.

    >>> uncertainty_of(np.array([[0.5, 0.5], [1.0, 0.0]]), None).round(2)
    array([1., 0.])
    """
    uncertainty = _entropy(probabilities)
    if peers is not None:
        mean = np.average(peers, axis=0, weights=weights)
        uncertainty = uncertainty + np.maximum(_entropy(mean) - np.average(_entropy(peers), 0, weights), 0)
    return uncertainty


@cached_per_graph
def smoothed_features(graph: Graph) -> Float[np.ndarray, "nodes dimensions"]:
    """Features, or structural features of a graph without features, reduced to 50 dimensions and averaged over
    neighbourhoods of two steps. Rows have unit length."""
    features: Any = (
        with_structural_features(graph).features if graph.features is None else scaled_features(graph, "length")
    )
    if features.shape[1] > DIMENSIONS and graph.num_nodes > DIMENSIONS:
        from sklearn.decomposition import TruncatedSVD

        features = TruncatedSVD(DIMENSIONS, random_state=0).fit_transform(features)
    rows: np.ndarray = features.toarray() if sp.issparse(features) else np.asarray(features)
    with_self = relative_adjacency(graph) + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
    mean_around = sp.diags_array(1 / with_self.sum(axis=1)) @ with_self
    for _ in range(SMOOTHING_STEPS):
        rows = mean_around @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    smoothed = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    smoothed.setflags(write=False)  # cached
    return smoothed


def centrality(graph: Graph) -> Float[np.ndarray, "nodes"]:
    """PageRank."""
    degree = graph.adjacency.sum(axis=1, dtype=np.float64)  # double precision, for very small weights
    leave = (1 - RESTART) * np.divide(1, degree, out=np.zeros(graph.num_nodes), where=degree > 0)
    rank = np.full(graph.num_nodes, 1 / graph.num_nodes)
    for _ in range(PAGERANK_STEPS):  # the adjacency is symmetric
        rank = graph.adjacency @ (leave * rank) + RESTART / graph.num_nodes
    return rank


@dataclass(frozen=True)
class Choice:
    """A chosen node and the region it represents."""

    node: int
    region: Int[np.ndarray, "some"]
    uncertainty: float  # total uncertainty of the region
    is_component: bool  # whether the region is a whole component without labels


def choose(
    graph: Graph,
    features: Float[np.ndarray, "nodes dimensions"],
    central: Float[np.ndarray, "nodes"],
    uncertainty: Float[np.ndarray, "nodes"],
    labelled: Int[np.ndarray, "labelled"],
    free: Bool[np.ndarray, "nodes"],
    count: int,
) -> list[Choice]:
    """Choose `count` of the free nodes, best first. Neighbours are chosen only if no other node is left."""
    free, apart = free.copy(), free.copy()  # nodes that may be chosen; those without a chosen neighbour
    chosen: list[Choice] = []

    def choose_from(region: Int[np.ndarray, "some"], *, is_component: bool = False) -> None:
        """Choose the most central node near the centre of a region, unless all are neighbours of chosen nodes."""
        candidates = region[apart[region]]
        if not len(candidates):
            return
        centre = np.average(features[region], axis=0, weights=uncertainty[region] + MIN_WEIGHT)
        by_distance = np.argsort(((features[candidates] - centre) ** 2).sum(axis=1), kind="stable")
        near = candidates[by_distance[: max(1, len(region) // CENTRE_DIVISOR)]]
        node = int(near[central[near].argmax()])
        apart[graph.adjacency[[node]].indices] = False
        apart[node] = free[node] = False
        chosen.append(Choice(node, region, float(uncertainty[region].sum()), is_component))

    def covered() -> Int[np.ndarray, "covered"]:
        return np.union1d(labelled, [choice.node for choice in chosen]).astype(np.int64)

    size, next_size = max(1, graph.num_classes), max(1, graph.num_classes)
    while len(chosen) < count and free.any():  # rounds: twice one node per class, then doubled
        goal = len(chosen) + min(size, int(free.sum()))
        # 1  Components that would have a label if labels were spread evenly, by decreasing size.
        component, sizes = components_without_label(graph, covered())
        fair_share = graph.num_nodes / (len(covered()) + goal - len(chosen))
        for which in np.argsort(-sizes, kind="stable"):
            if sizes[which] < max(fair_share, 2) or len(chosen) == goal:
                break
            choose_from(np.flatnonzero(component == which), is_component=True)
        # 2  Regions by uncertainty.
        if len(chosen) < goal:
            for region in _regions(features, uncertainty, covered(), len(covered()) + goal - len(chosen)):
                if len(chosen) < goal:
                    choose_from(region)
        # 3  Single nodes by uncertainty.
        for nodes in (apart, free):
            for node in np.argsort(-uncertainty, kind="stable"):
                if len(chosen) == goal:
                    break
                if nodes[node]:
                    apart[node] = True
                    choose_from(np.array([node]))
        size, next_size = next_size, 2 * next_size
    return chosen[:count]


def _regions(features: np.ndarray, uncertainty: np.ndarray, labelled: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Clusters without a label, by decreasing uncertainty."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    nodes = np.arange(len(uncertainty))
    if len(nodes) > MAX_CLUSTERED_NODES:
        share = (uncertainty + MIN_WEIGHT) / (uncertainty + MIN_WEIGHT).sum()
        drawn = np.random.default_rng(0).choice(len(uncertainty), MAX_CLUSTERED_NODES, replace=False, p=share)
        nodes = np.union1d(drawn, labelled)
    number = min(number, MAX_REGIONS, len(nodes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows give fewer clusters
        clusters = KMeans(number, n_init=1, random_state=0)
        region = clusters.fit(features[nodes], sample_weight=uncertainty[nodes] + MIN_WEIGHT).labels_
    mass = np.bincount(region, uncertainty[nodes], minlength=number)
    mass[region[np.isin(nodes, labelled)]] = -1
    for which in np.argsort(-mass, kind="stable"):
        if mass[which] < 0:
            return
        yield nodes[region == which]


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    """Entropy in units of the entropy of the uniform distribution."""
    logarithms = np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))
    parts = np.where(probabilities > 0, -probabilities * logarithms, 0)
    return parts.sum(axis=-1) / np.log(max(2, probabilities.shape[-1]))


def _reason(choice: Choice, model: FittedModel, uncertainty: np.ndarray) -> str:
    """One sentence: which nodes the label represents, and the current prediction."""
    names, probabilities = model.graph_.class_names, model.label_distributions_[choice.node]
    size = len(choice.region)
    if choice.is_component:
        place = f"Its component of {size} nodes has no label"
    elif size > 1:
        uncertain = int((uncertainty[choice.region] > UNCERTAIN).sum())
        place = f"It represents {size} similar nodes without a label, {uncertain} of them uncertain"
    else:
        place = "It is among the most uncertain nodes"
    if model.peer_distributions_ is not None:
        weights = peer_weights(model)
        leading = slice(None) if weights is None else leading_peers(weights)
        predicted = dict.fromkeys(model.peer_distributions_[leading, choice.node].argmax(axis=1).tolist())
        if len(predicted) > 1:
            return f"{place}; the peers disagree: {' or '.join(repr(names[one]) for one in predicted)}."
    first, second = (f"{names[one]!r} ({100 * probabilities[one]:.0f} %)" for one in np.argsort(-probabilities)[:2])
    if uncertainty[choice.node] > UNCERTAIN:
        return f"{place}; it may be {first} or {second}."
    return f"{place}; it is predicted as {first}."


# ---------------------------------------------------------------------------------------------------- without a model


def first_suggestions(
    graph: Graph, labelled: Int[np.ndarray, "some"], free: Bool[np.ndarray, "nodes"], count: int
) -> list[FirstSuggestion]:
    """At most `count` of the free nodes, best first, from the graph alone. `labelled` nodes count as covered."""
    features = smoothed_features(graph).astype(np.float32)
    sample, squared_bandwidth = _sample_and_bandwidth(graph)
    nodes_per_sample = graph.num_nodes / len(sample)

    def similarity(nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "sample some"]:
        similar = np.exp(-_squared_distances(features[sample], features[nodes]) / (2 * squared_bandwidth))
        similar[sample[:, None] == nodes] = 1  # also if a node has no features or edges
        return similar

    central = centrality(graph) ** CENTRALITY_POWER
    degree = np.diff(graph.adjacency.indptr)
    covered = np.zeros(len(sample), dtype=np.float32)  # similarity to the nearest labelled node
    for start in range(0, len(labelled), MAX_COMPARED_NODES):
        covered = np.maximum(covered, similarity(labelled[start : start + MAX_COMPARED_NODES]).max(axis=1))
    candidates = np.flatnonzero(free)
    if len(candidates) > MAX_COMPARED_NODES:  # the most central nodes, and a sample of the others
        by_centrality = candidates[np.argsort(-central[candidates], kind="stable")]
        half = max(MAX_COMPARED_NODES // 2, min(count, len(candidates)))
        others = np.random.default_rng(0).permutation(by_centrality[half:])[: MAX_COMPARED_NODES - half]
        candidates = np.sort(np.concatenate([by_centrality[:half], others]))
    similar = similarity(candidates)
    found: list[FirstSuggestion] = []
    left = central[candidates]  # 0 for chosen nodes
    for _ in range(min(count, len(candidates))):
        gain = np.maximum(similar - covered[:, None], 0).sum(axis=0)
        # Without a gain, the most central node is chosen.
        best = int(((gain + np.finfo(np.float32).eps) * left).argmax())
        node = int(candidates[best])
        improved = (similar[:, best] > covered) & (similar[:, best] >= SIMILAR)
        represents = round(float(improved.sum()) * nodes_per_sample)
        neighbours = f"it has {degree[node]} neighbour{'' if degree[node] == 1 else 's'}"
        reason = (
            f"It is typical of about {represents} similar nodes without a label; {neighbours}."
            if represents > 1
            else f"Similar nodes have labels already, and it is the most central of the others; {neighbours}."
        )
        found.append(FirstSuggestion(node, float(gain[best]) * nodes_per_sample, reason))
        covered = np.maximum(covered, similar[:, best])
        left[best] = 0
    return found


@cached_per_graph
def _sample_and_bandwidth(graph: Graph) -> tuple[Int[np.ndarray, "sample"], float]:
    """The nodes that similarity is measured to, and its squared bandwidth."""
    features = smoothed_features(graph).astype(np.float32)
    sample = np.arange(graph.num_nodes)
    if graph.num_nodes > MAX_COMPARED_NODES:
        sample = np.sort(np.random.default_rng(0).choice(graph.num_nodes, MAX_COMPARED_NODES, replace=False))
    distance = _squared_distances(features[sample], features[sample])
    place = max(len(sample) // BANDWIDTH_DIVISOR, min(MIN_BANDWIDTH_NODES, len(sample) // 4))
    near = np.partition(distance, place, axis=1)[:, place]
    return sample, max(float(np.median(near)), float(np.finfo(np.float32).eps))


def _squared_distances(rows: np.ndarray, others: np.ndarray) -> Float[np.ndarray, "rows others"]:
    lengths = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
    return np.maximum(lengths - 2 * rows @ others.T, 0)


# ----------------------------------------------------------------------------------------------------- doubtful labels


@dataclass(frozen=True)
class DoubtfulLabel:
    """A given label and its held-out prediction."""

    node: str | int  # id
    index: int  # position in the graph
    label: str  # the given class
    probability: float  # held-out probability of the given class
    predicted: str  # most probable class; may be the given one
    predicted_probability: float
    reason: str
    name: str = ""  # title of the row


class DoubtfulLabels(list[DoubtfulLabel]):
    """A list of doubtful labels, shown as a table in notebooks."""

    header = ("node", "label", "probability", "predicted", "why")

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table."""
        return [[title_of(one), one.label, f"{100 * one.probability:.1f} %", one.predicted, one.reason] for one in self]

    def _repr_html_(self) -> str:
        return table_html(self.header, self.rows)


def doubtful_labels(
    model: FittedModel, count: int | None = None, *, seed: int = 0, device: torch.device | str = "cpu"
) -> DoubtfulLabels:
    """The `count` most doubtful given labels, or all that can be held out; most doubtful first.

    Labels are ranked by the probability of the given class when they are held out. The only label of a class is
    left out.
    """
    if count is not None and count < 1:
        raise InputError(f"count is {count}; give at least 1")
    graph = model.graph_
    nodes, probabilities = probabilities_without_label(model, seed=seed, device=device)
    order = np.argsort(probabilities[np.arange(len(nodes)), graph.labels[nodes]], kind="stable")[:count]
    return DoubtfulLabels(_doubtful(model, int(nodes[one]), probabilities[one]) for one in order)


def probabilities_without_label(
    model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu"
) -> tuple[Int[np.ndarray, "labels"], Float[np.ndarray, "labels classes"]]:
    """The labelled nodes, and the class probabilities of each without its label: ten folds fitted in one stack."""
    graph, method = model.graph_, model.method_
    held_out = folds(graph, seed)
    if model.parameters_ is not None:  # reuse the embeddings of the fit
        whole = Split(graph.known, graph.known[:0], graph.known[:0])
        method.remember(model.parameters_, task_of(method, graph, [whole], seed, device))
    fits = fits_without(graph, method, held_out, seed, device).probabilities
    found = np.concatenate([fit[nodes] for fit, nodes in zip(fits, held_out, strict=True)])
    nodes = np.concatenate(held_out)
    order = np.argsort(nodes)
    return nodes[order], found[order]


def _doubtful(model: FittedModel, node: int, probabilities: Float[np.ndarray, "classes"]) -> DoubtfulLabel:
    """The reason is one sentence: the prediction without the label, and the neighbours' classes, given or predicted."""
    graph, names = model.graph_, model.graph_.class_names
    given, predicted = int(graph.labels[node]), int(probabilities.argmax())
    near = np.setdiff1d(graph.adjacency[[node]].indices, [node])
    classes = np.where(
        graph.labels[near] == UNLABELED, model.label_distributions_[near].argmax(axis=1), graph.labels[near]
    )
    others = int((classes != given).sum())
    verb = "is also" if predicted == given else "is"
    around = f"{others} of its {len(near)} neighbours {'is' if others == 1 else 'are'} not {names[given]!r}"
    return DoubtfulLabel(
        node=np.asarray(graph.node_ids[node]).item(),
        index=node,
        label=names[given],
        probability=float(probabilities[given]),
        predicted=names[predicted],
        predicted_probability=float(probabilities[predicted]),
        reason=f"Without its label it {verb} predicted as {names[predicted]!r} "
        f"({100 * probabilities[predicted]:.0f} %); {around if len(near) else 'it has no neighbours'}.",
        name="" if graph.node_names is None else graph.node_names[node],
    )
