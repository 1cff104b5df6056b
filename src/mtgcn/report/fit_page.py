"""One fit as a page that needs nothing but itself, or as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

import mtgcn
from mtgcn.errors import InputError
from mtgcn.report import fit_charts
from mtgcn.report.fit_view import SURE, UNSURE, FitView, fit_view, histogram
from mtgcn.report.templating import rendered
from mtgcn.storage.atomic import write_atomically
from mtgcn.trust.fitted_model import FittedModel
from mtgcn.trust.peer_votes import (
    LEADING_SHARE,
    accuracy_of_features,
    peers_agree,
    teaching_remark,
    vote_weights,
    who_decides,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CLASSES_IN_LEGEND = 30
COLOURS_FAR_APART = 5  # of those that the style sheet has


def fit_page(model: FittedModel, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    path = Path(path)
    content = fit_html(model).encode()
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"cannot write the page {path}: {error.strerror or error}; choose another place") from error


def fit_html(model: FittedModel) -> str:
    """The page: warnings, nodes worth a look, confidence, class sizes, the peers' votes, a map, learning curves."""
    view, graph = fit_view(model), model.graph_
    named = f" of {graph.name}" if graph.name else ""
    names = () if model.peer_report_ is None else model.peer_report_.names
    few_classes = len(view.class_names) <= MOST_CLASSES_IN_LEGEND
    return rendered(
        "fit_page.html",
        title=f"The nodes{named}, classified",
        lead=_lead(view),
        facts=_facts(model),
        view=view,
        class_colours=Markup(_class_colours(len(view.class_names))),
        classes_left_out=max(0, len(view.class_names) - fit_charts.MOST_CLASSES),
        confidence_chart=Markup(fit_charts.confidence_chart(view.confidence, len(view.class_names))),
        class_chart=Markup(fit_charts.class_chart(view.class_names, view.given_counts, view.predicted_counts)),
        who_decides=_who_decides(view),
        peer_chart=Markup(fit_charts.peer_chart(view.peers)) if view.peers else None,
        map_caption=_map_caption(view, graph.num_nodes),
        legend_names=view.class_names if few_classes else (),
        map_chart=Markup(fit_charts.map_chart(view.map, view.class_names)),
        history_charts=[(name, Markup(chart)) for name, chart in fit_charts.history_charts(view.history, names)],
        sure=f"{100 * SURE:.0f}",
        unsure=f"{100 * UNSURE:.0f}",
        version=mtgcn.__version__,
    )


def plot(model: FittedModel) -> Figure:
    """The same in four panels of a matplotlib figure: confidence, class sizes, map, losses."""
    from matplotlib.figure import Figure  # without pyplot, so that no window and no backend is asked for

    view = fit_view(model)
    figure = Figure(figsize=(12, 9), layout="constrained")
    panels = figure.subplots(2, 2)
    _plot_confidence(panels[0, 0], view)
    _plot_classes(panels[0, 1], view)
    _plot_map(panels[1, 0], view)
    _plot_history(panels[1, 1], view)
    return figure


def _lead(view: FitView) -> str:
    unlabelled, given = len(view.confidence), int(view.given_counts.sum())
    if not unlabelled:
        return f"All {given} nodes were given their class."
    sure, unsure = np.mean(view.confidence >= SURE), np.mean(view.confidence < UNSURE)
    return (
        f"{given} labels given, {unlabelled} nodes predicted: {100 * sure:.0f} % of them surely (probability of "
        f"{100 * SURE:.0f} % or more), {100 * unsure:.0f} % in doubt (below {100 * UNSURE:.0f} %)."
    )


def _facts(model: FittedModel) -> list[tuple[str, str]]:
    graph = model.graph_
    features = f"{graph.num_features} features" if graph.features is not None else "no features"
    facts = [
        ("graph", f"{graph.num_nodes} nodes, {graph.num_edges} edges, {features}"),
        ("labels", f"{len(graph.known)} of {np.unique(graph.labels[graph.known]).size} classes"),
        ("method", type(model.method_).__name__),
    ]
    if model.history_:
        facts.append(("epochs", str(max(map(len, model.history_.values())))))
    if model.peer_distributions_ is not None:
        weights = vote_weights(model)
        agreed = f"agree on {100 * np.mean(peers_agree(model.peer_distributions_, weights)):.1f} % of nodes"
        which = "which" if weights is None else f"of which those with {100 * LEADING_SHARE:.0f} % of the vote"
        facts.append(("peers", f"{len(model.peer_distributions_)}, {which} {agreed}"))
    return facts


