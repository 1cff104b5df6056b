import json
import os

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.studio import storage
from mtgcn.studio.project import Project
from mtgcn.studio.storage import (
    LOCK,
    Change,
    LoadedGraph,
    ProjectFolder,
    Source,
    State,
    checked_class,
    checked_name,
    copy_files,
    label_table,
    read_label_file,
    read_source,
)

IDS = ("a", "b,c", "d")
CHANGE = Change(title="labelled a as cat", window="w1", labels={"a": (None, "cat")}, classes=(("a",), ("a", "b")))
STATE = State(
    load=3,
    source=Source(files={"edges": "e.csv"}, options={"knn": None}),
    unsettled=3,
    classes=("a", "b"),
    skipped=("n1",),
    renamed=(("x", "a"),),
    history=(CHANGE, Change(title="skipped b", skipped="b", renamed=("cat", "dog"))),
)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b.csv", "a\\b.csv", "/etc/passwd", ".hidden", "x\0", "x\n", " x", "x.", "c:x"]
)
def test_unsafe_names_are_refused(name):
    with pytest.raises(InputError, match="file name"):
        checked_name(name)
    with pytest.raises(InputError, match="longer than 200 bytes"):
        checked_name("é" * 101)


@pytest.mark.parametrize("link", ["labels.csv", "files", ".studio.lock", "model/.replacement", "cache"])
@pytest.mark.parametrize("target", ["outside/precious.csv", "outside", "project/other.csv", "nowhere"])
def test_links_in_a_project_are_refused(tmp_path, link, target):
    outside, root = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    (outside / "precious.csv").write_text("precious")
    (root / "model").mkdir(parents=True)
    (root / "other.csv").write_text("id,label\n")
    opened = ProjectFolder(root)
    (root / link).symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=r"is a link.*; replace it"):
        Project(root)
    if not link.startswith((".", "model")):  # also once it is open
        for attempt in (opened.path, opened.read, lambda *names: opened.write(b"mine", *names)):
            with pytest.raises(InputError, match="is a link"):
                attempt(link)
        with pytest.raises(InputError, match="is a link"):
            opened.write(b"mine", link, "precious.csv")
    assert [path.name for path in outside.iterdir()] == ["precious.csv"]
    assert (outside / "precious.csv").read_text() == "precious"
    (tmp_path / "named").symlink_to(root)  # the project itself may be named by a link
    (root / link).unlink()
    assert Project(tmp_path / "named").folder == root


def test_only_plain_files_are_read(tmp_path):
    folder = ProjectFolder(tmp_path)
    assert folder.read("labels.csv") is None
    os.mkfifo(tmp_path / "labels.csv")
    with pytest.raises(InputError, match="not a plain file"):
        folder.read("labels.csv")
    (tmp_path / "project").write_text("")
    with pytest.raises(InputError, match="give a folder for the project"):
        ProjectFolder(tmp_path / "project")


def test_lock_is_exclusive(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LOCK_TIMEOUT", 0.1)
    first, second = ProjectFolder(tmp_path), ProjectFolder(tmp_path)
    with first.locked():
        with pytest.raises(InputError, match="nothing was changed"), second.locked():
            raise AssertionError("both hold it")
        assert (tmp_path / LOCK).exists()
    with second.locked():
        pass
    assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ('id,label\na,cat\n"b,c","the ""dog"""\n', {"a": "cat", "b,c": 'the "dog"'}),
        ("id,label\na,\n", {}),
        ("label,id\n,a\n", {}),
        ("note;label;id\nsure;cat;d\n", {"d": "cat"}),  # one class, other columns
    ],
)
def test_label_files(tmp_path, content, labels):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert read_label_file(path, IDS) == labels
    path.write_bytes(label_table(labels))
    assert read_label_file(path, IDS) == labels
    path.write_text("id,label\nx,cat\n")
    with pytest.raises(InputError, match="'x'"):
        read_label_file(path, IDS)


@pytest.mark.parametrize("name", ["", "  ", "NA", "?", "none", "bell\a", " cat  "])
def test_class_names_that_read_otherwise_are_refused(name):
    with pytest.raises(InputError, match="choose another name"):
        checked_class(name, ["cat"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 2),
        ("load", "three"),
        ("classes", "ab"),
        ("skipped", [1]),
        ("source", {"files": {"edges": "../../etc/passwd"}}),
        ("source", {"files": {"secrets": "e.csv"}}),
        ("renamed", [["a"]]),
        ("history", [{"title": 1}]),
        ("unsettled", "../labels.csv"),
        ("strange", 1),
    ],
)
def test_edited_state_is_validated(field, value):
    content = STATE.model_dump_json()
    assert State.from_json(content) == STATE
    with pytest.raises(InputError, match=rf"project\.json .*{field}"):
        State.from_json(json.dumps(json.loads(content) | {field: value}))


def test_damaged_state_is_one_line():
    for content in (b"", b"{", b"[]", b"\xff", b"null"):
        with pytest.raises(InputError, match=r"^project\.json .* load the graph again: labels\.csv stays$"):
            State.from_json(content)


def test_renames_apply_in_order():
    state = State(renamed=(("a", "b"), ("x", "a"), ("b", "c")))
    assert [state.current_name(name) for name in ("a", "x", "b", "other")] == ["c", "a", "c", "other"]


# The graph


def test_copies_are_read_with_their_options(files, tmp_path):
    folder = ProjectFolder(tmp_path / "project")
    source = copy_files(files, folder, 1)
    nearest = copy_files(TableOptions(nodes=files.nodes, knn=4, exclude=["colour"]), folder, 2)
    files.edges.unlink()
    files.nodes.unlink()
    loaded = read_source(source, folder, 1)
    assert (loaded.graph.num_nodes, loaded.ids[:2], loaded.labels) == (36, ("n0", "n1"), {})
    graph = read_source(Source.model_validate_json(nearest.model_dump_json()), folder, 2).graph
    assert graph.feature_names == ("size",)
    assert np.diff(graph.adjacency.indptr).min() >= 4


def test_labelled_graphs_have_the_classes_of_a_fit_and_share_their_cache():
    loaded = LoadedGraph(Graph(np.ones((3, 3)) - np.eye(3), labels=[0, 1, -1], class_names=("x", "y")))
    assert loaded.labels == {"0": "x", "1": "y"}
    first, second = loaded.labelled({"0": "a", "1": "b"}), loaded.labelled({"0": "b", "2": "a"})
    assert first.without_labels is second.without_labels
    assert second.labels.tolist() == [1, -1, 0]
    assert loaded.labelled({"0": "10", "1": "9"}).class_names == ("9", "10")  # as mtgcn fit has them


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"graph": "graph.pt"}, "give one of .graphml"),
        ({"edges": "edges.exe"}, "give one of .csv"),
        ({"edges": "missing.csv"}, "does not exist"),
        ({"edges": "a/data.csv", "nodes": "b/data.csv"}, "two different files are named 'data.csv'"),
        ({"edges": "large.csv"}, "more than 50 bytes; give a smaller file"),
    ],
)
def test_unsupported_files_are_refused(tmp_path, monkeypatch, given, complaint):
    monkeypatch.setattr(storage, "MAX_UPLOAD_BYTES", 50)
    for name in ("graph.pt", "edges.exe", "a/data.csv", "b/data.csv", "large.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"id,{name}\n1,2\n" + "3,4\n" * 20 * name.startswith("large"))
    folder = ProjectFolder(tmp_path / "project")
    with pytest.raises(InputError, match=complaint):
        copy_files(TableOptions(**{role: tmp_path / name for role, name in given.items()}), folder, 1)
