import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio import details
from mtgcn.studio.details import node_details
from mtgcn.studio.project import Project


def test_the_columns_of_a_person_are_shown_as_they_were_written(project):
    told = node_details(project, "n4")
    assert dict(told.attributes).keys() == {"id", "size", "colour", "note"}
    assert dict(told.attributes)["note"] == "note, number 4"
    assert dict(told.attributes)["colour"] == "blue"
    assert told.picture is None
    few = node_details(project, "n4", most=1)
    assert len(few.attributes) == 1
    assert few.attributes_left_out == 3
    with pytest.raises(InputError, match="no node is called"):
        node_details(project, "4")


def test_digits_are_pictures(tmp_path):
    project = Project.open(tmp_path / "project")
    project.load_dataset("digits")
    picture = node_details(project, "3").picture
    assert (picture.rows, picture.columns) == (8, 8)
    assert np.allclose(picture.pixels, project.graph.features[3])
    assert max(picture.pixels) <= 1


def test_of_wide_tables_and_of_arrays_the_features_that_are_not_0(project, tmp_path, monkeypatch):
    monkeypatch.setattr(details, "MOST_COLUMNS", 3)
    names = [name for name, _ in node_details(project, "n4").attributes]
    assert any("blue" in name for name in names)
    assert not any("red" in name for name in names)
    np.savez(
        tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 0]]), features=np.array([[0.0, 2.0, -3.0], [0, 0, 0]])
    )
    other = Project.open(tmp_path / "other")
    other.load_files(TableOptions(graph=tmp_path / "graph.npz"))
    assert len(node_details(other, "0").attributes) == 2
    assert node_details(other, "1").attributes_left_out == 0


def test_a_node_that_only_the_edges_know_has_no_columns(files, tmp_path):
    with files.edges.open("a") as file:
        file.write("n0,stranger\n")
    project = Project.open(tmp_path / "project")
    project.load_files(TableOptions(edges=files.edges, nodes=files.nodes, unknown_nodes="add"))
    assert node_details(project, "stranger").attributes == []
    assert node_details(project, "n35").attributes


def test_a_graph_without_any_columns(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b\nb,c\n")
    project = Project.open(tmp_path / "project")
    project.load_files(TableOptions(edges=tmp_path / "edges.csv"))
    assert node_details(project, "b").attributes == []