def _who_decides(view: FitView) -> str:
    if not view.peers or view.teaching is None:
        return ""
    features = accuracy_of_features(view.peers[1:])
    alone = "" if features is None else f"; the features alone get {100 * features:.0f} % of held-out labels"
    remark = teaching_remark(view.teaching)
    sentences = [f"{who_decides(view.peers)}{alone}.", f"{remark}." if remark else ""]
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences if sentence)


def _map_caption(view: FitView, nodes: int) -> str:
    sampled = f" {len(view.map.nodes)} of {nodes} nodes are drawn." if len(view.map.nodes) < nodes else ""
    return (
        "Nodes that look alike, and of which the peers believe the same, lie close together (t-SNE); distances between "
        f"groups mean little. The colour is the class predicted.{sampled}"
    )


def _class_colours(classes: int) -> str:
    """A colour for each class: those of the style sheet while they are easily told apart, else one hue each."""
    if classes <= COLOURS_FAR_APART:
        return "".join(f".k{number}{{--series:var(--c{number})}}" for number in range(classes))
    hues = [(number, round(360 * number / classes), 12 * (number % 2)) for number in range(classes)]
    light = "".join(f".k{number}{{--series:hsl({hue} 75% {32 + lift}%)}}" for number, hue, lift in hues)
    dark = "".join(f".k{number}{{--series:hsl({hue} 75% {62 + lift}%)}}" for number, hue, lift in hues)
    return f"{light}@media (prefers-color-scheme: dark){{{dark}}}"


def _plot_confidence(panel: Axes, view: FitView) -> None:
    counts, edges = histogram(view.confidence, len(view.class_names))
    panel.bar(edges[:-1], counts, width=np.diff(edges), align="edge", edgecolor="white")
    panel.set(xlabel="probability of the predicted class", ylabel="nodes without a label", title="Confidence")


def _plot_classes(panel: Axes, view: FitView) -> None:
    order = np.argsort(view.predicted_counts, kind="stable")[-fit_charts.MOST_CLASSES :]
    bars = panel.barh([_readable(view.class_names[number]) for number in order], view.predicted_counts[order])
    panel.bar_label(bars, [f" {view.predicted_counts[n]} (+ {view.given_counts[n]} given)" for n in order])
    panel.margins(x=0.4)  # room for the numbers beside the longest bar
    panel.set(xlabel="nodes predicted", title="Class sizes")


def _plot_map(panel: Axes, view: FitView) -> None:
    shown = view.map
    colours = _matplotlib_colours(len(view.class_names))
    free = shown.given < 0
    x, y = shown.places.T
    panel.scatter(
        x[free],
        y[free],
        s=2 + 20 * shown.confidence[free] ** 2,
        c=colours[shown.predicted[free]],
        alpha=0.7,
        linewidths=0,
    )
    panel.scatter(x[~free], y[~free], s=40, c=colours[shown.given[~free]], edgecolors="black")
    for number, name in enumerate(view.class_names[: fit_charts.MOST_LABELS_ON_MAP]):
        panel.scatter([], [], color=colours[number], label=_readable(name))
    panel.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))  # beside it, where no node lies
    panel.invert_yaxis()  # as on the page, where y grows downwards
    panel.set(xticks=[], yticks=[], title="Map: large is sure, ringed is given", aspect="equal")


def _plot_history(panel: Axes, view: FitView) -> None:
    for name, values in view.history.items():
        if np.isfinite(values).any():  # NaN where a loss took no part yet, which matplotlib leaves empty
            panel.plot(values.mean(axis=1) / (np.nanmax(np.abs(values)) or 1), label=name)
    panel.set(xlabel="epoch", ylabel="share of its largest value", title="Learning curves, mean of the peers")
    if panel.lines:
        panel.legend(fontsize="small")


def _matplotlib_colours(classes: int) -> np.ndarray:
    from matplotlib import colormaps

    return colormaps["tab10"](np.arange(classes)) if classes <= 10 else colormaps["hsv"](np.arange(classes) / classes)


def _readable(name: str) -> str:
    """Matplotlib takes what stands between dollar signs for a formula."""
    return name.replace("$", r"\$")
