"""The views of the model: Teaching (start, watch and stop a fit) and Results (accuracy, confidence, disputed nodes,
downloads)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mtgcn.report.fit_page import histogram
from mtgcn.studio.elements import View, button, cleared, figures, note, plural, swatch, table_head, tag
from mtgcn.studio.fitting import FitResult
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.studio.session import Session
from mtgcn.studio.worker import Curve, Progress
from mtgcn.studio.workspace import LABELS_BEFORE_FIT

CURVE_COLOURS = 7  # variables --c0 to --c6
CURVE_WIDTH, CURVE_HEIGHT = 420, 200
CURVE_LEFT, CURVE_RIGHT, CURVE_TOP, CURVE_BOTTOM = 44, 406, 12, 170  # of the plot in the picture
MAX_CHANGES_SHOWN = 8
MAX_DISPUTED_SHOWN = 25
DOWNLOADS = {
    "Predictions": "/export/predictions.csv",
    "Model": "/export/model.zip",
    "Labels": "/export/labels.csv",
}


class TeachingView(View):
    """Progress, curves and result of a fit."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
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

    def _set_auto_fit(self, event: Any) -> None:
        self.workspace.auto_fit = event.args is True

    def update(self) -> None:
        progress, new_labels = self.workspace.progress, self.workspace.snapshot.new_labels
        has_model, running = self.workspace.predictions is not None, progress.state == "running"
        status = status_text(progress, new_labels, has_model)
        if self.changed("state", status, progress.state, progress.done, progress.total):
            self._status.text = status
            share = progress.done / progress.total if progress.total else float(progress.state == "done")
            self._bar.show(running)
            self._bar.attributes(aria_valuenow=str(round(100 * share)))
            self._done.style(f"width: {100 * share:.1f}%")
            self._start.attributes(disabled=True if running else None)
            self._stop.show(running)
        if self.changed("curves", progress.curves):
            with cleared(self._curves):
                for number, (name, curve) in enumerate(progress.curves.items()):
                    with tag("figure", classes="stack"):
                        tag("h3", name)
                        draw_curve(name, progress.unit, f"--c{number % CURVE_COLOURS}", curve)
        if self.changed("result", progress.result):
            with cleared(self._result):
                if progress.result is not None:
                    self._draw_result(progress.result)

    def _draw_result(self, result: FitResult) -> None:
        tag("h2", "The first model" if result.changed is None else "What changed")
        shown = [accuracy_figure(result.expected_accuracy, result.why_no_expected_accuracy)]
        if result.changed is not None:
            shown.append((str(result.changed), f"of {result.compared} unlabelled nodes changed class"))
        previous = result.mean_confidence_before
        earlier = "" if previous is None else f"; {100 * previous:.0f} % before"
        shown.append((f"{100 * result.mean_confidence:.0f} %", f"mean confidence{earlier}"))
        shown.append((f"{result.seconds:.1f} s", f"for {sum(result.labels.values())} labels"))
        figures(shown)
        if result.changes:
            with tag("div", classes="scroll"), tag("table", classes="narrow"):
                table_head(("before", ""), ("now", ""), ("nodes", "number"))
                with tag("tbody"):
                    for before, after, nodes in result.changes[:MAX_CHANGES_SHOWN]:
                        with tag("tr"):
                            tag("td", before)
                            tag("td", after)
                            tag("td", nodes, "number")
        note(result.warnings)


