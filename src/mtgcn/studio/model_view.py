"""The view of the model: start, watch and stop a fit; accuracy, changes, confidence, disputed nodes, downloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nicegui import ui

from mtgcn.report.charts import svg
from mtgcn.report.fit_page import confidence_chart
from mtgcn.studio.elements import Tag, View, bullets, button, figures, swatch, tag
from mtgcn.studio.nodes import Nodes
from mtgcn.studio.project import LABELS
from mtgcn.studio.state import LABELS_BEFORE_FIT, Window, fit_status, page_text

MAX_DISPUTED_SHOWN = 25
DOWNLOADS = {
    "Labels": LABELS,
    "Model": "model.zip",
    "Predictions": "predictions.csv",
    "Predictions for Excel": "predictions.csv?excel=true",
}


class ModelView(View):
    """Progress of a fit, and predictions of the model; drawn only while it is shown."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        with tag("div", classes="page", id="model") as self.pane:
            self._head = tag("div", classes="title-row")
            with tag("section", classes="stack", aria_label="Teaching"):
                self._status = tag("p", "", "soft", aria_live="polite")
                self._bar = ui.linear_progress(show_value=False)
                with tag("div", classes="row"):
                    self._teach = button("Teach now", self._start_or_stop, "main")
                    text = f"automatically, after {LABELS_BEFORE_FIT} new labels"
                    ui.checkbox(text, value=self.studio.auto_fit).bind_value_to(self.studio, "auto_fit")
            self._results = tag("div", classes="page-part")

    def update(self) -> None:
        if "hidden" in self.pane.classes:
            return
        studio, progress = self.studio, self.studio.worker.progress
        running = progress.state == "running"
        status = fit_status(studio)
        if self.changed("state", status):
            self._status.text = status.text
            self._bar.value = progress.done / progress.total if progress.total else 0.0
            self._bar.visible = running
            self._teach.text = "Stop" if running else "Teach now"
        self.redraw(self._head, self._draw_head, studio.has_model)
        self.redraw(self._results, self._draw_results, studio.snapshot, studio.nodes)

    async def _start_or_stop(self) -> None:
        stops = self._teach.text == "Stop"  # as shown, since a fit may begin or end before the press
        await self.window.act(self.studio.cancel if stops else self.studio.fit)

    def _draw_head(self) -> None:
        tag("h2", "Model")
        with tag("div", classes="row"):
            for title, name in DOWNLOADS.items():
                if self.studio.has_model or name == LABELS:
                    aria_label = f"Download: {title}"
                    tag("a", f"↓ {title}", "button", href=f"/export/{name}", download="", aria_label=aria_label)

    def _draw_results(self) -> None:
        nodes = self.studio.nodes
        if nodes is None or not self.studio.has_model:
            tag("p", "There is no model yet. Label nodes of two classes and teach.", "soft")
            self._draw_classes({} if nodes is None or nodes.model is None else nodes.predicted_counts())
            return
        training = nodes.fitted.training_
        shown = [("–", f"expected accuracy unknown: {training.get('why_no_expected_accuracy')}")]
        if (expected := training.get("expected_accuracy")) is not None:
            low, high = (100 * end for end in expected["ci90"])
            meaning = f"expected accuracy, between {low:.0f} and {high:.0f} %"
            shown = [(f"{100 * expected['accuracy']:.0f} %", meaning)]
        if self.studio.changed:
            shown.append((f"{len(self.studio.changed):,}", "unlabelled nodes changed class"))
        shown.append((f"{100 * training['mean_confidence']:.0f} %", "mean confidence"))
        shown.append((f"{training['seconds']:.1f} s", f"for {len(nodes.fitted_labels)} labels"))
        figures(shown)
        bullets([page_text(line) for line in training["warnings"]])
        chart = confidence_chart(nodes.confidence[nodes.unlabelled], len(nodes.class_names))
        with tag("div", classes="columns"):
            with tag("figure", classes="stack"):
                tag("h3", str(chart.get_label()))
                ui.html(str(svg(chart)), sanitize=False)  # texts are escaped
            self._draw_classes(nodes.predicted_counts())
        self._draw_disputed(nodes)
        with tag("p", classes="soft small"):
            tag("span", "The model is saved in the project: ")
            tag("code", f"mtgcn predict {self.studio.project.model_folder} --out predictions.csv")

    def _draw_classes(self, predicted: Mapping[str, int]) -> None:
        given = self.studio.snapshot.label_counts
        if not given:
            return
        with table("Nodes of each class", "class", "predicted", "given"):
            for name in sorted(given, key=lambda name: -predicted.get(name, 0)):
                with tag("tr"):
                    with tag("td"):
                        swatch(self.class_number(name))
                        tag("span", name)
                    tag("td", str(predicted.get(name, 0)))
                    tag("td", str(given[name]))

    def _draw_disputed(self, nodes: Nodes) -> None:
        disputed = nodes.disputed(MAX_DISPUTED_SHOWN)
        if not disputed:
            tag("p", "All peers predict the same classes.", "soft")
            return
        with table("Nodes on which the peers disagree", "node and class", "predictions of the peers"):
            for one in disputed:
                peers = ", ".join(f"{count} × {name}" for name, count in Counter(one.peers).most_common())
                with tag("tr"):
                    with tag("td"):
                        self.draw_node(one)
                    tag("td", peers, "soft")


def table(title: str, *columns: str) -> Tag:
    """An empty table with a title and these columns."""
    with tag("section", classes="stack"):
        tag("h3", title)
        with tag("div", classes="scroll"), tag("table"):
            with tag("thead"), tag("tr"):
                for column in columns:
                    tag("th", column)
            return tag("tbody")
