"""Teaching: begin, watch, stop, and what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtgcn.studio.components import Curves
from mtgcn.studio.desk import LABELS_BEFORE_TEACHING, RUNNING
from mtgcn.studio.elements import button, emptied, tag
from mtgcn.studio.lesson import Taught
from mtgcn.studio.teaching import Progress
from mtgcn.studio.window import Window

COLOURS = ("c0", "c1", "c2", "c3", "c4", "c5", "c6")
MOST_MOVES = 8


class TeachingPane:
    """A page of its own, which is drawn while the teacher works."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._drawn_result: object = None
        self._drawn_state: object = None
        self._drawn_points = -1
        self._charts: dict[str, Curves] = {}
        self.pane = tag("div", classes="page", id="teaching")
        with self.pane:
            with tag("section", classes="stack", aria_label="Teaching"):
                self._title = tag("h2", "Teaching")
                self._words = tag("p", "", "soft", aria_live="polite")
                with tag("div", classes="progress", role="progressbar", aria_label="Progress") as self._bar:
                    self._done = tag("i")
                with tag("div", classes="row"):
                    self._start = button("Teach now", self._teach, "main")
                    self._stop = button("Stop", self._cancel)
                    with tag("label", classes="row small"):
                        own = tag("input", type="checkbox", checked=window.desk.teaches_itself or None)
                        own.on("change", self._by_itself, js_handler="(event) => emit(event.target.checked)")
                        tag("span", f"by itself, after {LABELS_BEFORE_TEACHING} new labels")
            self._curves = tag("section", classes="curve-columns", aria_label="Curves")
            self._result = tag("section", classes="stack", aria_label="What changed")

    def update(self) -> None:
        desk, progress = self.window.desk, self.window.desk.progress
        now = (progress.state, progress.stage, progress.epochs, progress.total, progress.error, desk.seen.new_labels)
        if self._drawn_state != now:
            self._drawn_state = now
            self._draw_state(progress)
        self._draw_curves(progress)
        if self._drawn_result != (progress.result, progress.state == RUNNING):
            self._drawn_result = (progress.result, progress.state == RUNNING)
            with emptied(self._result):
                if progress.result is not None:
                    self._draw_result(progress.result)

    def _draw_state(self, progress: Progress) -> None:
        running = progress.state == RUNNING
        self._words.text = words_of(progress, self.window.desk.seen.new_labels, self.window.desk.answers is not None)
        share = progress.epochs / progress.total if progress.total else float(progress.state == "done")
        self._bar.classes(add="" if running else "hidden", remove="hidden")
        self._bar.attributes(aria_valuenow=str(round(100 * share)))
        self._done.style(f"width: {100 * share:.1f}%")
        self._start.attributes(disabled=True if running else None)
        self._stop.classes(add="" if running else "hidden", remove="hidden")

    def _draw_curves(self, progress: Progress) -> None:
        if list(self._charts) != list(progress.curves):
            self._drawn_points = -1
            with emptied(self._curves):
                self._charts = {name: self._chart(name) for name in progress.curves}
        points = sum(len(curve) for curve in progress.curves.values())
        if points != self._drawn_points:
            self._drawn_points = points
            for number, (name, curve) in enumerate(progress.curves.items()):
                line = {"colour": COLOURS[number % len(COLOURS)], "points": [list(one) for one in curve]}
                self._charts[name].show([line])

    def _chart(self, name: str) -> Curves:
        with tag("figure", classes="stack"):
            tag("h3", name)
            return Curves(name)

    def _draw_result(self, result: Taught) -> None:
        tag("h2", "What changed" if result.changed is not None else "The first model")
        with tag("div", classes="figures"):
            for figure, meaning in figures_of(result):
                with tag("div"):
                    tag("strong", figure)
                    tag("span", meaning)
        if result.moved:
            with tag("div", classes="scroll"), tag("table", classes="narrow"):
                with tag("thead"), tag("tr"):
                    for title, classes in (("before", ""), ("now", ""), ("nodes", "number")):
                        tag("th", title, classes)
                with tag("tbody"):
                    for move in result.moved[:MOST_MOVES]:
                        with tag("tr"):
                            tag("td", move.before)
                            tag("td", move.after)
                            tag("td", move.nodes, "number")
        if result.warnings:
            with tag("ul", classes="note"):
                for warning in result.warnings:
                    tag("li", warning)

    async def _teach(self) -> None:
        await self.window.step(self.window.desk.teach)

    async def _cancel(self) -> None:
        await self.window.step(self.window.desk.cancel)

    def _by_itself(self, event: Any) -> None:
        self.window.desk.teaches_itself = event.args is True


def words_of(progress: Progress, new_labels: int, has_model: bool) -> str:
    """How things stand, in a sentence."""
    if progress.state == RUNNING:
        epochs = f", epoch {progress.epochs} of {progress.total}" if progress.total else ""
        return f"{(progress.stage or 'beginning').capitalize()}{epochs}. You can go on labelling."
    waiting = f"{new_labels} label{'' if new_labels == 1 else 's'} wait{'s' if new_labels == 1 else ''} to be learned."
    if progress.state == "failed":
        return f"Teaching failed: {progress.error}"
    if progress.state == "cancelled":
        return f"Stopped; the model before is still there. {waiting}" if has_model else f"Stopped. {waiting}"
    if new_labels:
        return waiting
    return "The model knows every label." if has_model else "There is nothing to learn from yet: label some nodes."


def figures_of(result: Taught) -> list[tuple[str, str]]:
    """Figures and what they mean."""
    shown = [expected_figure(result.expected_accuracy, result.why_no_expected_accuracy)]
    if result.changed is not None:
        shown.append((str(result.changed), f"of {result.compared} nodes without a label are predicted otherwise"))
    before = "" if result.mean_confidence_before is None else f"; {100 * result.mean_confidence_before:.0f} % before"
    shown.append((f"{100 * result.mean_confidence:.0f} %", f"mean confidence{before}"))
    shown.append((f"{result.seconds:.1f} s", f"for {sum(result.labels.values())} labels"))
    return shown


def expected_figure(expected: Mapping[str, Any] | None, why_not: str | None) -> tuple[str, str]:
    if expected is None:
        return "–", f"expected accuracy is not known: {why_not}" if why_not else "expected accuracy is not known"
    low, high = (100 * end for end in expected["ci95"])
    return f"{100 * expected['accuracy']:.0f} %", f"expected accuracy, between {low:.0f} and {high:.0f} %"
