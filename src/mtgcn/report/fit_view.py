"""The data of the charts of a fit, shared by page, figure and studio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import FittedModel, PeerContribution, contributions, peer_weights
from mtgcn.uncertainty.suggestions import Suggestion, smoothed_features, suggest
from mtgcn.uncertainty.warnings import model_warnings

MAX_ON_MAP = 20_000  # nodes; more overlap, and make pages of many megabytes
SUGGESTIONS = 10
HISTOGRAM_BINS = 20
SURE, UNSURE = 0.8, 0.5  # probability of the predicted class: confident from SURE on, uncertain below UNSURE
Progress = Callable[[str, int, int], None]  # step, number done, total (0: unknown)


@dataclass(frozen=True, eq=False)
class Map:
    """A 2-d layout in which nodes with similar features and predictions are close."""

    nodes: Int[np.ndarray, "shown"]
    places: Float[np.ndarray, "shown 2"]  # x from 0 to 1, y from 0 to at most 1
    predicted: Int[np.ndarray, "shown"]
    confidence: Float[np.ndarray, "shown"]
    given: Int[np.ndarray, "shown"]  # given class; -1: unlabelled
    suggested: Int[np.ndarray, "suggestions"]  # rows of the suggested nodes, best first


@dataclass(frozen=True, eq=False)
class FitView:
    class_names: tuple[str, ...]
    given_counts: Int[np.ndarray, "classes"]
    predicted_counts: Int[np.ndarray, "classes"]  # of the unlabelled nodes
    confidence: Float[np.ndarray, "unlabelled"]
    map: Map
    history: Mapping[str, Float[np.ndarray, "epochs peers"]]
    suggestions: list[Suggestion]
    contradictions: list[tuple[str, str, str, float]]  # node, given and predicted class, probability of the latter
    warnings: list[str]
    peers: list[PeerContribution]  # largest weight first; empty for methods without peer weights
    teaching: float | None  # strength of mutual teaching, 0 to 1


def fit_view(model: FittedModel, seed: int = 0, progress: Progress | None = None) -> FitView:
    """The data of all charts of a fit."""
    report = progress or (lambda what, done, total: None)
    graph, probabilities = model.graph_, model.label_distributions_
    classes = graph.num_classes
    report("selecting nodes to label", 0, 0)
    rest = np.setdiff1d(np.arange(graph.num_nodes), graph.known)
    suggestions = suggest(model, min(SUGGESTIONS, len(rest))) if len(rest) else []
    shown = shown_nodes(graph.num_nodes, [*(one.index for one in suggestions), *graph.known], seed)
    report("finding similar nodes", 0, 0)
    rows = map_rows(model, shown)
    places = layout_2d(rows, seed=seed, progress=lambda done, total: report("placing nodes on the map", done, total))
    return FitView(
        class_names=graph.class_names,
        given_counts=graph.label_counts,
        predicted_counts=np.bincount(probabilities[rest].argmax(axis=1), minlength=classes),
        confidence=probabilities[rest].max(axis=1),
        map=Map(
            nodes=shown,
            places=places,
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
    """Counts and bin edges of the confidence, which is at least 1 / classes."""
    edges = np.linspace(1 / max(2, classes), 1, HISTOGRAM_BINS + 1)
    counts, _ = np.histogram(np.clip(confidence, edges[0], 1), edges)
    return counts, edges


def shown_nodes(nodes: int, always: list[int], seed: int) -> Int[np.ndarray, "shown"]:
    """The nodes on the map: all, or a random sample of a large graph that contains the nodes `always`."""
    if nodes <= MAX_ON_MAP:
        return np.arange(nodes)
    kept = np.unique(np.array(always[:MAX_ON_MAP], dtype=np.int64))
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(nodes), kept))
    return np.sort(np.concatenate([kept, others[: MAX_ON_MAP - len(kept)]]))


def map_rows(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown columns"]:
    """The input of the layout: smoothed features and predictions of the peers, equally scaled."""
    features, predictions = smoothed_features(model.graph_)[shown], weighted_predictions(model, shown)
    return np.concatenate([_of_unit_scale(features), _of_unit_scale(predictions)], axis=1)


def weighted_predictions(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown columns"]:
    """Predictions of the peers as rows with Hellinger distances, weighted by the peers."""
    if model.peer_distributions_ is None:
        return np.sqrt(model.label_distributions_[shown])
    peers, weights = model.peer_distributions_[:, shown], peer_weights(model)
    weighted = peers if weights is None else weights[:, None, None] * peers
    return np.concatenate(list(np.sqrt(weighted)), axis=1)


def _of_unit_scale(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=1).mean())
    return centred / scale if scale > 0 else centred


def _contradictions(model: FittedModel) -> list[tuple[str, str, str, float]]:
    """Given labels that differ from the prediction, the most confident predictions first."""
    graph, names = model.graph_, model.graph_.class_names
    predicted = model.label_distributions_.argmax(axis=1)
    confidence = model.label_distributions_.max(axis=1)
    wrong = graph.known[predicted[graph.known] != graph.labels[graph.known]]
    return [
        (str(graph.node_ids[node]), names[graph.labels[node]], names[predicted[node]], float(confidence[node]))
        for node in wrong[np.argsort(-confidence[wrong], kind="stable")][:SUGGESTIONS]
    ]
