"""The HTML page and the figure of one fit, and their data, which the studio also uses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from markupsafe import Markup

from mtgcn._version import __version__
from mtgcn.experiments.scoring import SCORE_TITLES, ExpectedScore
from mtgcn.graph import Graph
from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.methods import METHODS, method_title, name_of
from mtgcn.methods.mt_plus import views
from mtgcn.report.charts import LIGHT, chart_style, class_colours, class_shape, curve_chart, new_figure
from mtgcn.report.pages import render
from mtgcn.report.progress import fitting_progress
from mtgcn.report.tables import Entry, Row, Table, percent
from mtgcn.shapes import Float, Int
from mtgcn.task import PeerReport
from mtgcn.training.progress import report_progress, stage
from mtgcn.uncertainty.held_out import ExpectedAccuracy
from mtgcn.uncertainty.peer_weights import (
    LEADING_SHARE,
    FittedModel,
    PeerContribution,
    accuracy_of_features,
    contributions,
    peer_weights,
    peers_agree,
    teaching_remark,
    who_decides,
)
from mtgcn.uncertainty.suggestions import Suggestion, smoothed_features, suggest
from mtgcn.uncertainty.warnings import model_warnings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ON_MAP = 20_000  # nodes; with more, pages have many megabytes
SUGGESTIONS = 10
MAX_EXPLAINED = 20_000  # nodes of a graph with explained suggestions: the first explanation computes all views
HISTOGRAM_BINS = 20
SURE, UNSURE = 0.8, 0.5  # probability of the predicted class: confident from SURE on, uncertain below UNSURE
MAX_CLASSES = 40  # classes shown with a bar
MAX_NAMES_ON_MAP = 20
MAX_NAME_LENGTH = 24  # characters
CURVES_PER_ROW = 3
BEST_CLASSES = 3  # per node on the page, with their probabilities
MAX_CELLS, MAX_CELL_LENGTH = 200_000, 300  # cells of the node table on the page, and characters of a cell
MAX_EDGES = 150_000  # with more edges, only the heaviest of each node are kept
# Descriptions of the inputs of the peers.
PEER_VIEWS = {
    views.FEATURES: "features of the node",
    views.HOPS: "features of the node, of its neighbours and of theirs, side by side",
    views.NEAR: "features of the node and its neighbours",
    views.FAR: "features of the wider neighbourhood",
    views.INFOMAX: "embedding learned from edges and features without labels",
    views.HELD_INFOMAX: "infomax embedding with stronger weight decay",
    views.FAR_EDGES: "nodes reachable over several edges",
    views.SIZE: "numbers of neighbours and features, of the node and around it",
    views.COLUMNS: "the columns, with a large penalty",
    views.WAVES: "smooth functions of the columns",
    views.FOREST: "decision trees on the columns",
    "structure": "position in the graph",
}
# Descriptions of the values recorded after every epoch.
HISTORY = {
    "supervised": "loss on the given labels",
    "pseudo-label": "loss on pseudo labels",
    "consistency": "disagreement between peers on the pseudo-labelled nodes",
    "pseudo labels": "number of pseudo-labelled nodes",
    "agreement": "share of pseudo labels that match the prediction of the peer that learns from them",
    "neighbours": "distance between the embeddings of linked nodes",
    "strangers": "closeness of the embeddings of nodes without a link",
}


@dataclass(frozen=True, eq=False)
class FitView:
    """A 2-d layout in which nodes with similar features and predictions are close, and nodes to label next."""

    nodes: Int[np.ndarray, "shown"]
    places: Float[np.ndarray, "shown 2"]  # x from 0 to 1, y from 0 to at most 1
    suggestions: list[Suggestion]

    @property
    def suggested(self) -> Int[np.ndarray, "suggestions"]:
        """Rows of the suggested nodes, best first."""
        return np.searchsorted(self.nodes, [one.index for one in self.suggestions])


def fit_view(model: FittedModel, seed: int = 0) -> FitView:
    """The map of a fit."""
    graph, count = model.graph_, min(SUGGESTIONS, model.graph_.num_nodes - len(model.graph_.known))
    with stage("selecting nodes to label"):
        suggestions = suggest(model, count) if count else []
    shown = shown_nodes(graph.num_nodes, [*(one.index for one in suggestions), *graph.known], seed, MAX_ON_MAP)
    with stage("placing nodes on the map", "step"):
        return FitView(shown, layout_2d(map_rows(model, shown), seed=seed, progress=report_progress), suggestions)


def unlabelled_predictions(model: FittedModel) -> tuple[Int[np.ndarray, "classes"], Float[np.ndarray, "unlabelled"]]:
    """How often each class is predicted for unlabelled nodes, and the probabilities of the predicted classes."""
    graph = model.graph_
    rest = model.label_distributions_[np.setdiff1d(np.arange(graph.num_nodes), graph.known)]
    return np.bincount(rest.argmax(axis=1), minlength=graph.num_classes), rest.max(axis=1)


def shown_nodes(nodes: int, always: list[int], seed: int, most: int) -> Int[np.ndarray, "shown"]:
    """The nodes on the map: all, or a random sample of a large graph that contains the nodes `always`."""
    if nodes <= most:
        return np.arange(nodes)
    kept = np.unique(np.array(always[:most], dtype=np.int64))
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(nodes), kept))
    return np.sort(np.concatenate([kept, others[: most - len(kept)]]))


def map_rows(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown columns"]:
    """The input of the layout: smoothed features and predictions of the peers, on equal scales."""
    parts = []
    for rows in (smoothed_features(model.graph_)[shown], weighted_predictions(model, shown)):
        centred = rows - rows.mean(axis=0)
        scale = np.sqrt((centred**2).sum(axis=1).mean())
        parts.append(centred / scale if scale > 0 else centred)
    return np.concatenate(parts, axis=1)


def weighted_predictions(model: FittedModel, shown: Int[np.ndarray, "shown"]) -> Float[np.ndarray, "shown columns"]:
    """Weighted predictions of the peers as rows whose distances are Hellinger distances."""
    if model.peer_distributions_ is None:
        return np.sqrt(model.label_distributions_[shown])
    peers, weights = model.peer_distributions_[:, shown], peer_weights(model)
    weighted = peers if weights is None else weights[:, None, None] * peers
    return np.concatenate(list(np.sqrt(weighted)), axis=1)


@dataclass(frozen=True)
class Background:
    """Facts about a fit that the fitted model does not hold."""

    expected_accuracy: ExpectedAccuracy | None = None
    why_no_expected_accuracy: str | None = None
    notes: Sequence[str] = ()  # remarks from reading the files
    expected_score: ExpectedScore | None = None  # score other than accuracy, if chosen

    @classmethod
    def from_training(cls, training: Mapping[str, Any]) -> Background:
        """Read the training section of a model card."""
        stored = training.get("expected_accuracy")
        expected = None if stored is None else ExpectedAccuracy.from_card(stored)
        score = training.get("expected_score") and ExpectedScore(**training["expected_score"])
        return cls(expected, training.get("why_no_expected_accuracy"), tuple(training.get("notes", ())), score)


def fit_html(model: FittedModel, background: Background | None = None) -> str:
    """The HTML page: key figures, map, suggested nodes, all predictions, confidence, peers and training."""
    with fitting_progress("making the page"):
        view = fit_view(model)
    graph, report = model.graph_, model.peer_report_
    predicted, confidence = unlabelled_predictions(model)
    return render(
        "fit_page.html",
        title=f"{graph.name}: node classification" if graph.name else "Node classification",
        graph=graph,
        background=background or Background(),
        facts=_facts(model),
        columns=[] if graph.preprocessing is None else graph.preprocessing.lines(),
        view=view,
        confidence=confidence,
        warnings=model_warnings(model),
        contradictions=contradiction_table(model),
        classes=list(zip(graph.class_names, predicted, graph.label_counts, strict=True)),
        classes_table=class_table(graph.class_names, graph.label_counts, predicted),
        confidence_chart=confidence_chart(confidence, graph.num_classes),
        peers=report and peer_table(contributions(report)),
        peer_summary=report and _peer_summary(report),
        history_charts=[(name, curve_chart(*curves, name)) for name, curves in history_curves(model).items()],
        history=HISTORY,
        node_data=node_data(view, graph, model.label_distributions_),
        explanations=[
            Markup(model.explain(one.node)._repr_html_())
            for one in view.suggestions
            if graph.num_nodes <= MAX_EXPLAINED
        ],
        score_titles=SCORE_TITLES,
        sure=SURE,
        unsure=UNSURE,
        version=__version__,
    )


def _facts(model: FittedModel) -> list[tuple[str, str]]:
    graph, name = model.graph_, name_of(model.method_)
    title = method_title(name) if name in METHODS else name
    features = f"{graph.num_features} features" if graph.features is not None else "no features"
    facts = [
        ("graph", f"{graph.num_nodes} nodes, {graph.num_edges} edges, {features}"),
        ("labels", f"{len(graph.known)} of {np.unique(graph.labels[graph.known]).size} classes"),
        ("method", title if title.startswith(name) else f"{name}. {title}"),
    ]
    if model.peer_distributions_ is not None:
        weights = peer_weights(model)
        agreed = f"agree on {100 * np.mean(peers_agree(model.peer_distributions_, weights)):.1f} % of nodes"
        which = "which" if weights is None else f"of which those with {100 * LEADING_SHARE:.0f} % of the weight"
        facts.append(("peers", f"{len(model.peer_distributions_)}, {which} {agreed}"))
    if model.history_:
        facts.append(("epochs", str(max(map(len, model.history_.values())))))
    return facts


def _peer_summary(report: PeerReport) -> str:
    peers = contributions(report)
    accuracy = accuracy_of_features(peers[1:])
    features = "" if accuracy is None else f"; features alone reach a held-out accuracy of {100 * accuracy:.0f} %"
    sentences = filter(None, [f"{who_decides(peers)}{features}", teaching_remark(float(report.teaching[0]))])
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def contradiction_table(model: FittedModel) -> Table | None:
    """Given labels that differ from the prediction, the most confident predictions first; None without any."""
    graph, probabilities = model.graph_, model.label_distributions_[model.graph_.known]
    predicted, given, confidence = probabilities.argmax(axis=1), graph.labels[graph.known], probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    rows = [
        (
            graph.node_title(int(graph.known[one])),
            graph.class_names[given[one]],
            graph.class_names[predicted[one]],
            f"{100 * confidence[one]:.0f}\u00a0%",
        )
        for one in order[(predicted != given)[order]][:SUGGESTIONS]
    ]
    return Table.of_text(["node", "given", "predicted", "probability"], rows, prose=True) if rows else None


def class_table(
    names: Sequence[str], given: Int[np.ndarray, "classes"], predicted: Int[np.ndarray, "classes"]
) -> Table:
    """Numbers of predicted nodes and given labels of each class; only the largest of many classes."""
    order = np.argsort(-predicted, kind="stable")[:MAX_CLASSES]
    bars = predicted / max(1, predicted.max(initial=0))
    rows = [
        Row(names[one], [Entry(str(predicted[one]), bar=(bars[one], f"k{one}")), Entry(str(given[one]))])
        for one in order
    ]
    without = f" (without the {len(names) - MAX_CLASSES} smallest)" if len(names) > MAX_CLASSES else ""
    return Table(["class", "predicted", "given"], rows, title=f"Nodes of each class: predicted and given{without}")


def peer_table(peers: Sequence[PeerContribution]) -> Table:
    """Weight, held-out accuracy and agreement with the ensemble of each peer."""

    def entry(share: float | None, colour: str) -> Entry:
        return Entry("unknown") if share is None else Entry(f"{percent(share)} %", bar=(share, colour))

    rows = [
        Row(
            one.name,
            [entry(one.weight, "c0"), entry(one.held_out_accuracy, "c1"), entry(one.agreement, "c2")],
            PEER_VIEWS.get(one.name, ""),
        )
        for one in peers
    ]
    return Table(["peer and its input", "weight", "held-out accuracy", "agreement with the ensemble"], rows)


def history_curves(model: FittedModel) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Epochs and the curve of each peer, by recorded value. Curves are numbered unless there is one for each peer."""
    peers = () if model.peer_report_ is None else model.peer_report_.names
    curves = {}
    for name, values in model.history_.items():
        if np.isfinite(values).any():
            epochs, count = values.shape
            names = map(shortened, peers) if len(peers) == count else [f"peer {peer + 1}" for peer in range(count)]
            curves[name] = np.arange(1, epochs + 1), dict(zip(names, values.T[:, None], strict=True))
    return curves


