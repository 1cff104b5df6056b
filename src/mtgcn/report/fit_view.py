"""What there is to see of a fit, in numbers: the same for the page and for the figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import FittedModel, PeerContribution, contributions, peer_weights
from mtgcn.uncertainty.suggestions import Suggestion, smoothed_features, suggest
from mtgcn.uncertainty.warnings import model_warnings

MOST_ON_MAP = 20_000  # nodes; more could not be told apart, and would make a page of many megabytes
SUGGESTIONS = 10
HISTOGRAM_BINS = 20
SURE, UNSURE = 0.8, 0.5  # probabilities of the class predicted: from here on sure, below this in doubt
Progress = Callable[[str, int, int], None]  # what is done, and how many steps of how many


@dataclass(frozen=True, eq=False)
class Map:
    """Nodes placed so that those that look alike, and of which the same is believed, lie together."""

    nodes: Int[np.ndarray, "shown"]
    places: Float[np.ndarray, "shown 2"]  # x from 0 to 1, y from 0 to at most 1
    predicted: Int[np.ndarray, "shown"]
    confidence: Float[np.ndarray, "shown"]
    given: Int[np.ndarray, "shown"]  # the class given; -1 where none was
    suggested: Int[np.ndarray, "suggestions"]  # rows of the nodes most worth a look, the best first


@dataclass(frozen=True, eq=False)
class Contradiction:
    """A given label that the model does not believe."""

    node: str | int
    given: str
    predicted: str
    probability: float  # of the class predicted


@dataclass(frozen=True, eq=False)
class FitView:
    class_names: tuple[str, ...]
    given_counts: Int[np.ndarray, "classes"]
    predicted_counts: Int[np.ndarray, "classes"]  # of the nodes without a label
    confidence: Float[np.ndarray, "unlabelled"]
    map: Map
    history: Mapping[str, Float[np.ndarray, "epochs peers"]]
    suggestions: list[Suggestion]
    contradictions: list[Contradiction]
    warnings: list[str]
    peers: list[PeerContribution]  # the largest vote first; empty where votes have no weights
    teaching: float | None  # how much the peers taught each other, 0 to 1


def fit_view(model: FittedModel, seed: int = 0, progress: Progress | None = None) -> FitView:
    """Everything the pictures of this fit are made of."""
    tell = progress or (lambda what, done, total: None)
    graph, probabilities = model.graph_, model.label_distributions_
    classes = graph.num_classes
    tell("choosing nodes worth a look", 0, 0)
    rest = np.setdiff1d(np.arange(graph.num_nodes), graph.known)
    suggestions = suggest(model, min(SUGGESTIONS, len(rest))) if len(rest) else []
    shown = shown_nodes(graph.num_nodes, [*(one.index for one in suggestions), *graph.known], seed)
    return FitView(
        class_names=graph.class_names,
        given_counts=graph.label_counts,
        predicted_counts=np.bincount(probabilities[rest].argmax(axis=1), minlength=classes),
        confidence=probabilities[rest].max(axis=1),
        map=Map(
            nodes=shown,
            places=_places(model, shown, seed, tell),
            predicted=probabilities[shown].argmax(axis=1),
            confidence=probabilities[shown].max(axis=1),
            given=graph.labels[shown],
            suggested=np.searchsorted(shown, [one.index for one in suggestions]),
        ),
        history=model.history_,
        suggestions=suggestions,
        contradictions=_contradictions(model),
        warnings=model_warnings(model),
        peers=[] if model.peer_report_ is None else contributions(model.peer_report_),
        teaching=None if model.peer_report_ is None else float(model.peer_report_.teaching[0]),
    )


def histogram(confidence: Float[np.ndarray, "nodes"], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """How many nodes lie between which confidences; nothing lies below 1 / classes."""
    edges = np.linspace(1 / max(2, classes), 1, HISTOGRAM_BINS + 1)
    counts, _ = np.histogram(np.clip(confidence, edges[0], 1), edges)
    return counts, edges


def shown_nodes(nodes: int, always: list[int], seed: int) -> Int[np.ndarray, "shown"]:
    """Those that a map shows: all of them or, of very many, some of which these are always among."""
    if nodes <= MOST_ON_MAP:
        return np.arange(nodes)
    kept = np.unique(np.array(always[:MOST_ON_MAP], dtype=np.int64))
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(nodes), kept))
    return np.sort(np.concatenate([kept, others[: MOST_ON_MAP - len(kept)]]))


def _places(
    model: FittedModel, shown: Int[np.ndarray, "shown"], seed: int, tell: Progress
) -> Float[np.ndarray, "shown 2"]:
    tell("finding nodes that are alike", 0, 0)
    rows = map_rows(model, shown)
    return layout_2d(rows, seed=seed, progress=lambda done, total: tell("placing nodes on the map", done, total))


def map_rows(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown columns"]:
    """What places on the map follow: what nodes look like and what the peers believe of them, in equal parts."""
    looks, votes = smoothed_features(model.graph_)[shown], voted_rows(model, shown)
    return np.concatenate([_of_unit_scale(looks), _of_unit_scale(votes)], axis=1)


def voted_rows(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown votes"]:
    """What the peers believe of nodes, as rows whose distances are Hellinger's; a peer counts as much as its vote."""
    if model.peer_distributions_ is None:
        return np.sqrt(model.label_distributions_[shown])
    peers, weights = model.peer_distributions_[:, shown], peer_weights(model)
    votes = peers if weights is None else weights[:, None, None] * peers
    return np.concatenate(list(np.sqrt(votes)), axis=1)


def _of_unit_scale(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=1).mean())
    return centred / scale if scale > 0 else centred


def _contradictions(model: FittedModel) -> list[Contradiction]:
    graph, probabilities = model.graph_, model.label_distributions_
    known = graph.known
    predicted = probabilities[known].argmax(axis=1)
    wrong = np.flatnonzero(predicted != graph.labels[known])
    surest = wrong[np.argsort(-probabilities[known[wrong], predicted[wrong]], kind="stable")][:SUGGESTIONS]
    return [
        Contradiction(
            node=np.asarray(graph.node_ids[known[place]]).item(),
            given=graph.class_names[graph.labels[known[place]]],
            predicted=graph.class_names[predicted[place]],
            probability=float(probabilities[known[place], predicted[place]]),
        )
        for place in surest
    ]
