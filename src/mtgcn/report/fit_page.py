"""One fit as a page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from mtgcn._version import __version__
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, method_title, name_of
from mtgcn.report import fit_charts, glossary
from mtgcn.report.fit_view import SURE, UNSURE, FitView, Progress, fit_view
from mtgcn.report.marks import Picture
from mtgcn.report.marks_svg import svg
from mtgcn.report.page_data import node_data
from mtgcn.report.page_progress import page_progress
from mtgcn.report.templating import rendered
from mtgcn.storage.files import write_file
from mtgcn.uncertainty.expected_accuracy import ExpectedAccuracy
from mtgcn.uncertainty.peer_weights import (
    LEADING_SHARE,
    FittedModel,
    accuracy_of_features,
    peer_weights,
    peers_agree,
    teaching_remark,
    who_decides,
)

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Background:
    """What a page tells of a fit that the fitted model does not know."""

    expected_accuracy: ExpectedAccuracy | None = None
    why_no_expected_accuracy: str | None = None  # None: nobody asked for it
    notes: Sequence[str] = ()  # what reading did to the files

    @classmethod
    def from_training(cls, training: Mapping[str, Any]) -> Background:
        """What the card of a stored model says of its training; an older card says less."""
        told = training.get("expected_accuracy")
        expected = None
        if told is not None:
            known = {field.name: told[field.name] for field in fields(ExpectedAccuracy)}
            expected = ExpectedAccuracy(**known | {"ci95": tuple(told["ci95"])})
        return cls(expected, training.get("why_no_expected_accuracy"), tuple(training.get("notes", ())))


def fit_page(model: FittedModel, path: str | Path, background: Background | None = None) -> None:
    """Write the page, whole or not at all."""
    write_file(path, page_text(model, background))


def page_text(model: FittedModel, background: Background | None = None) -> str:
    """The page, with a word on standard error about how far it is."""
    with page_progress("making the page") as progress:
        return fit_html(model, background, progress)


def fit_html(model: FittedModel, background: Background | None = None, progress: Progress | None = None) -> str:
    """The page: how far to trust it, the map, nodes worth a look, all predictions, and how they came about."""
    view, graph = fit_view(model, progress=progress), model.graph_
    names = () if model.peer_report_ is None else model.peer_report_.names
    background = background or Background()
    map_chart = fit_charts.map_chart(view.map, view.class_names)
    return rendered(
        "fit_page.html",
        title=f"{graph.name}: every node classified" if graph.name else "Every node classified",
        lead=_lead(view, graph),
        key_figures=_key_figures(view, background),
        facts=_facts(model),
        columns=_columns(graph),
        notes=background.notes,
        view=view,
        classes=[
            {"name": name, "predicted": predicted, "given": given}
            for name, predicted, given in zip(view.class_names, view.predicted_counts, view.given_counts, strict=True)
        ],
        map_chart=_svg(map_chart),
        map_ratio=f"{map_chart.height / map_chart.width:.3f}",
        left_out=graph.num_nodes - len(view.map.nodes),
        classes_left_out=max(0, len(view.class_names) - fit_charts.MOST_CLASSES),
        confidence_chart=_svg(fit_charts.confidence_chart(view.confidence, len(view.class_names))),
        class_chart=_svg(fit_charts.class_chart(view.class_names, view.given_counts, view.predicted_counts)),
        who_decides=_who_decides(view),
        peer_chart=_svg(fit_charts.peer_chart(view.peers)) if view.peers else None,
        history_charts=[(one.title, _svg(one)) for one in fit_charts.history_charts(view.history, names)],
        node_data=node_data(view.map, graph, model.label_distributions_),
        glossary=glossary,
        sure=f"{100 * SURE:.0f}",
        unsure=f"{100 * UNSURE:.0f}",
        version=__version__,
    )


def _svg(picture: Picture) -> Markup:
    return Markup(svg(picture))


def _lead(view: FitView, graph: Graph) -> str:
    """What was given and what was found, every word explained where it first stands."""
    unlabelled, given = len(view.confidence), int(view.given_counts.sum())
    if not unlabelled:
        return f"All {given} nodes were given their class."
    described = f" and {_count(graph.num_features, 'feature')} (numbers that describe each node)"
    return (
        f"{given} of {graph.num_nodes} nodes (the things to classify) came with a label, which names their class. The "
        f"classes of the other {unlabelled} are predicted from these labels, from {_count(graph.num_edges, 'edge')} "
        f"(links between nodes){described if graph.features is not None else ''}."
    )


def _key_figures(view: FitView, background: Background) -> list[tuple[str, str, str]]:
    """Numbers to see first: the number, what it is, and how to read it; no line breaks before a per cent sign."""
    figures = [_expectation(background)]
    if len(view.confidence):
        sure, unsure = np.mean(view.confidence >= SURE), np.mean(view.confidence < UNSURE)
        figures += [
            (
                f"{100 * sure:.0f} %",
                "predicted surely",
                f"of the nodes without a label: the model gives their class {100 * SURE:.0f} % probability or more",
            ),
            (
                f"{100 * unsure:.0f} %",
                "in doubt",
                f"their likeliest class has a probability below {100 * UNSURE:.0f} %",
            ),
        ]
    return [(number.replace(" ", "\u00a0"), name, words.replace(" %", "\u00a0%")) for number, name, words in figures]


def _expectation(background: Background) -> tuple[str, str, str]:
    expected = background.expected_accuracy
    if expected is None:
        why = background.why_no_expected_accuracy or NOT_MEASURED
        return "?", "expected accuracy", f"The share of predictions that are right is not known: {why}."
    low, high = (round(100 * end) for end in expected.ci95)
    return (
        f"{100 * expected.accuracy:.0f} %",
        "expected accuracy",
        f"the share of predictions that are right; it may well be {low} to {high} % (95 % interval). Each of the "
        f"{expected.labels} given labels was predicted without its own help, in {expected.folds} parts (folds).",
    )


def _facts(model: FittedModel) -> list[tuple[str, str]]:
    graph, name = model.graph_, name_of(model.method_)
    features = f"{graph.num_features} features" if graph.features is not None else "no features"
    facts = [
        ("graph", f"{graph.num_nodes} nodes, {graph.num_edges} edges, {features}"),
        ("labels", f"{len(graph.known)} of {np.unique(graph.labels[graph.known]).size} classes"),
        ("method", f"{name}. {method_title(name)}" if name in METHODS else name),
    ]
    if model.peer_distributions_ is not None:
        weights = peer_weights(model)
        agreed = f"agree on {100 * np.mean(peers_agree(model.peer_distributions_, weights)):.1f} % of nodes"
        which = "which" if weights is None else f"of which those with {100 * LEADING_SHARE:.0f} % of the vote"
        facts.append(("peers", f"{len(model.peer_distributions_)}, {which} {agreed}"))
    if model.history_:
        facts.append(("epochs", f"{max(map(len, model.history_.values()))} rounds of training"))
    return facts


def _columns(graph: Graph) -> list[str]:
    """What was done with each column that features were made of, a line each; none where they are as given."""
    return [] if graph.preprocessing is None else graph.preprocessing.lines()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _who_decides(view: FitView) -> str:
    if not view.peers or view.teaching is None:
        return ""
    features = accuracy_of_features(view.peers[1:])
    alone = "" if features is None else f"; the features alone get {100 * features:.0f} % of held-out labels"
    remark = teaching_remark(view.teaching)
    sentences = [f"{who_decides(view.peers)}{alone}.", f"{remark}." if remark else ""]
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences if sentence)
