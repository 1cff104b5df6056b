"""The page: a bar, four views, and one window on the desk for everybody who opens it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nicegui import app, ui

from mtgcn.report.styles import class_variables, colour_variables
from mtgcn.studio.components import Keys
from mtgcn.studio.desk import RUNNING, Desk
from mtgcn.studio.elements import Tag, button, tag
from mtgcn.studio.page_around import AroundPane
from mtgcn.studio.page_books import BooksPane
from mtgcn.studio.page_data import DataPane
from mtgcn.studio.page_label import KEYS, LabelPane
from mtgcn.studio.page_map import MapPane
from mtgcn.studio.page_teaching import TeachingPane
from mtgcn.studio.window import Pane, Window

STATIC = Path(__file__).parent / "static"
VIEWS = {"label": "Label", "teaching": "Teaching", "books": "Books", "data": "Data"}
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TOLD = 5.0


def offer_page(desk: Desk) -> None:
    """Let NiceGUI serve the page of a desk."""
    app.add_static_file(local_file=STATIC / "studio.css", url_path="/studio.css")
    ui.add_head_html('<link rel="stylesheet" href="/studio.css">', shared=True)
    ui.page("/", title="mtgcn studio", favicon=FAVICON)(lambda: Page(desk))


class Page:
    """What one browser window shows."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        client = ui.context.client
        self.window = Window(desk, self.tell, lambda: client.tab_id or client.id)
        self._view = ""
        self._drawn_bar: object = None
        self._coloured = -1
        ui.add_css(str(colour_variables()))
        Keys(self._pressed)
        with tag("div", classes="studio"):
            self._draw_bar_once()
            with tag("main", classes="view"):
                with tag("div", classes="desk", id="desk") as label_view:
                    panes: list[Pane] = [LabelPane(self.window), MapPane(self.window), AroundPane(self.window)]
                teaching = TeachingPane(self.window)
                books = BooksPane(self.window, partial(self.go, "label"))
                data = DataPane(self.window, partial(self.go, "label"))
            self._told = tag("div", "", "telling hidden", role="status", aria_live="polite")
        self._views = {"label": label_view, "teaching": teaching.pane, "books": books.pane, "data": data.pane}
        self.window.panes = [self, *panes, teaching, books, data]
        self.go("label" if desk.seen.is_loaded else "data")
        ui.timer(SECONDS_BETWEEN_LOOKS, self.window.look)

    def go(self, view: str) -> None:
        """Show one of the views."""
        self._view = view
        for name, element in self._views.items():
            element.classes(add="" if name == view else "hidden", remove="hidden")
            self._tabs[name].attributes(aria_current="page" if name == view else None)
        self.window.draw()

    def tell(self, text: str, *, bad: bool = False) -> None:
        """Say something for a few seconds."""
        self._told.text = text
        self._told.classes(add="bad" if bad else "", remove="hidden bad")
        with self._told:
            ui.timer(SECONDS_TOLD * (2 if bad else 1), lambda: self._hush(text), once=True)

    def _hush(self, text: str) -> None:
        if self._told.text == text:
            self._told.classes(add="hidden")

    # The bar

    def _draw_bar_once(self) -> None:
        with tag("header", classes="bar"):
            with tag("div", "mtgcn ", "brand"):
                tag("span", "studio")
            with tag("nav", classes="tabs", aria_label="Views"):
                self._tabs: dict[str, Tag] = {
                    name: button(title, partial(self.go, name), data_view=name) for name, title in VIEWS.items()
                }
            with tag("div", classes="state"):
                self._project = tag("span", "", "project soft small")
                self._labels = tag("span", "", "small number", id="labels")
                self._pill = tag("span", "", "pill", role="status", id="pill")

    def update(self) -> None:
        """Draw the bar anew where something changed."""
        desk = self.desk
        if len(desk.seen.classes) != self._coloured:
            self._coloured = len(desk.seen.classes)
            ui.add_css(str(class_variables(max(1, self._coloured))))
        now = (desk.seen, desk.trouble, state_of(desk))
        if self._drawn_bar == now:
            return
        self._drawn_bar = now
        count = len(desk.seen.labels)
        self._project.text = desk.seen.title
        self._labels.text = f"{count} label{'' if count == 1 else 's'}" if desk.seen.is_loaded else ""
        text, kind = state_of(desk)
        self._pill.text = text
        self._pill.classes(add=kind, remove="busy ready failed hidden")
        if desk.trouble:
            self.tell(desk.trouble, bad=True)

    async def _pressed(self, key: str, node: str) -> None:
        window = self.window
        if key in KEYS:
            await window.step(lambda: window.label(node, KEYS.index(key)))
        elif key == "s":
            await window.step(lambda: window.skip(node))
        elif key == "u":
            await window.step(window.undo)
        elif key == "ArrowRight":
            await window.step(window.next)
        elif key == "ArrowLeft":
            await window.step(window.previous)


def state_of(desk: Desk) -> tuple[str, str]:
    """How the teacher stands, in a word or two, and the look of it."""
    progress = desk.progress
    if not desk.seen.is_loaded:
        return "No graph yet", ""
    if progress.state == RUNNING:
        share = f" {100 * progress.epochs / progress.total:.0f} %" if progress.total else ""
        return f"Teaching{share}", "busy"
    if progress.state == "failed":
        return "Teaching failed", "failed"
    if desk.seen.new_labels and desk.seen.labels:
        return f"{desk.seen.new_labels} to learn", ""
    return ("Up to date", "ready") if desk.answers is not None else ("No model yet", "")


FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M8 23 16 8l9 12" fill="none" '
    'stroke="#9aa0a8" stroke-width="2.5"/><circle cx="8" cy="23" r="5" fill="#1f77b4"/>'
    '<circle cx="16" cy="8" r="5" fill="#e07b00"/><circle cx="25" cy="20" r="5" fill="#1d8a5b"/></svg>'
)
