"""The shared state and one window, without a browser."""

import asyncio
import operator
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.studio.fitting import MapPoints, Progress, fit_project
from mtgcn.studio.map_view import colour_bytes, colours, place_bytes
from mtgcn.studio.project import Project
from mtgcn.studio.state import LABELS_BEFORE_FIT, MIN_QUEUE_LENGTH, QUEUE_LENGTH, Studio, Window, fit_status, page_text


def step(studio, times=1):
    async def steps():
        for _ in range(times):
            await studio.step()

    asyncio.run(steps())


def broken(*_):
    raise ZeroDivisionError("a bug")


def test_polls_the_project_and_fills_queue_and_map(studio, tmp_path, worker):
    empty = Studio(Project(tmp_path / "empty"), worker)
    step(empty, times=2)
    assert (empty.snapshot.load, empty.nodes, empty.error) == (0, None, "")
    assert not studio.snapshot.load
    step(studio)
    assert studio.snapshot.classes == ("cat", "dog", "eel")
    assert studio.snapshot.title == "edges.csv"
    assert len(studio.queue) == QUEUE_LENGTH
    assert len(studio.points.nodes) == 36
    assert studio.error == ""
    before = studio.snapshot, studio.nodes, studio.queue, studio.points
    step(studio, times=3)
    assert all(map(operator.is_, before, (studio.snapshot, studio.nodes, studio.queue, studio.points)))  # no change


def test_labels_of_another_process_appear_on_the_map(studio, project):
    step(studio)
    Project(project.folder).label("n4", "dog")
    step(studio)
    assert studio.snapshot.labels == {"n4": "dog"}
    assert studio.snapshot.label_counts == {"cat": 0, "dog": 1, "eel": 0}
    assert studio.nodes.model is None  # one class
    sent = colour_bytes(studio)
    assert np.frombuffer(sent[:72], "<u2").tolist() == [
        1 if node == "n4" else 65535 for node in studio.nodes.loaded.ids
    ]
    for values, value in ((sent[72:108], 255), (sent[108:], 1)):  # confidence, whether it is labelled
        assert list(values) == [value * (node == "n4") for node in studio.nodes.loaded.ids]


def test_map_shows_predictions_under_present_names(studio, labelled, worker, quick):
    studio.auto_fit = False
    step(studio)
    fit_project(labelled, quick)  # by another process
    step(studio)
    model = studio.nodes.model
    worker.progress = Progress("running")
    labelled.rename_class("eel", "fish")
    step(studio)
    assert studio.nodes.model is model
    classes, confidence, known = colours(studio)
    names = np.array(studio.snapshot.classes)[classes]
    assert np.where(names == "fish", "eel", names)[~known].tolist() == model.transduction_[~known].tolist()
    assert np.array_equal(confidence[~known], studio.nodes.confidence[~known])
    assert known.sum() == 6


def test_coordinates_are_centred_in_a_square():
    x, y = np.frombuffer(place_bytes(np.array([[2.0, 5], [6, 5], [4, 7]])), "<f4").reshape(2, 3)
    np.testing.assert_allclose(x, [0, 1, 0.5])
    np.testing.assert_allclose(y, [0.25, 0.25, 0.75])
    np.testing.assert_allclose(np.frombuffer(place_bytes(np.array([[3.0, 3.0]])), "<f4"), 0.5)


def test_numbers_of_nodes_outside_a_sample():
    points = MapPoints(np.array([2, 5, 9]), np.zeros((3, 2)))
    assert points.numbers(np.array([9, 2, 3, 0, 12, -1])) == [2, 0, -1, -1, -1, -1]


def test_short_queue_is_refilled(studio, project, truth):
    step(studio)
    first = list(studio.queue)
    studio.auto_fit = False
    for node in first[:-MIN_QUEUE_LENGTH]:
        project.label(node, truth(node))
    step(studio)
    assert list(studio.queue) == first
    project.label(first[-1], truth(first[-1]))
    step(studio)
    assert len(studio.queue) == QUEUE_LENGTH
    assert not studio.queue.keys() & project.labels().keys()


