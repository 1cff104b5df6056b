import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mtgcn import MutualTeachingClassifier, read_graph
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.fitting import fit_project, fitted_model
from mtgcn.studio.project import Project
from mtgcn.studio.storage import ProjectFolder


def test_label_is_on_disk_on_return(project):
    project.label("n4", "dog")
    project.label("n3", "cat")
    assert project.labels_path.read_text() == "id,label\nn3,cat\nn4,dog\n"
    project.label("n4", "eel")
    assert Project(project.folder).labels() == {"n3": "cat", "n4": "eel"}
    with pytest.raises(InputError, match="unknown node 'n99'"):
        project.label("n99", "cat")
    with pytest.raises(InputError, match="unknown class 'cta'; did you mean 'cat'"):
        project.label("n1", "cta")
    assert project.labels() == {"n3": "cat", "n4": "eel"}


def test_every_change_can_be_undone(project):
    seen = []

    def now():
        return project.labels(), project.classes, project.skipped

    steps = [
        lambda: project.label("n1", "dog"),
        lambda: project.label("n1", "eel"),
        lambda: project.skip("n2"),
        lambda: project.label("n2", "eel"),
        lambda: project.label("n1", None),
        lambda: project.add_class("ant"),
        lambda: project.rename_class("eel", "fish"),
        lambda: project.remove_class("fish", "cat"),
        lambda: project.move_class("ant", -2),
        lambda: project.add_class("bee", node="n5"),
        lambda: project.label(["n1", "n5", "n6"], "cat"),
        lambda: project.remove_class("cat"),
    ]
    for step in steps:
        seen.append(now())
        step()
        assert now() != seen[-1]
    assert project.labels() == {}
    assert project.classes == ("ant", "dog", "bee")
    assert sorted(path.name for path in project.folder.iterdir()) == ["files", "labels.csv", "project.json"]
    reopened = Project(project.folder)  # the history is on disk
    for before in reversed(seen):
        assert reopened.undo() is not None
        assert now() == before
    assert [reopened.undo().title for _ in range(3)] == ["added class eel", "added class dog", "added class cat"]
    assert reopened.undo() is None


def test_undo_by_window_keeps_later_changes(project):
    project.label("n1", "dog", window="left")
    project.label("n1", "dog", window="left")  # no change
    project.label("n5", None, window="left")
    project.label("n2", "dog", window="left")
    project.label("n2", "eel", window="right")
    project.label("n3", "cat", window="right")
    assert project.undo(window="left").title == "labelled n1 as dog"
    assert project.undo(window="left") is None
    assert project.labels() == {"n2": "eel", "n3": "cat"}
    assert project.undo(window="right").title == "labelled n3 as cat"


def test_undo_of_a_merge_keeps_later_labels(project):
    project.label("n1", "dog")
    project.remove_class("dog", "cat")
    project.label("n1", "eel", window="other")
    project.label("n2", "cat", window="other")
    project.undo()
    assert project.labels() == {"n1": "eel", "n2": "cat"}
    assert project.classes == ("cat", "dog", "eel")


def test_rename_and_remove_class(labelled):
    assert labelled.rename_class("cat", " big  cat ") == "big cat"
    assert labelled.classes == ("big cat", "dog", "eel")
    labelled.remove_class("eel", "dog")
    assert sorted(labelled.labels().values()) == ["big cat"] * 2 + ["dog"] * 4
    with pytest.raises(InputError, match="class 'dog' exists"):
        labelled.rename_class("big cat", "dog")
    with pytest.raises(InputError, match="class 'dog' exists"):
        labelled.add_class("dog")
    with pytest.raises(InputError, match="unknown class 'eel'"):
        labelled.remove_class("eel", "dog")
    with pytest.raises(InputError, match="with itself"):
        labelled.remove_class("dog", "dog")
    assert labelled.state.renamed == (("cat", "big cat"), ("eel", "dog"))
    labelled.forget_renames([("cat", "big cat")])
    assert labelled.state.renamed == (("eel", "dog"),)


def test_objects_and_threads_share_a_project(project):
    other = Project(project.folder)
    other.add_class("ant")
    project.label("n35", "ant")

    def label(first):
        for number in range(first, 35, 4):
            (project, other)[first % 2].label(f"n{number}", "cat", window=str(first))

    with ThreadPoolExecutor(4) as windows:
        list(windows.map(label, range(4)))
    assert project.labels() == other.labels() == {f"n{number}": "cat" for number in range(35)} | {"n35": "ant"}
    assert project.undo(window="2").title == "labelled n34 as cat"


LABEL_SOME = """
import sys
from mtgcn.studio.project import Project
project = Project(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), 36, int(sys.argv[3])):
    project.label(f"n{number}", "cat" if number % 2 else "dog")
    print(f"n{number}", flush=True)
"""


