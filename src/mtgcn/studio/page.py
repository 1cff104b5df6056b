"""The page: a bar and four views for each browser window."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nicegui import app, ui

from mtgcn.report.pages import class_variables, colour_variables
from mtgcn.studio.data_view import DataView
from mtgcn.studio.elements import Keys, Tag, button, plural, tag
from mtgcn.studio.label_view import KEYS, MapPane, NeighbourhoodPane, NodePane
from mtgcn.studio.model_view import ResultsView, TeachingView
from mtgcn.studio.session import Session, View
from mtgcn.studio.workspace import POLL_SECONDS, Workspace, error_line

STATIC = Path(__file__).parent / "static"
VIEWS = {"label": "Label", "teaching": "Teaching", "results": "Results", "data": "Data"}
MESSAGE_SECONDS = 5.0
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M8 23 16 8l9 12" fill="none" '
    'stroke="#9aa0a8" stroke-width="2.5"/><circle cx="8" cy="23" r="5" fill="#1f77b4"/>'
    '<circle cx="16" cy="8" r="5" fill="#e07b00"/><circle cx="25" cy="20" r="5" fill="#1d8a5b"/></svg>'
)


def add_page(workspace: Workspace) -> None:
    """Register the page with NiceGUI."""
    app.add_static_file(local_file=STATIC / "studio.css", url_path="/studio.css")
    ui.add_head_html('<link rel="stylesheet" href="/studio.css">', shared=True)
    ui.page("/", title="mtgcn studio", favicon=FAVICON)(lambda: Page(workspace))
    app.on_page_exception(lambda error: tag("p", error_line(error), "note"))


class Page:
    """The content of one browser window."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        client = ui.context.client
        self.session = Session(workspace, self.notify, lambda: client.tab_id or client.id)
        self._drawn_bar: object = None
        self._coloured = -1
        ui.add_css(str(colour_variables()))
        Keys(self._press)
        with tag("div", classes="studio"):
            self._draw_bar()
            with tag("main", classes="view"):
                with tag("div", classes="label-view") as label:
                    panes: list[View] = [NodePane(self.session), MapPane(self.session), NeighbourhoodPane(self.session)]
                teaching = TeachingView(self.session)
                results = ResultsView(self.session, partial(self.go, "label"))
                data = DataView(self.session, partial(self.go, "label"))
            self._message = tag("div", "", "message hidden", role="status", aria_live="polite")
        self._views = {"label": label, "teaching": teaching.pane, "results": results.pane, "data": data.pane}
        self.session.views = [self, *panes, teaching, results, data]
        self.go("label" if workspace.snapshot.is_loaded else "data")
        ui.timer(POLL_SECONDS, self.session.poll)

    def go(self, view: str) -> None:
        """Show one of the views."""
        for name, element in self._views.items():
            element.show(name == view)
            self._tabs[name].attributes(aria_current="page" if name == view else None)
        self.session.draw()

    def notify(self, text: str, *, error: bool = False) -> None:
        """Show a message for some seconds."""
        self._message.text = text
        self._message.classes(add="bad" if error else "", remove="hidden bad")
        with self._message:
            ui.timer(MESSAGE_SECONDS * (2 if error else 1), lambda: self._hide_message(text), once=True)

    def _hide_message(self, text: str) -> None:
        if self._message.text == text:
            self._message.show(False)

    def _draw_bar(self) -> None:
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
        """Redraw the bar if something changed."""
        workspace, snapshot = self.workspace, self.workspace.snapshot
        if len(snapshot.classes) != self._coloured:
            self._coloured = len(snapshot.classes)
            ui.add_css(str(class_variables(max(1, self._coloured))))
        text, kind = model_state(workspace)
        now = (snapshot, workspace.error, text, kind)
        if self._drawn_bar == now:
            return
        self._drawn_bar = now
        self._project.text = snapshot.title
        self._labels.text = plural(len(snapshot.labels), "label") if snapshot.is_loaded else ""
        self._pill.text = text
        self._pill.classes(add=kind, remove="busy ready failed")
        if workspace.error:
            self.notify(workspace.error, error=True)

    async def _press(self, key: str, node: str) -> None:
        session = self.session
        if key in KEYS:
            await session.act(lambda: session.label(node, KEYS.index(key)))
        elif key == "s":
            await session.act(lambda: session.skip(node))
        else:
            actions = {"u": session.undo, "ArrowRight": session.next, "ArrowLeft": session.previous}
            if key in actions:
                await session.act(actions[key])


def model_state(workspace: Workspace) -> tuple[str, str]:
    """The state of the model in a word or two, and its CSS class."""
    progress, snapshot = workspace.progress, workspace.snapshot
    if not snapshot.is_loaded:
        return "No graph yet", ""
    if progress.state == "running":
        share = f" {100 * progress.done / progress.total:.0f} %" if progress.total else ""
        return f"Teaching{share}", "busy"
    if progress.state == "failed":
        return "Teaching failed", "failed"
    if snapshot.new_labels and snapshot.labels:
        return plural(snapshot.new_labels, "new label"), ""
    return ("Up to date", "ready") if workspace.predictions is not None else ("No model yet", "")
