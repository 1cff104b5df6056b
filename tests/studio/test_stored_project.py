from dataclasses import replace

import pytest

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio import stored_project
from mtgcn.studio.folder import ProjectFolder
from mtgcn.studio.project import Project


def test_a_new_folder_is_an_empty_project(tmp_path):
    project = Project.open(tmp_path / "new")
    assert not project.is_loaded
    assert project.labels() == {}
    assert project.classes == ()
    with pytest.raises(InputError, match="load files or a dataset first"):
        project.summary()


def test_the_summary_has_what_the_readers_remarked(files, tmp_path):
    with files.edges.open("a") as file:
        file.write("n3,n3\nn1,n4\nn4,n1\n")
    summary = Project.open(tmp_path / "project").load_files(files)
    assert (summary.title, summary.nodes, summary.features, summary.labelled) == ("edges.csv", 36, 4, 0)
    assert any("note" in line for line in summary.columns)
    assert summary.notes
    again = Project.open(tmp_path / "project").summary()
    assert again == summary


def test_labels_that_files_bring_are_taken_over(files, tmp_path):
    labels = tmp_path / "given" / "some.csv"
    labels.write_text("node,class\nn5,eel\n")  # one class alone
    project = Project.open(tmp_path / "project")
    assert project.load_files(replace(files, labels=labels)).labels == {"eel": 1}
    assert (project.folder / "labels.csv").read_text() == "id,label\nn5,eel\n"
    assert project.classes == ("eel",)


def test_labels_of_a_dataset_never_reach_the_project(tmp_path):
    project = Project.open(tmp_path / "project")
    assert project.load_dataset("digits").labelled == 0
    assert project.classes == tuple("0123456789")
    assert (project.folder / "labels.csv").read_text() == "id,label\n"
    assert len(project.graph.known) == 0


def test_loading_the_same_dataset_again_keeps_the_labels(tmp_path):
    project = Project.open(tmp_path / "project")
    project.load_dataset("digits")
    project.label("7", "3")
    assert Project.open(tmp_path / "project").load_dataset("digits").labels["3"] == 1


def test_loading_something_else_sets_the_labels_aside(labelled, files):
    before = labelled.labels_path.read_bytes()
    labelled.load_dataset("digits")
    assert labelled.labels() == {}
    assert labelled.undo() is None
    assert (labelled.folder / "labels-before-1.csv").read_bytes() == before
    assert not (labelled.folder / "files" / "1").exists()
    labelled.label("0", "0")
    labelled.load_files(files)
    assert (labelled.folder / "labels-before-2.csv").read_text() == "id,label\n0,0\n"


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_load_that_was_stopped_half_way_is_finished_by_the_next_who_opens(labelled, monkeypatch, writes):
    before = labelled.labels_path.read_bytes()
    (labelled.folder / "labels-before-1.csv").write_text("of somebody else")
    done = []

    def write_and_stop(self, content, *names, write=ProjectFolder.write):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(names)
        return write(self, content, *names)

    with monkeypatch.context() as patched:
        patched.setattr(ProjectFolder, "write", write_and_stop)
        with pytest.raises(KeyboardInterrupt):
            labelled.load_dataset("digits")
    again = Project.open(labelled.folder)
    assert again.source.title == "digits"
    assert again.labels() == {}
    assert (labelled.folder / "labels-before-2.csv").read_bytes() == before
    assert not again.state.unsettled


def test_a_label_file_that_was_there_first_is_taken_in(files, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "labels.csv").write_text("id,label,why\nn3,cat,fur\n")
    project = Project.open(tmp_path / "project")
    labels = tmp_path / "given" / "some.csv"
    labels.write_text("node,class\nn3,eel\nn5,eel\n")
    project.load_files(replace(files, labels=labels))
    assert project.labels() == {"n3": "cat", "n5": "eel"}
    assert (project.folder / "labels-by-hand-1.csv").read_text() == "id,label,why\nn3,cat,fur\n"


def test_a_label_file_of_something_else_is_set_aside(files, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "labels.csv").write_text("id,label\nx3,cat\n")
    project = Project.open(tmp_path / "project")
    project.load_files(files)
    assert project.labels() == {}
    assert (project.folder / "labels-before-1.csv").read_text() == "id,label\nx3,cat\n"


def test_where_project_json_is_lost_the_labels_stay(labelled, files):
    before = labelled.labels()
    (labelled.folder / "project.json").unlink()
    again = Project.open(labelled.folder)
    assert not again.is_loaded
    again.load_files(files)
    assert again.labels() == before


def test_a_load_that_fails_changes_nothing(labelled, files, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_text("source,target\nn1\n")
    before = labelled.labels()
    with pytest.raises(InputError, match=r"broken\.csv"):
        labelled.load_files(TableOptions(edges=broken))
    assert labelled.source.title == "edges.csv"
    assert labelled.labels() == before
    assert [path.name for path in (labelled.folder / "files").iterdir()] == ["1"]


def test_uploads_stay_in_the_project_until_they_are_loaded(files, tmp_path, monkeypatch):
    project = Project.open(tmp_path / "project")
    path = project.receive("my edges.csv", files.edges.read_bytes())
    assert path.is_relative_to(project.folder)
    project.load_files(TableOptions(edges=path))
    assert not path.exists()
    assert project.graph.num_nodes == 35  # one has no edge
    with pytest.raises(InputError, match="file name"):
        project.receive("../edges.csv", b"")
    monkeypatch.setattr(stored_project, "MOST_UPLOAD_BYTES", 3)
    with pytest.raises(InputError, match="has 4 bytes and 3 are the most"):
        project.receive("edges.csv", b"1234")


def test_a_hand_edit_is_taken_in_and_kept_where_it_says_more(labelled):
    labelled.labels_path.write_text("id,label,why\nn0,cat,fur\nn20,eel,wet\n")
    labelled.label("n1", "dog")
    assert labelled.labels() == {"n0": "cat", "n1": "dog", "n20": "eel"}
    assert (labelled.folder / "labels-by-hand-1.csv").read_text() == "id,label,why\nn0,cat,fur\nn20,eel,wet\n"
    labelled.label("n2", "eel")
    assert not (labelled.folder / "labels-by-hand-2.csv").exists()


def test_a_hand_edit_with_a_new_class_brings_the_class(labelled):
    with labelled.labels_path.open("a") as file:
        file.write("n30,ant\n")
    assert labelled.classes == ("cat", "dog", "eel", "ant")
    labelled.label("n31", "ant")
    assert labelled.summary().labels["ant"] == 2


def test_a_hand_edit_that_cannot_be_read_is_told_and_not_overwritten(labelled):
    labelled.labels_path.write_text("id,label\nn0,cat\nnobody,dog\n")
    with pytest.raises(InputError, match="nobody"):
        labelled.label("n1", "dog")
    assert labelled.labels_path.read_text() == "id,label\nn0,cat\nnobody,dog\n"


def test_a_label_file_that_was_emptied_or_removed_has_no_labels(labelled):
    labelled.labels_path.write_text("")
    assert labelled.labels() == {}
    labelled.labels_path.unlink()
    labelled.label("n1", "dog")
    assert labelled.labels() == {"n1": "dog"}


def test_classes_come_in_the_order_of_mtgcn_fit(labelled):
    graph = labelled.labelled_graph()
    assert graph.class_names == ("cat", "dog", "eel")
    assert graph.label_counts.tolist() == [2, 2, 2]
    assert labelled.graph.class_names == ()
