import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.studio import source as sources
from mtgcn.studio.folder import ProjectFolder
from mtgcn.studio.source import Source, copied, loaded_graph, read_source


def test_copies_are_read_and_not_what_the_person_has(files, tmp_path):
    folder = ProjectFolder(tmp_path / "project")
    source = copied(files, folder, 1)
    files.edges.unlink()
    files.nodes.unlink()
    loaded = read_source(source, folder, 1)
    assert loaded.graph.num_nodes == 36
    assert loaded.ids[:2] == ("n0", "n1")
    assert loaded.given == {}
    assert source.title == "edges.csv"


def test_labels_of_a_dataset_stay_hidden():
    graph = Graph(np.array([[0, 1], [1, 0]]), labels=[0, 1], class_names=("a", "b"))
    loaded = loaded_graph(graph, labels_are_hidden=True)
    assert loaded.given == {}
    assert len(loaded.graph.known) == 0
    assert loaded.graph.class_names == ()
    assert loaded.class_names == ("a", "b")
    assert loaded_graph(graph, labels_are_hidden=False).given == {"0": "a", "1": "b"}


def test_what_is_made_once_of_a_graph_is_shared_while_the_classes_stay():
    loaded = loaded_graph(Graph(np.ones((3, 3)) - np.eye(3)), labels_are_hidden=False)
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
        ({"edges": "a/data.csv", "nodes": "b/data.csv"}, "two different files are called 'data.csv'"),
    ],
)
def test_files_that_are_refused(tmp_path, given, complaint):
    for name in ("graph.pt", "edges.exe", "a/data.csv", "b/data.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"id,{name}\n1,2\n")
    folder = ProjectFolder(tmp_path / "project")
    with pytest.raises(InputError, match=complaint):
        copied(TableOptions(**{role: tmp_path / name for role, name in given.items()}), folder, 1)


def test_a_file_that_is_too_large_is_refused(files, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MOST_UPLOAD_BYTES", 50)
    with pytest.raises(InputError, match="more than 50 bytes; give a smaller file"):
        copied(files, ProjectFolder(tmp_path / "project"), 1)


def test_options_of_a_person_are_kept(files, tmp_path):
    folder = ProjectFolder(tmp_path / "project")
    nearest = TableOptions(nodes=files.nodes, knn=4, exclude=["colour"])
    source = copied(nearest, folder, 1)
    graph = read_source(source, folder, 1).graph
    assert graph.feature_names == ("size",)
    assert np.diff(graph.adjacency.indptr).min() >= 4
    assert Source.from_json({"dataset": None, "files": source.files, "options": source.options}) == source
