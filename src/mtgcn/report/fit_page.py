"""The HTML page of one fit."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from markupsafe import Markup

from mtgcn._version import __version__
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, method_title, name_of
from mtgcn.methods.mt_plus.views import EDGES, FAR, FAR_EDGES, FEATURES, HELD_INFOMAX, INFOMAX, NEAR, SIZE
from mtgcn.report import charts
from mtgcn.report.fit_view import SURE, UNSURE, FitView, Map, fit_view
from mtgcn.report.pages import render
from mtgcn.report.progress import page_progress
from mtgcn.report.tables import counted
from mtgcn.shapes import Float, Int
from mtgcn.storage.files import write_file
from mtgcn.uncertainty.held_out import ExpectedAccuracy
from mtgcn.uncertainty.peer_weights import (
    LEADING_SHARE,
    FittedModel,
    accuracy_of_features,
    peer_weights,
    peers_agree,
    teaching_remark,
    who_decides,
)

BEST_CLASSES = 3  # per node on the page, with their probabilities
PROBABILITY_STEPS = 10_000  # resolution of probabilities on the page
PLACE_STEPS = 65_535  # resolution of coordinates, along the width of the map
MAX_EDGES = 150_000  # larger graphs keep the heaviest edges of each node
# Inputs of the peers.
PEER_VIEWS = {
    FEATURES: "features of the node",
    NEAR: "features of the node and its neighbours",
    FAR: "features of the wider neighbourhood",
    INFOMAX: "embedding learned from edges and features without labels",
    HELD_INFOMAX: "infomax embedding with stronger weight decay",
    EDGES: "adjacency: the neighbours of the node",
    FAR_EDGES: "nodes reachable over several edges",
    SIZE: "numbers of neighbours and features, of the node and around it",
    "structure": "position in the graph",
}
# Values recorded after every epoch.
HISTORY = {
    "supervised": "loss on the given labels",
    "pseudo-label": "loss on pseudo labels",
    "consistency": "disagreement between peers on the pseudo-labelled nodes",
    "pseudo labels": "number of pseudo-labelled nodes",
    "agreement": "share of pseudo labels that match the prediction of the peer that learns from them",
    "neighbours": "distance between the embeddings of linked nodes",
    "strangers": "closeness of the embeddings of nodes without a link",
}


@dataclass(frozen=True)
class Background:
    """Facts about a fit that the fitted model does not hold."""

    expected_accuracy: ExpectedAccuracy | None = None
    why_no_expected_accuracy: str | None = None
    notes: Sequence[str] = ()  # remarks of reading the files

    @classmethod
    def from_training(cls, training: Mapping[str, Any]) -> Background:
        """From the training section of a model card."""
        stored = training.get("expected_accuracy")
        expected = None
        if stored is not None:
            known = {field.name: stored[field.name] for field in fields(ExpectedAccuracy)}
            expected = ExpectedAccuracy(**known | {"ci95": tuple(stored["ci95"])})
        return cls(expected, training.get("why_no_expected_accuracy"), tuple(training.get("notes", ())))


def fit_page(model: FittedModel, path: str | Path, background: Background | None = None) -> None:
    """Write the page."""
    write_file(path, fit_html(model, background))


def fit_html(model: FittedModel, background: Background | None = None) -> str:
    """The page: key figures, map, suggested nodes, all predictions, confidence, peers and training."""
    with page_progress("making the page") as progress:
        view = fit_view(model, progress=progress)
    graph = model.graph_
    background = background or Background()
    peers = () if model.peer_report_ is None else model.peer_report_.names
    return render(
        "fit_page.html",
        title=f"{graph.name}: node classification" if graph.name else "Node classification",
        lead=_lead(view, graph),
        key_figures=_key_figures(view, background),
        facts=_facts(model),
        columns=[] if graph.preprocessing is None else graph.preprocessing.lines(),
        notes=background.notes,
        view=view,
        classes=list(zip(view.class_names, view.predicted_counts, view.given_counts, strict=True)),
        map_chart=charts.map_chart(view.map, view.class_names),
        left_out=graph.num_nodes - len(view.map.nodes),
        classes_left_out=max(0, len(view.class_names) - charts.MAX_CLASSES),
        confidence_chart=charts.confidence_chart(view.confidence, len(view.class_names)),
        class_chart=charts.class_chart(view.class_names, view.given_counts, view.predicted_counts),
        peer_summary=_peer_summary(view),
        peer_chart=charts.peer_chart(view.peers) if view.peers else None,
        peer_views=PEER_VIEWS,
        history_charts=charts.history_charts(view.history, peers),
        history=HISTORY,
        node_data=node_data(view.map, graph, model.label_distributions_),
        sure=f"{100 * SURE:.0f}",
        unsure=f"{100 * UNSURE:.0f}",
        version=__version__,
    )


def _lead(view: FitView, graph: Graph) -> str:
    """What was given and what is predicted, in plain words."""
    unlabelled, given = len(view.confidence), int(view.given_counts.sum())
    if not unlabelled:
        return f"All {given} nodes have a label."
    features = f" and {counted(graph.num_features, 'feature')} (numbers that describe each node)"
    return (
        f"{given} of {graph.num_nodes} nodes (the items to classify) have a label, the name of their class. The "
        f"classes of the other {unlabelled} are predicted from these labels, {counted(graph.num_edges, 'edge')} "
        f"(links between nodes){features if graph.features is not None else ''}."
    )


def _key_figures(view: FitView, background: Background) -> list[tuple[str, str, str]]:
    """Number, name and explanation of each; with non-breaking spaces before per cent signs."""
    expected = background.expected_accuracy
    if expected is None:
        why = background.why_no_expected_accuracy or "not measured"
        figures = [("?", "expected accuracy", f"The share of correct predictions is not known: {why}.")]
    else:
        low, high = (round(100 * end) for end in expected.ci95)
        reading = (
            f"share of correct predictions; 95 % interval {low} to {high} %. Estimated by {expected.folds}-fold "
            f"cross-validation on the {expected.labels} given labels."
        )
        figures = [(f"{100 * expected.accuracy:.0f} %", "expected accuracy", reading)]
    if len(view.confidence):
        sure, unsure = np.mean(view.confidence >= SURE), np.mean(view.confidence < UNSURE)
        reading = f"of the unlabelled nodes: predicted class with a probability of at least {100 * SURE:.0f} %"
        figures.append((f"{100 * sure:.0f} %", "confident", reading))
        reading = f"predicted class with a probability below {100 * UNSURE:.0f} %"
        figures.append((f"{100 * unsure:.0f} %", "uncertain", reading))
    return [(number.replace(" ", "\u00a0"), name, text.replace(" %", "\u00a0%")) for number, name, text in figures]


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


def _peer_summary(view: FitView) -> str:
    if not view.peers or view.teaching is None:
        return ""
    accuracy = accuracy_of_features(view.peers[1:])
    features = "" if accuracy is None else f"; features alone reach a held-out accuracy of {100 * accuracy:.0f} %"
    sentences = filter(None, [f"{who_decides(view.peers)}{features}", teaching_remark(view.teaching)])
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


# The nodes as JSON. Long lists are packed: {"type": "Uint8", "data": base64}, in the smallest of Uint8, Uint16 and
# Uint32 that holds the values, little-endian, as the typed arrays of a browser read them.


def node_data(shown: Map, graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> Markup:
    """The nodes of the page as JSON that is safe inside a script element."""
    of_shown = probabilities[shown.nodes]
    best = np.argsort(-of_shown, axis=1, kind="stable")[:, :BEST_CLASSES]
    edge_counts, others = _edges(graph, shown.nodes)
    where, height = charts.map_places(shown)
    degrees = np.diff(graph.adjacency.indptr) - (graph.adjacency.diagonal() != 0)
    content = {
        "ids": [str(one) for one in np.asarray(graph.node_ids)[shown.nodes].tolist()],
        "classes": list(graph.class_names),
        "best": packed(best),
        "probabilities": packed(np.rint(PROBABILITY_STEPS * np.take_along_axis(of_shown, best, axis=1))),
        "given": packed(shown.given + 1),  # 0: unlabelled
        "places": packed(np.rint(PLACE_STEPS / charts.MAP_WIDTH * where)),
        "degrees": packed(degrees[shown.nodes]),
        "edgeCounts": packed(edge_counts),
        "others": packed(others),
        "suggested": shown.suggested.tolist(),
        "steps": {"probability": PROBABILITY_STEPS, "place": PLACE_STEPS},
        "map": {"width": charts.MAP_WIDTH, "height": height},
        "sure": SURE,
        "unsure": UNSURE,
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A name may hold "</script>", or a line separator, which is no valid character of older JavaScript strings.
    return Markup(text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}))


def packed(numbers: np.ndarray) -> dict[str, Any]:
    """
    >>> packed(np.array([1, 2, 255]))
    {'type': 'Uint8', 'data': 'AQL/'}
    """
    largest = numbers.max(initial=0)
    bits = next(bits for bits in (8, 16, 32) if largest < 2**bits)
    return {"type": f"Uint{bits}", "data": base64.b64encode(numbers.astype(f"<u{bits // 8}").tobytes()).decode()}


def _edges(graph: Graph, nodes: Int[np.ndarray, "shown"]) -> tuple[np.ndarray, np.ndarray]:
    """The edges among the nodes, each stored at its first end: their number per node, and their other ends."""
    among = sp.csr_array(graph.adjacency[nodes][:, nodes])
    if among.nnz > 2 * MAX_EDGES:
        among = _heaviest(among, max(1, MAX_EDGES // len(nodes)))
    upper = sp.csr_array(sp.triu(among, 1))
    return np.diff(upper.indptr), upper.indices


def _heaviest(adjacency: sp.csr_array, count: int) -> sp.csr_array:
    """Edges that are among the `count` heaviest of one of their ends."""
    edges = adjacency.tocoo()
    order = np.lexsort((edges.col, -edges.data, edges.row))
    rank = np.arange(len(order)) - adjacency.indptr[edges.row[order]]
    kept = order[rank < count]
    chosen = sp.csr_array((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=adjacency.shape)
    return sp.csr_array(chosen.maximum(chosen.T))
