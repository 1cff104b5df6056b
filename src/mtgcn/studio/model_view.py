"""The views of the model: Teaching (start, watch and stop a fit) and Results (accuracy, confidence, disputed nodes,
downloads)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mtgcn.studio.elements import (
    Curves,
    button,
    cleared,
    figures,
    note,
    plural,
    swatch,
    table_head,
    tag,
)
from mtgcn.studio.fitting import FitResult
from mtgcn.studio.label_view import show_node
from mtgcn.studio.predictions import Histogram, ProjectPredictions
from mtgcn.studio.session import Session
from mtgcn.studio.worker import Progress
from mtgcn.studio.workspace import LABELS_BEFORE_FIT

CURVE_COLOURS = ("c0", "c1", "c2", "c3", "c4", "c5", "c6")
MAX_CHANGES_SHOWN = 8
MAX_DISPUTED_SHOWN = 25
DOWNLOADS = {
    "Predictions": "/export/predictions.csv",
    "Model": "/export/model.zip",
    "Labels": "/export/labels.csv",
}


class TeachingView:
    """Progress, curves and result of a fit."""

    def __init__(self, session: Session) -> None:
        self.session, self.workspace = session, session.workspace
        self._drawn_result: object = None
        self._drawn_state: object = None
        self._drawn_points = -1
        self._charts: dict[str, Curves] = {}
        self.pane = tag("div", classes="page", id="teaching")
        with self.pane:
            with tag("section", classes="stack", aria_label="Teaching"):
                tag("h2", "Teaching")
                self._status = tag("p", "", "soft", aria_live="polite")
                with tag("div", classes="progress", role="progressbar", aria_label="Progress") as self._bar:
                    self._done = tag("i")
                with tag("div", classes="row"):
                    self._start = button("Teach now", partial(session.act, self.workspace.fit), "main")
                    self._stop = button("Stop", partial(session.act, self.workspace.cancel))
                    with tag("label", classes="row small"):
                        automatic = tag("input", type="checkbox", checked=self.workspace.auto_fit or None)
                        automatic.on("change", self._set_auto_fit, js_handler="(event) => emit(event.target.checked)")
                        tag("span", f"automatically, after {LABELS_BEFORE_FIT} new labels")
            self._curves = tag("section", classes="curve-columns", aria_label="Curves")
            self._result = tag("section", classes="stack", aria_label="Result")

    def update(self) -> None:
        progress, new_labels = self.workspace.progress, self.workspace.snapshot.new_labels
        now = (progress.state, progress.stage, progress.done, progress.total, progress.error, new_labels)
        if self._drawn_state != now:
            self._drawn_state = now
            self._draw_state(progress)
        self._draw_curves(progress)
        if self._drawn_result != (progress.result, self.workspace.is_fitting):
            self._drawn_result = (progress.result, self.workspace.is_fitting)
            with cleared(self._result):
                if progress.result is not None:
                    self._draw_result(progress.result)

    def _set_auto_fit(self, event: Any) -> None:
        self.workspace.auto_fit = event.args is True

    def _draw_state(self, progress: Progress) -> None:
        running = progress.state == "running"
        has_model = self.workspace.predictions is not None
        self._status.text = status_text(progress, self.workspace.snapshot.new_labels, has_model)
        share = progress.done / progress.total if progress.total else float(progress.state == "done")
        self._bar.show(running)
        self._bar.attributes(aria_valuenow=str(round(100 * share)))
        self._done.style(f"width: {100 * share:.1f}%")
        self._start.attributes(disabled=True if running else None)
        self._stop.show(running)

    def _draw_curves(self, progress: Progress) -> None:
        if list(self._charts) != list(progress.curves):
            self._drawn_points = -1
            with cleared(self._curves):
                self._charts = {name: self._add_chart(name, progress.unit) for name in progress.curves}
        points = sum(len(curve) for curve in progress.curves.values())
        if points != self._drawn_points:
            self._drawn_points = points
            for number, (name, curve) in enumerate(progress.curves.items()):
                self._charts[name].show(CURVE_COLOURS[number % len(CURVE_COLOURS)], curve)

    def _add_chart(self, name: str, unit: str) -> Curves:
        with tag("figure", classes="stack"):
            tag("h3", name)
            return Curves(name, unit)

    def _draw_result(self, result: FitResult) -> None:
        tag("h2", "The first model" if result.changed is None else "What changed")
        figures(result_figures(result))
        if result.changes:
            with tag("div", classes="scroll"), tag("table", classes="narrow"):
                table_head(("before", ""), ("now", ""), ("nodes", "number"))
                with tag("tbody"):
                    for change in result.changes[:MAX_CHANGES_SHOWN]:
                        with tag("tr"):
                            tag("td", change.before)
                            tag("td", change.after)
                            tag("td", change.nodes, "number")
        note(result.warnings)


class ResultsView:
    """Accuracy, confidence, labels per class, disputed nodes and downloads; drawn only while it is shown."""

    def __init__(self, session: Session, go_to_label: Callable[[], None]) -> None:
        self.session, self.workspace, self._go_to_label = session, session.workspace, go_to_label
        self._drawn: object = None
        self.pane = tag("div", classes="page", id="results")

    def update(self) -> None:
        predictions = self.workspace.predictions
        now = (self.workspace.snapshot, id(predictions))
        if "hidden" not in self.pane.classes and self._drawn != now:
            self._drawn = now
            with cleared(self.pane):
                self._draw(predictions)

    def _draw(self, predictions: ProjectPredictions | None) -> None:
        with tag("div", classes="title-row"):
            tag("h2", "Results")
            with tag("div", classes="row"):
                for title, address in DOWNLOADS.items():
                    if predictions is not None or title == "Labels":
                        tag("a", f"↓ {title}", "button", href=address, download="", aria_label=f"Download: {title}")
        if predictions is None:
            tag("p", "There is no model yet. Label nodes of two classes and teach.", "soft")
            self._draw_labels()
            return
        labels, project = self.workspace.snapshot.labels, self.workspace.project
        figures(
            [
                accuracy_figure(predictions.expected_accuracy, predictions.why_no_expected_accuracy),
                (str(len(labels)), f"labels of {len(set(labels.values()))} classes"),
                (str(len(project.loaded.ids)), "nodes"),
            ]
        )
        with tag("div", classes="columns"):
            self._draw_histogram(predictions.histogram())
            self._draw_labels(predictions)
        self._draw_disputed(predictions)
        with tag("p", classes="soft small"):
            tag("span", "The model is saved in the project: ")
            tag("code", f"mtgcn predict {project.model_folder} --out predictions.csv")

    def _draw_histogram(self, histogram: Histogram) -> None:
        highest = max([*histogram.counts, 1])
        with tag("figure", classes="stack"):
            tag("h3", "Confidence on unlabelled nodes")
            with tag("div", classes="histogram", role="img", aria_label="; ".join(histogram_lines(histogram))):
                for count, line in zip(histogram.counts, histogram_lines(histogram), strict=True):
                    tag("i", title=line, style=f"height: {100 * count / highest:.1f}%")
            with tag("div", classes="histogram-scale", aria_hidden="true"):
                for edge in (histogram.edges[0], histogram.edges[-1]):
                    tag("span", f"{100 * edge:.0f} %")

    def _draw_labels(self, predictions: ProjectPredictions | None = None) -> None:
        counts = self.workspace.snapshot.label_counts
        predicted = {} if predictions is None else predictions.predicted_counts()
        highest = max([*counts.values(), 1])
        with tag("section", classes="stack"):
            tag("h3", "Labels / predicted nodes per class" if predicted else "Labels per class")
            with tag("div", classes="bars"):
                for number, (name, count) in enumerate(counts.items()):
                    with tag("span", classes="name"):
                        swatch(number)
                        tag("span", name)
                    width = f"{100 * count / highest:.1f}%"
                    tag("span", classes="bar-line", style=f"--own: var(--k{number}); width: {width}")
                    tag("span", f"{count} / {predicted.get(name, 0)}" if predicted else str(count), "value")

    def _draw_disputed(self, predictions: ProjectPredictions) -> None:
        disputed, classes = predictions.disputed(MAX_DISPUTED_SHOWN), self.workspace.snapshot.classes
        with tag("section", classes="stack"):
            tag("h3", "Nodes on which the peers disagree")
            if not disputed:
                tag("p", "None: all peers predict the same classes.", "soft")
                return
            with tag("div", classes="scroll"), tag("table"):
                table_head(("node", ""), ("class", ""), ("probability", "number"), ("predictions of the peers", ""))
                with tag("tbody"):
                    for one in disputed:
                        with tag("tr"):
                            with tag("td"):
                                button(one.node, partial(self._show, one.node), "link")
                            with tag("td"):
                                swatch(classes.index(one.predicted) if one.predicted in classes else None)
                                tag("span", one.predicted)
                            tag("td", f"{100 * one.confidence:.0f} %", "number")
                            tag("td", peer_counts(one.peers), "soft")

    async def _show(self, node: str) -> None:
        await show_node(self.session, node)
        self._go_to_label()


def status_text(progress: Progress, new_labels: int, has_model: bool) -> str:
    """The state of the model in a sentence."""
    if progress.state == "running":
        count = f", {progress.unit} {progress.done} of {progress.total}" if progress.total else ""
        return f"{(progress.stage or 'starting').capitalize()}{count}. You can go on labelling."
    pending = f"{plural(new_labels, 'new label')}."
    if progress.state == "failed":
        return f"Teaching failed: {progress.error}"
    if progress.state == "cancelled":
        return f"Stopped; the previous model is kept. {pending}" if has_model else f"Stopped. {pending}"
    if new_labels:
        return pending
    return "The model is up to date." if has_model else "There are no labels yet: label some nodes."


def result_figures(result: FitResult) -> list[tuple[str, str]]:
    shown = [accuracy_figure(result.expected_accuracy, result.why_no_expected_accuracy)]
    if result.changed is not None:
        shown.append((str(result.changed), f"of {result.compared} unlabelled nodes changed class"))
    before = "" if result.mean_confidence_before is None else f"; {100 * result.mean_confidence_before:.0f} % before"
    shown.append((f"{100 * result.mean_confidence:.0f} %", f"mean confidence{before}"))
    shown.append((f"{result.seconds:.1f} s", f"for {sum(result.labels.values())} labels"))
    return shown


def accuracy_figure(expected: Mapping[str, Any] | None, why_not: str | None) -> tuple[str, str]:
    if expected is None:
        return "–", f"expected accuracy unknown: {why_not}" if why_not else "expected accuracy unknown"
    low, high = (100 * end for end in expected["ci95"])
    return f"{100 * expected['accuracy']:.0f} %", f"expected accuracy, between {low:.0f} and {high:.0f} %"


def histogram_lines(histogram: Histogram) -> list[str]:
    bins = zip(histogram.counts, histogram.edges[:-1], histogram.edges[1:], strict=True)
    return [f"{plural(count, 'node')} from {100 * low:.0f} to {100 * high:.0f} %" for count, low, high in bins]


def peer_counts(peers: Mapping[str, str]) -> str:
    """Number of peers per predicted class, the largest first.

    >>> peer_counts({"gcn": "cat", "sgc": "dog", "lp": "cat"})
    '2 × cat, 1 × dog'
    """
    names = list(peers.values())
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} × {name}" for name, count in counts)
