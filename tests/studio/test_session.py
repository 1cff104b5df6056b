"""Actions in a window, without a browser."""

import asyncio

import pytest

from mtgcn.studio.session import NodeHistory, Session


class Window:
    """A session whose actions are awaited, and its messages."""

    def __init__(self, workspace, name):
        self.messages = []
        self.session = Session(workspace, lambda text, error: self.messages.append((text, error)), lambda: name)

    def act(self, *actions):
        """Run actions; returns the node shown afterwards."""

        async def run():
            await self.session.workspace.poll()
            await self.session.workspace.update()
            await self.session.poll()
            for action in actions:
                await self.session.act(action)

        asyncio.run(run())
        return None if self.session.view is None else self.session.view.node

    def label(self, node, number):
        return self.act(lambda: self.session.label(node, number))


@pytest.fixture
def window(workspace):
    return Window(workspace, "one")


def test_history_follows_the_queue_and_goes_back_and_forth():
    history = NodeHistory()
    assert (history.node, history.back()) == (None, None)
    assert history.forward(["a", "b", "c"], done={"a"}) == "b"
    assert [history.forward(["b", "c"]), history.forward(["b", "c"]), history.node] == ["c", None, "c"]
    history.clear()
    for _ in range(3):
        history.forward("abc")
    assert [history.back(), history.back(), history.back()] == ["b", "a", "a"]
    assert [history.forward("xyz"), history.forward("xyz"), history.forward("xyz")] == ["b", "c", "x"]
    history.back()
    history.show("z")
    history.show("z")
    assert [history.back(), history.back()] == ["x", "c"]


def test_shows_the_first_node_of_the_queue(window, workspace):
    assert window.act() == workspace.queue[0].node
    view = window.session.view
    assert view.reason == workspace.queue[0].reason
    assert view.prediction is None
    assert "colour" in dict(view.details.attributes)
    assert [item.node for item in view.upcoming] == [item.node for item in workspace.queue[1:6]]
    assert view.pictures == {}


def test_label_shows_the_next_node(window, workspace, project):
    first = window.act()
    second = window.label(first, 2)
    assert project.labels() == {first: "eel"}
    assert second == workspace.queue[1].node
    assert window.label(first, 1) == second  # a late key for a node that is no longer shown
    assert project.labels() == {first: "dog"}
    assert window.label(second, 7) == second  # no such class
    assert project.labels() == {first: "dog"}


def test_previous_next_skip_and_undo(window, project):
    session = window.session
    first = window.act()
    second = window.label(first, 0)
    third = window.act(lambda: session.skip(second))
    assert len({first, second, third}) == 3
    assert project.skipped == (second,)
    assert window.act(session.previous) == second
    assert window.act(session.next) == third
    assert window.act(session.undo) == second
    assert project.skipped == ()
    assert window.act(session.undo) == first
    assert project.labels() == {}
    window.act(session.undo)
    assert window.messages[-1] == ("This window has no change to undo.", False)


def test_undo_is_per_window(window, workspace, project):
    other = Window(workspace, "two")
    first = window.act()
    other.act(lambda: other.session.show("n20"))
    window.label(first, 0)
    other.label("n20", 1)
    window.act(window.session.undo)
    assert project.labels() == {"n20": "dog"}


def test_errors_are_messages_and_labelling_goes_on(window, workspace, project, monkeypatch, caplog):
    drawn = []
    window.label("stranger", 0)
    assert "stranger" in window.messages[0][0]
    assert caplog.records == []
    monkeypatch.setattr("mtgcn.studio.session.node_details", lambda *_: 1 / 0)
    window.session.updates = [lambda: [] + 1, lambda: drawn.append(1)]  # a view that fails, and one that does not
    first = window.act(lambda: window.session.show(workspace.queue[0].node))
    texts = " ".join(text for text, error in window.messages if error)
    assert "ZeroDivisionError: division by zero" in texts
    assert "TypeError" in texts
    assert "Traceback" in caplog.text
    assert drawn
    assert window.label(first, 2) == workspace.queue[1].node
    assert project.labels() == {first: "eel"}


def test_label_until_no_node_is_left(window, workspace, project, truth):
    workspace.auto_fit = False
    node = window.act()
    for _ in range(36):
        window.label(node, workspace.snapshot.classes.index(truth(node)))
        node = window.act()
    assert len(project.labels()) == 36
    window.act(window.session.next)
    assert window.messages[-1] == ("No other node is in the queue now.", False)
