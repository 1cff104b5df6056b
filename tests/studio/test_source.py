import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.studio import source as sources
from mtgcn.studio.source import LoadedGraph, copy_files, read_source
from mtgcn.studio.storage import ProjectFolder, Source


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
    monkeypatch.setattr(sources, "MAX_UPLOAD_BYTES", 50)
    for name in ("graph.pt", "edges.exe", "a/data.csv", "b/data.csv", "large.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"id,{name}\n1,2\n" + "3,4\n" * 20 * name.startswith("large"))
    folder = ProjectFolder(tmp_path / "project")
    with pytest.raises(InputError, match=complaint):
        copy_files(TableOptions(**{role: tmp_path / name for role, name in given.items()}), folder, 1)
