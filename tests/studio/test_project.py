import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtgcn import MutualTeachingClassifier, read_graph
from mtgcn.errors import InputError
from mtgcn.studio.project import Project


def test_a_label_is_on_disk_when_the_call_is_over(project):
    project.label("n4", "dog")
    project.label("n3", "cat")
    assert project.labels_path.read_text() == "id,label\nn3,cat\nn4,dog\n"
    project.label("n4", "eel")
    assert Project.open(project.folder).labels() == {"n3": "cat", "n4": "eel"}


def test_what_is_not_there_cannot_be_labelled(project):
    with pytest.raises(InputError, match="no node is called 'n99'"):
        project.label("n99", "cat")
    with pytest.raises(InputError, match="unknown class 'cta'; did you mean 'cat'"):
        project.label("n1", "cta")
    assert project.labels() == {}


def test_every_kind_of_change_can_be_taken_back(project):
    seen = []

    def now():
        return project.labels(), project.classes, project.skipped

    steps = [
        lambda: project.label("n1", "dog"),
        lambda: project.label("n1", "eel"),
        lambda: project.skip("n2"),
        lambda: project.label("n2", "eel"),
        lambda: project.unlabel("n1"),
        lambda: project.add_class("ant"),
        lambda: project.rename_class("eel", "fish"),
        lambda: project.merge_classes("fish", "cat"),
    ]
    for step in steps:
        seen.append(now())
        step()
        assert now() != seen[-1]
    assert project.labels() == {"n2": "cat"}
    assert project.classes == ("cat", "dog", "ant")
    reopened = Project.open(project.folder)  # the way back is on disk
    for before in reversed(seen):
        assert reopened.undo() is not None
        assert now() == before
    assert [reopened.undo().title for _ in range(3)] == ["added class eel", "added class dog", "added class cat"]
    assert reopened.undo() is None


def test_saying_what_is_said_already_is_no_change(project):
    project.label("n1", "dog")
    project.label("n1", "dog")
    project.unlabel("n5")
    assert project.undo().title == "labelled n1 as dog"
    assert project.labels() == {}


def test_a_window_takes_back_its_own_changes(project):
    project.label("n1", "dog", window="left")
    project.label("n2", "eel", window="right")
    project.label("n3", "cat", window="left")
    assert project.undo(window="right").title == "labelled n2 as eel"
    assert project.undo(window="right") is None
    assert project.labels() == {"n1": "dog", "n3": "cat"}
    assert project.undo().title == "labelled n3 as cat"


def test_what_was_changed_since_is_not_taken_back(project):
    project.label("n1", "dog", window="left")
    project.label("n2", "dog", window="left")
    project.label("n2", "eel", window="right")
    assert project.undo(window="left").title == "labelled n1 as dog"
    assert project.labels() == {"n2": "eel"}


def test_a_merge_that_is_taken_back_leaves_later_labels(project):
    project.label("n1", "dog")
    project.merge_classes("dog", "cat")
    project.label("n1", "eel", window="other")
    project.label("n2", "cat", window="other")
    project.undo(window="")
    assert project.labels() == {"n1": "eel", "n2": "cat"}
    assert project.classes == ("cat", "dog", "eel")


def test_classes_are_renamed_and_merged_in_all_labels(labelled):
    assert labelled.rename_class("cat", " big  cat ") == "big cat"
    assert labelled.classes == ("big cat", "dog", "eel")
    labelled.merge_classes("eel", "dog")
    assert sorted(labelled.labels().values()) == ["big cat"] * 2 + ["dog"] * 4
    with pytest.raises(InputError, match="there is a class 'dog' already"):
        labelled.rename_class("big cat", "dog")
    with pytest.raises(InputError, match="there is a class 'dog' already"):
        labelled.add_class("dog")
    with pytest.raises(InputError, match="unknown class 'eel'"):
        labelled.merge_classes("eel", "dog")
    with pytest.raises(InputError, match="with itself"):
        labelled.merge_classes("dog", "dog")
    assert labelled.state.renamed == (("cat", "big cat"), ("eel", "dog"))
    labelled.forget_renames([("cat", "big cat")])
    assert labelled.state.renamed == (("eel", "dog"),)