def test_automatic_fit(studio, project, worker, truth):
    cats_and_dogs = [f"n{number}" for number in range(36) if number % 3 < 2]
    for node in cats_and_dogs[: LABELS_BEFORE_FIT + 2]:
        project.label(node, truth(node))
    step(studio, times=2)
    assert worker.fits == 0  # no eel yet
    project.label("n2", "eel")
    studio.auto_fit = False
    step(studio, times=3)
    assert worker.fits == 0
    studio.auto_fit = True
    step(studio, times=3)
    assert worker.fits == 1
    worker.progress = Progress("cancelled")
    step(studio, times=3)
    assert worker.fits == 1  # not again with the same labels
    for node in ("n5", "n8", "n11", "n14"):
        project.label(node, "eel")
    step(studio, times=2)
    assert worker.fits == 1
    project.label("n17", "eel")
    step(studio, times=2)
    assert worker.fits == 2


def test_failed_fit_is_retried_after_a_change(studio, worker, project, truth):
    worker.refuses = True
    for number in range(6):
        project.label(f"n{number}", truth(f"n{number}"))
    step(studio, times=4)
    assert studio.error == "there is nothing to learn"
    assert worker.fits == 1
    project.label("n6", truth("n6"))
    step(studio, times=2)
    assert studio.error == ""


def test_invalid_label_file_keeps_the_last_labels(studio, project, caplog):
    project.label("n1", "dog")
    step(studio)
    valid = project.labels_path.read_bytes()
    project.labels_path.write_text("id,label\nstranger,dog\n", encoding="utf-8")
    step(studio, times=2)
    assert "stranger" in studio.error
    assert studio.snapshot.labels == {"n1": "dog"}
    project.labels_path.write_bytes(valid)
    step(studio)
    assert studio.error == ""
    assert caplog.records == []


@pytest.mark.parametrize("target", ["mtgcn.studio.nodes.Nodes.queue", "mtgcn.studio.project.Project.labels"])
def test_unexpected_error_is_logged_once_and_recovers(studio, monkeypatch, caplog, target):
    step(studio)
    studio.project.label("n1", "dog")
    studio.queue = {}
    with monkeypatch.context() as changed:
        changed.setattr(target, broken)
        step(studio, times=4)
        assert studio.error.startswith("Unexpected error (ZeroDivisionError: a bug). Your labels are saved.")
        assert len(caplog.records) == 1
    studio.project.label("n2", "eel")
    step(studio)
    assert studio.error == ""
    assert studio.queue


def test_loading_another_graph_resets_everything(studio, project, files):
    project.label("n1", "dog")
    step(studio)
    project.load_files(replace(files, exclude=["note"]))
    step(studio)
    assert studio.snapshot.labels == {}
    assert studio.snapshot.load == 2
    assert len(studio.queue) == QUEUE_LENGTH


# One window


class Driver:
    """A window whose actions are awaited, and its messages."""

    def __init__(self, studio):
        self.messages = []
        self.window = Window(studio, lambda text, error: self.messages.append((text, error)), lambda: "one")

    def act(self, *actions):
        """Run actions; returns the node shown afterwards."""

        async def run():
            await self.window.studio.step()
            await self.window.poll()
            for action in actions:
                await self.window.act(action)

        asyncio.run(run())
        return self.window.node

    def label(self, node, name):
        return self.act(lambda: self.window.label(node, name))


@pytest.fixture
def driver(studio):
    return Driver(studio)


def test_shows_the_first_node_of_the_queue(driver, studio):
    driver.act()
    window, first = driver.window, next(iter(studio.queue))
    assert window.node == window.view.node.id == first
    assert window.reason == studio.queue[first]
    assert "colour" in {cell.column for cell in window.view.attributes}


def test_label_shows_the_next_node(driver, studio, project):
    first = driver.act()
    second = driver.label(first, "eel")
    assert project.labels() == {first: "eel"}
    assert second == list(studio.queue)[1]
    assert driver.label(first, "dog") == second  # a late key for a node that is no longer shown
    assert project.labels() == {first: "dog"}
    assert driver.label(second, "bee") == second  # no such class
    assert driver.label(first, None) == second
    assert project.labels() == {}
    assert driver.act(lambda: driver.window.label_as_new(second, "bee")) not in (first, second)
    assert project.labels() == {second: "bee"}