@chart_style()
def confidence_chart(confidence: Float[np.ndarray, "nodes"], classes: int, axes: Axes | None = None) -> Figure:
    """Histogram of unlabelled nodes by the probability of their predicted class, which is at least 1 / classes."""
    axes = axes or new_figure(540, 300, "Unlabelled nodes by the probability of their predicted class").subplots()
    edges = np.linspace(1 / max(2, classes), 1, HISTOGRAM_BINS + 1)
    counts, _ = np.histogram(np.clip(confidence, edges[0], 1), edges)
    axes.bar(100 * edges[:-1], counts, width=92 * np.diff(edges), align="edge", color=LIGHT["c0"])
    axes.set(xlabel="probability of the predicted class, per cent", xlim=(100 * edges[0], 100))
    axes.set_ylim(top=max(1, 1.04 * counts.max(initial=0)))
    axes.locator_params(axis="y", integer=True)
    axes.grid(axis="y")
    return axes.figure  # type: ignore[return-value]  # not a part of one


def densest_place(places: Float[np.ndarray, "some 2"]) -> Float[np.ndarray, "2"]:
    """Of a few hundred places, the one with the smallest mean distance to its nearest quarter."""
    some = places[:: max(1, len(places) // 200)]
    distance = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    near = np.sort(distance, axis=1)[:, : max(2, len(some) // 4)].mean(axis=1)
    return some[near.argmin()]


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def node_data(shown: FitView, graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> dict[str, Any]:
    """The data of the nodes for the script of the page; edges are stored at their first end."""
    of_shown = probabilities[shown.nodes]
    best = np.argsort(-of_shown, axis=1, kind="stable")[:, :BEST_CLASSES]
    among = sp.csr_array(graph.adjacency[shown.nodes][:, shown.nodes])
    if among.nnz > 2 * MAX_EDGES:
        among = _heaviest(among, max(1, MAX_EDGES // len(shown.nodes)))
    edges = sp.csr_array(sp.triu(among, 1))
    degrees = np.diff(graph.adjacency.indptr) - (graph.adjacency.diagonal() != 0)
    return {
        "ids": [graph.node_title(node) for node in shown.nodes.tolist()],
        "cells": _page_cells(graph, shown.nodes),
        "classes": list(graph.class_names),
        "best": best.tolist(),
        "probabilities": np.take_along_axis(of_shown, best, axis=1).astype(float).round(4).tolist(),
        "given": graph.labels[shown.nodes].tolist(),
        "places": shown.places.astype(float).round(4).tolist(),
        "degrees": degrees[shown.nodes].tolist(),
        "edges": [others.tolist() for others in np.split(edges.indices, edges.indptr[1:-1])],
        "suggested": shown.suggested.tolist(),
        "total": graph.num_nodes,
        "levels": [SURE, UNSURE],
    }


def _page_cells(graph: Graph, nodes: Int[np.ndarray, "shown"]) -> dict[str, list[str]]:
    """The columns of the node table, by name; empty for a large table."""
    cells = graph.cells
    if cells is None or cells.num_columns * len(nodes) > MAX_CELLS:
        return {}
    return {
        name: [(column[node].as_py() or "")[:MAX_CELL_LENGTH] for node in nodes.tolist()]
        for name, column in zip(cells.column_names, cells.columns, strict=True)
    }


def _heaviest(adjacency: sp.csr_array, count: int) -> sp.csr_array:
    """Edges that are among the `count` heaviest of one of their ends."""
    edges = adjacency.tocoo()
    order = np.lexsort((edges.col, -edges.data, edges.row))
    rank = np.arange(len(order)) - adjacency.indptr[edges.row[order]]
    kept = order[rank < count]
    chosen = sp.csr_array((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=adjacency.shape)
    return sp.csr_array(chosen.maximum(chosen.T))


@chart_style()
def fit_figure(model: FittedModel) -> Figure:
    """The map, confidence, class sizes and training curves of a fit."""
    with fitting_progress("drawing the figure"):
        view = fit_view(model)
    history = history_curves(model)
    rows = 2 + math.ceil(len(history) / CURVES_PER_ROW)
    figure = new_figure(1300, 320 * rows)
    grid = figure.add_gridspec(rows, CURVES_PER_ROW)
    graph, (predicted, confidence) = model.graph_, unlabelled_predictions(model)
    colours = class_colours(graph.num_classes)[0]
    _draw_map(figure.add_subplot(grid[:2, : CURVES_PER_ROW - 1]), view, graph, model.label_distributions_, colours)
    axes = figure.add_subplot(grid[0, -1])
    confidence_chart(confidence, graph.num_classes, axes)
    axes.set(title="Confidence", ylabel="unlabelled nodes")
    axes = figure.add_subplot(grid[1, -1])
    largest = np.argsort(-predicted, kind="stable")[:MAX_CLASSES]
    axes.barh(range(len(largest)), predicted[largest], color=[colours[number] for number in largest])
    names = [f"{shortened(graph.class_names[number])} ({graph.label_counts[number]})" for number in largest]
    axes.set_yticks(range(len(largest)), names)
    axes.set(title="Classes (labels given)", xlabel="nodes predicted")
    axes.invert_yaxis()
    for place, (name, curves) in enumerate(history.items()):
        axes = figure.add_subplot(grid[2 + place // CURVES_PER_ROW, place % CURVES_PER_ROW])
        curve_chart(*curves, name, axes=axes)
        axes.set(title=name)
    return figure


def _draw_map(
    axes: Axes, shown: FitView, graph: Graph, probabilities: Float[np.ndarray, "nodes classes"], colours: list[str]
) -> None:
    """Large dots are confident predictions, hollow dots uncertain ones, ringed dots labelled nodes; numbers mark
    suggestions."""
    labels, predicted = graph.labels[shown.nodes], probabilities[shown.nodes].argmax(axis=1)
    confidence, given = probabilities[shown.nodes].max(axis=1), labels >= 0
    unsure, sure = confidence < UNSURE, confidence >= SURE
    classes = np.where(given, labels, predicted)
    colour, shapes = np.array(colours)[classes], class_shape(classes)
    area = float(np.clip(40_000 / max(1, len(shown.nodes)), 4, 40))
    areas = np.where(given, max(50, area), np.where(sure | unsure, area, area / 2))
    face, edge = np.where(unsure & ~given, "white", colour), np.where(given, "black", colour)
    order = np.argsort(given, kind="stable")  # labelled nodes on top
    for shape in np.unique(shapes):
        nodes, marker = order[shapes[order] == shape], "os^DP"[shape]
        x, y = shown.places[nodes].T
        axes.scatter(
            x, y, areas[nodes], facecolors=face[nodes].tolist(), edgecolors=edge[nodes].tolist(), marker=marker
        )
    for rank, place in enumerate(shown.places[shown.suggested], start=1):
        axes.annotate(str(rank), place, xytext=(4, 4), textcoords="offset points", weight="bold")
    for number, name in enumerate(graph.class_names if graph.num_classes <= MAX_NAMES_ON_MAP else ()):
        if (places := shown.places[predicted == number]).size:
            box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colours[number], "alpha": 0.8}
            x, y = densest_place(places)
            axes.text(x, y, shortened(name), ha="center", weight="bold", bbox=box)
    axes.set(title="Map of the nodes", aspect="equal", xticks=[], yticks=[])
    axes.invert_yaxis()
