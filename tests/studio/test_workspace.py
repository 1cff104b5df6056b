"""The shared state without a browser."""

import asyncio

import numpy as np
import pytest

from mtgcn.studio.fitting import fit_project
from mtgcn.studio.project import Project
from mtgcn.studio.worker import Progress
from mtgcn.studio.workspace import LABELS_BEFORE_FIT, MIN_QUEUE_LENGTH, QUEUE_LENGTH, Workspace


def step(workspace, times=1):
    async def steps():
        for _ in range(times):
            await workspace.poll()
            await workspace.update()

    asyncio.run(steps())


def broken(*_):
    raise ZeroDivisionError("a bug")


def test_polls_the_project_and_fills_queue_and_map(workspace):
    assert not workspace.snapshot.is_loaded
    step(workspace)
    assert workspace.snapshot.classes == ("cat", "dog", "eel")
    assert workspace.snapshot.title == "edges.csv"
    assert len(workspace.queue) == QUEUE_LENGTH
    assert len(workspace.points.ids) == 36
    assert workspace.error == ""
    before = workspace.revision
    step(workspace, times=3)
    assert workspace.revision == before  # nothing changed


def test_empty_project(tmp_path, worker):
    workspace = Workspace(Project.open(tmp_path / "empty"), worker)
    step(workspace, times=2)
    assert not workspace.snapshot.is_loaded
    assert workspace.points is None
    assert workspace.error == ""


def test_labels_of_another_process_appear_on_the_map(workspace, project):
    step(workspace)
    Project.open(project.folder).label("n4", "dog")
    before = workspace.revision
    step(workspace)
    assert workspace.revision > before
    assert workspace.snapshot.labels == {"n4": "dog"}
    assert workspace.snapshot.label_counts == {"cat": 0, "dog": 1, "eel": 0}
    classes, confidence, labelled = workspace.colours()
    index = list(workspace.points.ids).index("n4")
    assert np.flatnonzero(labelled).tolist() == [index]
    assert (classes[index], confidence[index]) == (1, 1)
    assert (np.delete(classes, index) == -1).all()


def test_map_shows_predictions_under_present_names(workspace, labelled, quick):
    fit_project(labelled, quick)
    labelled.rename_class("eel", "fish")
    step(workspace, times=2)
    classes, confidence, known = workspace.colours()
    names = np.array(workspace.snapshot.classes)[classes]
    predicted = workspace.predictions.model.transduction_
    assert np.where(names == "fish", "eel", names)[~known].tolist() == predicted[~known].tolist()
    assert np.array_equal(confidence[~known], workspace.predictions.confidence[~known])
    assert known.sum() == 6
    assert workspace.points.ids == [f"n{node}" for node in range(36)]


def test_short_queue_is_refilled(workspace, project, truth):
    step(workspace)
    first = [item.node for item in workspace.queue]
    workspace.auto_fit = False
    for node in first[:-MIN_QUEUE_LENGTH]:
        project.label(node, truth(node))
    step(workspace)
    assert [item.node for item in workspace.queue] == first
    project.label(first[-1], truth(first[-1]))
    step(workspace)
    assert len(workspace.queue) == QUEUE_LENGTH
    assert not {item.node for item in workspace.queue} & set(project.labels())


def test_automatic_fit(workspace, project, worker, truth):
    cats_and_dogs = [f"n{number}" for number in range(36) if number % 3 < 2]
    for node in cats_and_dogs[: LABELS_BEFORE_FIT + 2]:
        project.label(node, truth(node))
    step(workspace, times=2)
    assert worker.fits == 0  # no eel yet
    project.label("n2", "eel")
    workspace.auto_fit = False
    step(workspace, times=3)
    assert worker.fits == 0
    workspace.auto_fit = True
    step(workspace, times=3)
    assert worker.fits == 1
    worker.progress = Progress("cancelled")
    step(workspace, times=3)
    assert worker.fits == 1  # not again with the same labels
    for node in ("n5", "n8", "n11", "n14"):
        project.label(node, "eel")
    step(workspace, times=2)
    assert worker.fits == 1
    project.label("n17", "eel")
    step(workspace, times=2)
    assert worker.fits == 2


def test_failed_fit_is_retried_after_a_change(workspace, worker, project, truth):
    worker.refuses = True
    for number in range(6):
        project.label(f"n{number}", truth(f"n{number}"))
    step(workspace, times=4)
    assert workspace.error == "there is nothing to learn"
    assert worker.fits == 1
    project.label("n6", truth("n6"))
    step(workspace, times=2)
    assert workspace.error == ""


def test_invalid_label_file_keeps_the_last_labels(workspace, project, caplog):
    project.label("n1", "dog")
    step(workspace)
    valid = project.labels_path.read_bytes()
    project.labels_path.write_text("id,label\nstranger,dog\n", encoding="utf-8")
    step(workspace, times=2)
    assert "stranger" in workspace.error
    assert workspace.snapshot.labels == {"n1": "dog"}
    project.labels_path.write_bytes(valid)
    step(workspace)
    assert workspace.error == ""
    assert caplog.records == []


@pytest.mark.parametrize("target", ["mtgcn.studio.workspace.next_nodes", "mtgcn.studio.project.Project.labels"])
def test_unexpected_error_is_logged_once_and_recovers(workspace, monkeypatch, caplog, target):
    step(workspace)
    workspace.project.label("n1", "dog")
    workspace.queue = []
    with monkeypatch.context() as changed:
        changed.setattr(target, broken)
        step(workspace, times=4)
        assert workspace.error.startswith("Unexpected error (ZeroDivisionError: a bug). Your labels are saved.")
        assert len(caplog.records) == 1
    workspace.project.label("n2", "eel")
    step(workspace)
    assert workspace.error == ""
    assert workspace.queue


def test_loading_another_graph_resets_everything(workspace, project, files):
    project.label("n1", "dog")
    step(workspace)
    project.load_files(files)
    step(workspace)
    assert workspace.snapshot.labels == {}
    assert workspace.snapshot.load == 2
    assert len(workspace.queue) == QUEUE_LENGTH