def test_previous_next_skip_and_undo(driver, project):
    window = driver.window
    first = driver.act()
    assert driver.act(window.previous) == first
    second = driver.label(first, "cat")
    third = driver.act(lambda: window.skip(second))
    assert len({first, second, third}) == 3
    assert project.skipped == (second,)
    assert driver.act(window.previous) == second
    assert driver.act(window.next) == third
    assert driver.act(lambda: window.show(first), window.previous, window.previous) == second
    assert driver.act(window.undo) == second
    assert project.skipped == ()
    assert driver.act(window.undo) == first
    assert project.labels() == {}
    driver.act(window.undo)
    assert driver.messages[-1] == ("This window has no change to undo.", False)


def test_errors_are_messages_and_labelling_goes_on(driver, studio, project, monkeypatch, caplog):
    drawn = []
    driver.label("stranger", "cat")
    assert "stranger" in driver.messages[0][0]
    assert caplog.records == []
    monkeypatch.setattr("mtgcn.studio.nodes.Nodes.view", broken)
    driver.window.updates = [lambda: [] + 1, lambda: drawn.append(1)]  # a view that fails, and one that does not
    first = driver.act(lambda: driver.window.show(next(iter(studio.queue))))
    texts = " ".join(text for text, error in driver.messages if error)
    assert "ZeroDivisionError: a bug" in texts
    assert "TypeError" in texts
    assert "Traceback" in caplog.text
    assert drawn
    assert driver.label(first, "eel") == list(studio.queue)[1]
    assert project.labels() == {first: "eel"}


def test_label_until_no_node_is_left(driver, studio, project, truth):
    studio.auto_fit = False
    node = driver.act()
    for _ in range(36):
        driver.label(node, truth(node))
        node = driver.act()
    assert len(project.labels()) == 36
    driver.act(driver.window.next)
    assert driver.messages[-1] == ("No other node is in the queue now.", False)


def test_first_answer_until_the_model_arrives(studio, project, truth, quick):
    def predicted():
        return np.array(studio.nodes.class_names)[studio.nodes.predicted]

    studio.auto_fit = False
    step(studio)
    queue = studio.queue
    for node in ("n0", "n1"):
        project.label(node, truth(node))
    step(studio, times=2)
    assert (studio.nodes.quick, studio.has_model, studio.queue) == (True, False, queue)
    project.label("n2", "eel")
    step(studio)
    assert (studio.nodes.quick, len(studio.nodes.class_names)) == (True, 3)
    earlier = predicted()
    fit_project(project, quick)
    step(studio)
    assert studio.has_model
    changed = [f"n{node}" for node in np.flatnonzero(predicted() != earlier) if node > 2]
    assert studio.listed("changed") == changed


def test_status_says_what_is_needed(studio, project, truth):
    def text():
        step(studio)
        return fit_status(studio).text

    assert text() == "5 more labels, and one each of cat, dog, eel, then it learns."
    for node in ("n0", "n1", "n3", "n4"):
        project.label(node, truth(node))
    assert text() == "1 more label, and one of eel, then it learns."
    assert fit_status(studio).may_teach
    project.label("n6", "cat")
    assert text() == "One of eel, then it learns."
    project.label("n2", "eel")
    assert text() == "Starting. You can go on labelling."
    project.remove_class("dog")
    project.remove_class("eel")
    studio.worker.progress = Progress()
    assert text() == "2 more labels, and a second class, then it learns."
    studio.auto_fit = False
    assert text() == "3 new labels; teaching starts when you ask for it."


@pytest.mark.parametrize(
    ("text", "on_the_page"),
    [
        ("/p/uploads/ab/n.csv: b, c; choose one with --target NAME", "n.csv: b, c; choose its role above the column"),
        (
            "edges.csv, line 3: unknown node; add it there, or use --unknown-nodes drop to leave such edges out, or "
            "--unknown-nodes add to add the nodes",
            'edges.csv, line 3: unknown node; add it there, or choose "Leave out unknown nodes"',
        ),
        ("n.csv is a whole graph, by its suffix; give it as --graph", "give it as one file for all"),
        ("correct them, or use --column number=a to count them as missing", "the role number for a to count"),
    ],
)
def test_remedies_are_those_of_the_page(text, on_the_page):
    assert on_the_page in page_text(text)
    assert "--" not in page_text(text)
