"""The desk without a browser: what it sees, what it works out, and when it teaches by itself."""

import asyncio

import numpy as np
import pytest

from idle_teacher import Teacher
from mtgcn.studio.desk import LABELS_BEFORE_TEACHING, QUEUE_LEAST, QUEUE_LENGTH, Desk
from mtgcn.studio.project import Project
from mtgcn.studio.teaching import Progress


@pytest.fixture
def teacher():
    return Teacher()


@pytest.fixture
def desk(project, teacher):
    return Desk(project, teacher)


def look(desk, times=1):
    """As its loop would."""

    async def looked():
        for _ in range(times):
            await desk.step()

    asyncio.run(looked())


def test_it_sees_the_project_and_works_out_queue_and_map(desk, project):
    assert not desk.seen.is_loaded
    look(desk)
    assert desk.seen.classes == ("cat", "dog", "eel")
    assert desk.seen.title == "edges.csv"
    assert len(desk.queue) == QUEUE_LENGTH
    assert len(desk.points.nodes) == 36
    assert desk.trouble == ""
    before = desk.revision
    look(desk, times=3)
    assert desk.revision == before  # nothing is new


def test_an_empty_project_is_waited_for(tmp_path, teacher):
    desk = Desk(Project.open(tmp_path / "empty"), teacher)
    look(desk, times=2)
    assert not desk.seen.is_loaded
    assert desk.points is None
    assert desk.trouble == ""


def test_what_another_process_labels_is_seen_and_coloured(desk, project):
    look(desk)
    Project.open(project.folder).label("n4", "dog")
    before = desk.revision
    look(desk)
    assert desk.revision > before
    assert desk.seen.labels == {"n4": "dog"}
    colours = desk.colours()
    place = list(desk.points.nodes).index("n4")
    assert np.flatnonzero(colours.given).tolist() == [place]
    assert colours.predicted[place] == 1
    assert colours.confidence[place] == 1
    assert (np.delete(colours.predicted, place) == -1).all()


def test_the_queue_is_filled_when_few_are_left(desk, project, truth):
    look(desk)
    first = [item.node for item in desk.queue]
    desk.teaches_itself = False
    for node in first[:-QUEUE_LEAST]:
        project.label(node, truth(node))
    look(desk)
    assert [item.node for item in desk.queue] == first
    project.label(first[-1], truth(first[-1]))
    look(desk)
    assert len(desk.queue) == QUEUE_LENGTH
    assert not {item.node for item in desk.queue} & set(project.labels())


def test_it_teaches_by_itself_after_some_labels_once_every_class_has_one(desk, project, teacher, truth):
    cats_and_dogs = [f"n{number}" for number in range(36) if number % 3 < 2]
    for node in cats_and_dogs[: LABELS_BEFORE_TEACHING + 2]:
        project.label(node, truth(node))
    look(desk, times=2)
    assert teacher.begun == 0  # there is no eel yet
    project.label("n2", "eel")
    look(desk, times=3)
    assert teacher.begun == 1
    teacher.progress = Progress("cancelled")
    look(desk, times=3)
    assert teacher.begun == 1  # with the same labels it was stopped before
    for node in ("n5", "n8", "n11", "n14"):
        project.label(node, "eel")
    look(desk, times=2)
    assert teacher.begun == 1
    project.label("n17", "eel")
    look(desk, times=2)
    assert teacher.begun == 2


def test_it_does_not_where_one_does_not_wish_it(desk, project, teacher, truth):
    desk.teaches_itself = False
    for number in range(12):
        project.label(f"n{number}", truth(f"n{number}"))
    look(desk, times=3)
    assert teacher.begun == 0


def test_what_cannot_be_done_is_told_once_and_tried_again_when_things_have_changed(project, truth):
    teacher = Teacher(refuses=True)
    desk = Desk(project, teacher)
    for number in range(6):
        project.label(f"n{number}", truth(f"n{number}"))
    look(desk, times=4)
    assert desk.trouble == "there is nothing to learn"
    assert teacher.begun == 1
    project.label("n6", truth("n6"))
    look(desk, times=2)
    assert desk.trouble == ""


def test_a_file_of_labels_that_cannot_be_read_is_told_of_and_nothing_lost(desk, project, caplog):
    project.label("n1", "dog")
    look(desk)
    good = project.labels_path.read_bytes()
    project.labels_path.write_text("id,label\nnobody,dog\n", encoding="utf-8")
    look(desk, times=2)
    assert "nobody" in desk.trouble
    assert desk.seen.labels == {"n1": "dog"}
    project.labels_path.write_bytes(good)
    look(desk)
    assert desk.trouble == ""
    assert caplog.records == []


def test_a_fault_of_ours_does_not_stop_it(desk, monkeypatch, caplog):
    look(desk)

    def broken(*_):
        raise ZeroDivisionError("of ours")

    with monkeypatch.context() as changed:
        changed.setattr("mtgcn.studio.desk.next_nodes", broken)
        desk.project.label("n1", "dog")
        desk.queue = []
        look(desk, times=4)
        assert "Something went wrong (ZeroDivisionError: of ours); your labels are safe on disk." in desk.trouble
        assert len(caplog.records) == 1
    desk.project.label("n2", "eel")
    look(desk)
    assert desk.trouble == ""
    assert desk.queue


def test_another_graph_takes_the_place_of_everything(desk, project, files):
    project.label("n1", "dog")
    look(desk)
    project.load_files(files)
    look(desk)
    assert desk.seen.labels == {}
    assert desk.seen.load == 2
    assert len(desk.queue) == QUEUE_LENGTH
