"""The books: how sure the model is, what it was told, where its peers disagree, and what can be taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mtgcn.studio.answers import Histogram, ProjectAnswers
from mtgcn.studio.elements import button, emptied, swatch, tag
from mtgcn.studio.exports import LABELS, MODEL, PREDICTIONS
from mtgcn.studio.page_teaching import expected_figure
from mtgcn.studio.window import Window

MOST_DISPUTED = 25


class BooksPane:
    """A page of its own, drawn when it is looked at and something is new."""

    def __init__(self, window: Window, go_to_label: Callable[[], None]) -> None:
        self.window, self._go_to_label = window, go_to_label
        self._drawn: object = None
        self.pane = tag("div", classes="page", id="books")

    def update(self) -> None:
        if "hidden" in self.pane.classes:
            return
        desk = self.window.desk
        now = (desk.seen, id(desk.answers))
        if self._drawn != now:
            self._drawn = now
            with emptied(self.pane):
                self._draw(desk.answers)

    def _draw(self, answers: ProjectAnswers | None) -> None:
        with tag("div", classes="title-row"):
            tag("h2", "The books")
            self._draw_exports(answers is not None)
        if answers is None:
            tag(
                "p", "There is no model yet. Label nodes of two classes and teach, and its books are kept here.", "soft"
            )
            self._draw_labels()
            return
        seen = self.window.desk.seen
        with tag("div", classes="figures"):
            for figure, meaning in (
                expected_figure(answers.expected_accuracy, answers.why_no_expected_accuracy),
                (str(len(seen.labels)), f"labels of {len(set(seen.labels.values()))} classes"),
                (str(len(self.window.desk.project.loaded.ids)), "nodes in all"),
            ):
                with tag("div"):
                    tag("strong", figure)
                    tag("span", meaning)
        with tag("div", classes="columns"):
            self._draw_histogram(answers)
            self._draw_labels(answers)
        self._draw_disputed(answers)
        with tag("p", classes="soft small"):
            tag("span", "The model lies in the project, for: ")
            tag("code", f"mtgcn predict {self.window.desk.project.model_folder} --out predictions.csv")

    def _draw_histogram(self, answers: ProjectAnswers) -> None:
        histogram = answers.histogram()
        most = max([*histogram.counts, 1])
        with tag("figure", classes="stack"):
            tag("h3", "How sure the model is of the nodes without a label")
            with tag("div", classes="histogram", role="img", aria_label=histogram_words(histogram)):
                for count, low, high in zip(histogram.counts, histogram.edges[:-1], histogram.edges[1:], strict=True):
                    title = f"{count} nodes between {100 * low:.0f} and {100 * high:.0f} %"
                    tag("i", title=title, style=f"height: {100 * count / most:.1f}%")
            with tag("div", classes="histogram-scale", aria_hidden="true"):
                for edge in (histogram.edges[0], histogram.edges[-1]):
                    tag("span", f"{100 * edge:.0f} %")

    def _draw_labels(self, answers: ProjectAnswers | None = None) -> None:
        seen = self.window.desk.seen
        given = {name: sum(label == name for label in seen.labels.values()) for name in seen.classes}
        predicted = {} if answers is None else answers.predicted_counts()
        most = max([*given.values(), 1])
        with tag("section", classes="stack"):
            tag("h3", "Labels you gave" + (", and nodes predicted" if predicted else ""))
            with tag("div", classes="bars"):
                for number, (name, count) in enumerate(given.items()):
                    with tag("span", classes="name"):
                        swatch(number)
                        tag("span", name)
                    tag("span", classes="bar-line", style=f"--own: var(--k{number}); width: {100 * count / most:.1f}%")
                    more = f" / {predicted.get(name, 0)}" if predicted else ""
                    tag("span", f"{count}{more}", "value")

    def _draw_disputed(self, answers: ProjectAnswers) -> None:
        disputed, names = answers.disputed(MOST_DISPUTED), self.window.desk.seen.classes
        with tag("section", classes="stack"):
            tag("h3", "Where the peers disagree")
            if not disputed:
                tag("p", "Nowhere: all peers predict the same classes.", "soft")
                return
            with tag("div", classes="scroll"), tag("table"):
                with tag("thead"), tag("tr"):
                    for title, classes in (("node", ""), ("class", ""), ("sure", "number"), ("the peers say", "")):
                        tag("th", title, classes)
                with tag("tbody"):
                    for one in disputed:
                        with tag("tr"):
                            with tag("td"):
                                button(one.node, partial(self._show, one.node), "link")
                            with tag("td"):
                                swatch(names.index(one.predicted) if one.predicted in names else None)
                                tag("span", one.predicted)
                            tag("td", f"{100 * one.confidence:.0f} %", "number")
                            tag("td", votes_words(one.peers), "soft")

    def _draw_exports(self, has_model: bool) -> None:
        offered = [("Predictions", PREDICTIONS), ("Model", MODEL)] if has_model else []
        with tag("div", classes="row"):
            for title, address in [*offered, ("Labels", LABELS)]:
                tag("a", f"↓ {title}", "button", href=address, download="", aria_label=f"Download: {title}")

    async def _show(self, node: str) -> None:
        await self.window.step(lambda: self.window.show(node))
        self._go_to_label()


def histogram_words(histogram: Histogram) -> str:
    """The histogram for whoever does not see it."""
    bins = zip(histogram.counts, histogram.edges[:-1], histogram.edges[1:], strict=True)
    return "; ".join(f"{count} nodes from {100 * low:.0f} to {100 * high:.0f} %" for count, low, high in bins if count)


def votes_words(peers: Mapping[str, str]) -> str:
    """Which classes the peers name, the most named first.

    >>> votes_words({"gcn": "cat", "sgc": "dog", "lp": "cat"})
    '2 × cat, 1 × dog'
    """
    names = list(peers.values())
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count} × {name}" for name, count in counts)