def draw_curve(title: str, unit: str, colour: str, curve: Curve) -> None:
    """A line over the epochs or rounds of a training."""
    last = max(epoch for epoch, _ in curve)
    low = min(0.0, *(value for _, value in curve))
    high = max(low + 1e-9, *(value for _, value in curve))

    def up(value: float) -> float:
        return round(CURVE_BOTTOM - (CURVE_BOTTOM - CURVE_TOP) * (value - low) / (high - low), 1)

    places = [(CURVE_LEFT + (CURVE_RIGHT - CURVE_LEFT) * epoch / max(last, 1), up(value)) for epoch, value in curve]
    with tag("svg", classes="curves", viewBox=f"0 0 {CURVE_WIDTH} {CURVE_HEIGHT}", role="img", aria_label=title):
        for value in (low, (low + high) / 2, high):
            tag("line", classes="grid", x1=CURVE_LEFT, x2=CURVE_RIGHT, y1=up(value), y2=up(value))
            tag("text", f"{float(f'{value:.2g}'):g}", "end", x=CURVE_LEFT - 6, y=up(value) + 4)
        tag("text", "0", x=CURVE_LEFT, y=CURVE_HEIGHT - 8)
        tag("text", f"{last} {unit}s", "end", x=CURVE_RIGHT, y=CURVE_HEIGHT - 8)
        points = " ".join(f"{x:.1f},{y}" for x, y in places)
        tag("polyline", classes="line", points=points, style=f"stroke: var({colour})")


class ResultsView(View):
    """Accuracy, confidence, labels per class, disputed nodes and downloads; drawn only while it is shown."""

    def __init__(self, session: Session, go_to_label: Callable[[], None]) -> None:
        super().__init__(session)
        self._go_to_label = go_to_label
        self.pane = tag("div", classes="page", id="results")

    def update(self) -> None:
        predictions = self.workspace.predictions
        if "hidden" not in self.pane.classes and self.changed("pane", self.workspace.snapshot, predictions):
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
            self._draw_labels({})
            return
        labels, project, training = self.workspace.snapshot.labels, self.workspace.project, predictions.model.training_
        figures(
            [
                accuracy_figure(training.get("expected_accuracy"), training.get("why_no_expected_accuracy")),
                (str(len(labels)), f"labels of {len(set(labels.values()))} classes"),
                (str(len(project.loaded.ids)), "nodes"),
            ]
        )
        with tag("div", classes="columns"):
            self._draw_histogram(predictions)
            self._draw_labels(predictions.predicted_counts())
        self._draw_disputed(predictions)
        with tag("p", classes="soft small"):
            tag("span", "The model is saved in the project: ")
            tag("code", f"mtgcn predict {project.model_folder} --out predictions.csv")

    def _draw_histogram(self, predictions: ProjectPredictions) -> None:
        counts, edges = histogram(predictions.confidence[predictions.unlabelled], len(predictions.class_names))
        lines = [
            f"{plural(count, 'node')} from {100 * low:.0f} to {100 * high:.0f} %"
            for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
        ]
        with tag("figure", classes="stack"):
            tag("h3", "Confidence on unlabelled nodes")
            with tag("div", classes="histogram", role="img", aria_label="; ".join(lines)):
                for count, line in zip(counts, lines, strict=True):
                    tag("i", title=line, style=f"height: {100 * count / max(1, *counts):.1f}%")
            with tag("div", classes="histogram-scale", aria_hidden="true"):
                for edge in (edges[0], edges[-1]):
                    tag("span", f"{100 * edge:.0f} %")

    def _draw_labels(self, predicted: Mapping[str, int]) -> None:
        counts = self.workspace.snapshot.label_counts
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
        disputed = predictions.disputed(MAX_DISPUTED_SHOWN)
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
                                swatch(self.class_number(one.predicted))
                                tag("span", one.predicted)
                            tag("td", f"{100 * one.confidence:.0f} %", "number")
                            tag("td", peer_counts(one.peers), "soft")

    async def _show(self, node: str) -> None:
        await self.show_node(node)
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


def accuracy_figure(expected: Mapping[str, Any] | None, why_not: str | None) -> tuple[str, str]:
    if expected is None:
        return "–", f"expected accuracy unknown: {why_not}" if why_not else "expected accuracy unknown"
    low, high = (100 * end for end in expected["ci95"])
    return f"{100 * expected['accuracy']:.0f} %", f"expected accuracy, between {low:.0f} and {high:.0f} %"


def peer_counts(peers: Mapping[str, str]) -> str:
    """Number of peers per predicted class, the largest first.

    >>> peer_counts({"gcn": "cat", "sgc": "dog", "lp": "cat"})
    '2 × cat, 1 × dog'
    """
    counts = sorted(Counter(peers.values()).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} × {name}" for name, count in counts)