def test_two_who_have_it_open_see_each_others_changes(project):
    other = Project.open(project.folder)
    project.label("n1", "dog")
    other.label("n2", "eel")
    other.add_class("ant")
    project.label("n3", "ant")
    assert project.labels() == other.labels() == {"n1": "dog", "n2": "eel", "n3": "ant"}


def test_windows_of_one_page_label_at_once(project):
    """One object, many threads: as a server has it."""

    def label(first):
        for number in range(first, 36, 4):
            project.label(f"n{number}", "cat", window=str(first))

    with ThreadPoolExecutor(4) as windows:
        list(windows.map(label, range(4)))
    assert project.labels() == {f"n{number}": "cat" for number in range(36)}
    assert project.undo(window="2").title == "labelled n34 as cat"


LABEL_SOME = """
import sys
from mtgcn.studio.project import Project
project = Project.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), 36, int(sys.argv[3])):
    project.label(f"n{number}", "cat" if number % 2 else "dog")
    print(f"n{number}", flush=True)
"""


def _labelling(folder, first, step):
    return subprocess.Popen(
        [sys.executable, "-c", LABEL_SOME, str(folder), str(first), str(step)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_that_label_at_once_lose_nothing(project):
    processes = [_labelling(project.folder, first, 2) for first in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert project.labels() == {f"n{number}": "cat" if number % 2 else "dog" for number in range(36)}


@pytest.mark.long
def test_a_kill_at_any_moment_loses_no_label_that_was_given(project):
    for attempt in range(6):
        process = _labelling(project.folder, 0, 1)
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.03 * attempt)
        process.send_signal(signal.SIGKILL)
        told = process.communicate()[0].split()
        labels = Project.open(project.folder).labels()
        assert set(told) <= set(labels)
        assert len(labels) <= len(told) + 2  # the one whose line was read, and the one that was under way
        project.label("n35", "eel")  # nobody holds the project
        assert project.undo().title == "labelled n35 as eel"
        assert not [name for name in os.listdir(project.folder) if name.endswith((".lock", ".partial"))]
        project.labels_path.write_text("id,label\n")


def test_nothing_is_written_outside_the_project(labelled, tmp_path):
    labelled.skip("n5")
    labelled.rename_class("cat", "lion")
    labelled.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "project"]
    assert sorted(path.name for path in labelled.folder.iterdir()) == [
        "files",
        "history.json",
        "labels.csv",
        "project.json",
    ]


def test_a_model_brings_its_graph_and_its_labels(files, tmp_path):
    labels = tmp_path / "given.csv"
    labels.write_text("id,label\nn0,a\nn1,b\nn2,a\nn3,b\n")
    graph = read_graph(files.edges, nodes=files.nodes, labels=labels)
    fitted = MutualTeachingClassifier("gcn", settings={"epochs": 2}, random_state=0).fit_graph(graph)
    fitted.save(tmp_path / "mine")
    project = Project.open(tmp_path / "project")
    summary = project.load_model(tmp_path / "mine")
    assert (summary.title, summary.nodes) == ("mine", graph.num_nodes)
    assert project.labels() == {"n0": "a", "n1": "b", "n2": "a", "n3": "b"}
    shutil.rmtree(tmp_path / "mine")  # a copy is in the project
    project.label("n5", "a")
    again = Project.open(tmp_path / "project")
    assert again.labels()["n5"] == "a"
    assert again.loaded.graph.num_nodes == graph.num_nodes
    with pytest.raises(InputError, match="nothing"):
        project.load_model(tmp_path / "nothing")
    assert len(project.labels()) == 5
