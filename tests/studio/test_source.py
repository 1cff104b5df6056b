import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.studio import source as sources
from mtgcn.studio.source import copy_files, loaded_graph, read_source
from mtgcn.studio.storage import ProjectFolder, Source


def test_copies_are_read(files, tmp_path):
    folder = ProjectFolder(tmp_path / "project")
    source = copy_files(files, folder, 1)
    files.edges.unlink()
    files.nodes.unlink()
    loaded = read_source(source, folder, 1)
    assert loaded.graph.num_nodes == 36
    assert loaded.ids[:2] == ("n0", "n1")
    assert loaded.labels == {}
    assert source.title == "edges.csv"


def test_dataset_labels_are_hidden():
    graph = Graph(np.array([[0, 1], [1, 0]]), labels=[0, 1], class_names=("a", "b"))
    loaded = loaded_graph(graph, hide_labels=True)
    assert loaded.labels == {}
    assert len(loaded.graph.known) == 0
    assert loaded.graph.class_names == ()
    assert loaded.class_names == ("a", "b")
    assert loaded_graph(graph, hide_labels=False).labels == {"0": "a", "1": "b"}


def test_graphs_with_the_same_classes_share_their_cache():
    loaded = loaded_graph(Graph(np.ones((3, 3)) - np.eye(3)), hide_labels=False)
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
    ],
)
def test_unsupported_files_are_refused(tmp_path, given, complaint):
    for name in ("graph.pt", "edges.exe", "a/data.csv", "b/data.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"id,{name}\n1,2\n")
    folder = ProjectFolder(tmp_path / "project")
    with pytest.raises(InputError, match=complaint):
        copy_files(TableOptions(**{role: tmp_path / name for role, name in given.items()}), folder, 1)


def test_large_file_is_refused(files, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_UPLOAD_BYTES", 50)
    with pytest.raises(InputError, match="more than 50 bytes; give a smaller file"):
        copy_files(files, ProjectFolder(tmp_path / "project"), 1)


def test_options_are_kept(files, tmp_path):
    folder = ProjectFolder(tmp_path / "project")
    nearest = TableOptions(nodes=files.nodes, knn=4, exclude=["colour"])
    source = copy_files(nearest, folder, 1)
    graph = read_source(source, folder, 1).graph
    assert graph.feature_names == ("size",)
    assert np.diff(graph.adjacency.indptr).min() >= 4
    assert read_source(Source.model_validate_json(source.model_dump_json()), folder, 1).graph.feature_names == ("size",)