def start_labelling(folder, count):
    """Processes that begin to label at the same time, each every `count`-th node."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    commands = [[sys.executable, "-c", LABEL_SOME, str(folder), str(first), str(count)] for first in range(count)]
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        print("go", file=process.stdin, flush=True)
    return processes


@pytest.mark.long
def test_processes_label_concurrently(project):
    for process in start_labelling(project.folder, 2):
        process.communicate()
        assert process.returncode == 0
    assert project.labels() == {f"n{number}": "cat" if number % 2 else "dog" for number in range(36)}


@pytest.mark.long
def test_kill_loses_no_label(project):
    for attempt in range(6):
        [process] = start_labelling(project.folder, 1)
        process.stdout.readline()
        time.sleep(0.03 * attempt)
        process.send_signal(signal.SIGKILL)
        reported = process.communicate()[0].split()
        labels = Project(project.folder).labels()
        assert set(reported) <= set(labels)
        assert len(labels) <= len(reported) + 2  # the line read above, and the write under way
        project.label("n35", "eel")  # the lock is free
        assert project.undo().title == "labelled n35 as eel"
        assert not [name for name in os.listdir(project.folder) if name.endswith((".lock", ".partial"))]
        project.labels_path.write_text("id,label\n")


def test_load_model(files, tmp_path):
    labels = tmp_path / "given.csv"
    labels.write_text("id,label\nn0,a\nn1,b\nn2,a\nn3,b\n")
    graph = read_graph(files.edges, nodes=files.nodes, labels=labels)
    fitted = MutualTeachingClassifier("gcn", settings={"epochs": 2}, random_state=0).fit_graph(graph)
    fitted.save(tmp_path / "mine")
    project = Project(tmp_path / "project")
    project.load_model(tmp_path / "mine")
    assert (project.state.title, project.loaded.graph.num_nodes) == ("mine", graph.num_nodes)
    assert project.labels() == {"n0": "a", "n1": "b", "n2": "a", "n3": "b"}
    shutil.rmtree(tmp_path / "mine")  # a copy is in the project
    project.label("n5", "a")
    again = Project(tmp_path / "project")
    assert again.labels()["n5"] == "a"
    assert again.loaded.graph.num_nodes == graph.num_nodes
    with pytest.raises(InputError, match="nothing"):
        project.load_model(tmp_path / "nothing")
    assert len(project.labels()) == 5


def test_new_folder_is_an_empty_project(tmp_path):
    project = Project(tmp_path / "new")
    assert project.state.source is None
    assert project.labels() == {}
    assert project.classes == ()
    with pytest.raises(InputError, match="load files or a dataset first"):
        project.skip("n1")


def test_labels_are_imported_into_a_project(labelled, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("id,label\nn0,cat\nn1,eel\nn20,ant\n")
    before = labelled.labels()
    assert labelled.import_labels(more) == 2
    assert labelled.labels() == before | {"n1": "eel", "n20": "ant"}
    assert labelled.undo().title == "imported more.csv, labelled 2 nodes"


def test_dataset_labels_stay_hidden_and_own_ones_stay(tmp_path):
    project = Project(tmp_path / "project")
    project.load_dataset("digits")
    assert project.classes == tuple("0123456789")
    assert (project.folder / "labels.csv").read_text() == "id,label\n"
    assert len(project.loaded.graph.known) == 0
    project.label("7", "3")
    again = Project(tmp_path / "project")
    again.load_dataset("digits")
    assert again.labels() == {"7": "3"}


def test_another_graph_keeps_the_first_and_undo_returns(labelled, files, quick):
    fit_project(labelled, quick)
    before, history = labelled.labels(), len(labelled.state.history)
    labelled.load_files(files)  # the same again changes nothing
    assert (labelled.state.load, labelled.labels()) == (1, before)
    labelled.load_dataset("digits", window="w")
    assert (labelled.labels(), fitted_model(labelled)) == ({}, None)
    assert labelled.kept() == {1: "edges.csv, 6 labels"}
    labelled.label("0", "0", window="other")
    assert labelled.undo(window="w").title == "loaded digits"
    again = Project(labelled.folder)
    assert (again.state.title, again.labels(), len(again.state.history)) == ("edges.csv", before, history)
    assert fitted_model(again) is not None
    assert again.kept() == {2: "digits, 1 label"}
    again.open_kept(2, window="w")
    assert again.labels() == {"0": "0"}
    assert again.undo(window="w").title == "opened digits"
    again.load_dataset("digits")  # a third load has a number of its own
    assert (again.state.load, again.labels(), list(again.kept())) == (3, {}, [1, 2])
    with pytest.raises(InputError, match="no longer stored"):
        again.open_kept(7)


def test_labels_are_carried_over_when_roles_change(files, tmp_path):
    table = (tmp_path / "given" / "nodes.csv").read_text().replace("note,", "other ").splitlines()
    rows = [table[0] + ",group", *(f"{line},{'cat' if number < 4 else ''}" for number, line in enumerate(table[1:]))]
    files.nodes.write_text("\n".join(rows))
    project = Project(tmp_path / "project")
    project.load_files(TableOptions(nodes=files.nodes, knn=3, columns={"label": "group"}))
    assert project.labels() == dict.fromkeys(["n0", "n1", "n2", "n3"], "cat")
    project.add_class("dog")
    project.label("n1", "dog")
    project.label("n2", None)
    project.label("n9", "cat")
    project.skip("n8")
    before = project.labels()
    options = project.loaded.files.with_roles({"id": "ignore", "group": "ignore", "colour": "label"})
    project.load_files(options, again=True)
    project.load_files(TableOptions(nodes=files.nodes, knn=3, columns={"label": "group"}))  # the same command again
    colours = dict(zip(map(str, range(1, 37)), 12 * ["red", "blue", "green"], strict=True))
    del colours["3"]  # whose label was removed
    assert project.labels() == colours | {"2": "dog", "10": "cat"}
    assert project.skipped == ()
    assert project.classes == ("cat", "dog", "blue", "green", "red")
    assert [path.name for path in project.path("files", "2").iterdir()] == ["nodes.csv"]
    assert project.undo().title == "loaded nodes.csv"
    assert project.labels() == before
    assert project.skipped == ("n8",)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_interrupted_load_is_finished_on_open(labelled, monkeypatch, writes):
    before, done = labelled.labels(), []

    def write_and_stop(self, content, *names, write=ProjectFolder.write):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(names)
        return write(self, content, *names)

    with monkeypatch.context() as patched:
        patched.setattr(ProjectFolder, "write", write_and_stop)
        with pytest.raises(KeyboardInterrupt):
            labelled.load_dataset("digits")
    again = Project(labelled.folder)
    if writes == 1:  # it did not count yet
        assert again.labels() == before
        return
    assert (again.state.title, again.labels(), again.state.unsettled) == ("digits", {}, 0)
    again.undo()
    assert again.labels() == before


@pytest.mark.parametrize(
    ("existing", "labels", "kept"),
    [
        ("", {"n3": "eel", "n5": "eel"}, "labels.csv"),
        ("id,label,why\nn3,cat,fur\n", {"n3": "cat", "n5": "eel"}, "labels-by-hand-1.csv"),
        ("id,label\nx3,cat\n", {"n3": "eel", "n5": "eel"}, "labels-before-1.csv"),  # of another graph
    ],
)
def test_labels_of_files_and_an_existing_label_file(files, tmp_path, existing, labels, kept):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "labels.csv").write_text(existing)
    project = Project(tmp_path / "project")
    given = project.write(b"node,class\nn3,eel\nn5,eel\n", "uploads", "some.csv")
    project.load_files(replace(files, labels=given))
    assert project.labels() == labels
    assert project.classes == tuple(sorted({*labels.values()}, reverse=True))
    assert (project.folder / kept).read_text() == (existing or "id,label\nn3,eel\nn5,eel\n")
    assert not given.exists()  # the studio keeps a copy


def test_failed_load_changes_nothing(labelled, files, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_text("source,target\nn1\n")
    before = labelled.labels()
    with pytest.raises(InputError, match=r"broken\.csv"):
        labelled.load_files(TableOptions(edges=broken))
    assert labelled.state.title == "edges.csv"
    assert labelled.labels() == before


def test_edit_by_hand_is_imported_and_kept(labelled):
    edited = "id,label,why\nn0,cat,fur\nn20,ant,wet\n"
    labelled.labels_path.write_text(edited)
    assert labelled.classes == ("cat", "dog", "eel", "ant")
    labelled.label("n1", "ant")
    assert labelled.labels() == {"n0": "cat", "n1": "ant", "n20": "ant"}
    assert (labelled.folder / "labels-by-hand-1.csv").read_text() == edited
    labelled.label("n2", "eel")
    assert not (labelled.folder / "labels-by-hand-2.csv").exists()
    invalid = "id,label\nn0,cat\nstranger,dog\n"
    labelled.labels_path.write_text(invalid)
    with pytest.raises(InputError, match="stranger"):
        labelled.label("n1", "dog")
    assert labelled.labels_path.read_text() == invalid


def test_empty_or_missing_label_file(labelled):
    labelled.labels_path.write_text("")
    assert labelled.labels() == {}
    labelled.labels_path.unlink()
    labelled.label("n1", "dog")
    assert labelled.labels() == {"n1": "dog"}


def test_history_keeps_the_last_changes(labelled, monkeypatch):
    monkeypatch.setattr("mtgcn.studio.project.MAX_CHANGES", 2)
    labelled.label("n3", "cat")
    titles = [change.title for change in labelled.state.history]
    assert titles == ["labelled n11 as eel", "labelled n3 as cat"]
