import base64
import io

import numpy as np
import pytest
from PIL import Image

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio import nodes
from mtgcn.studio.fitting import FitOptions, fit_project, fitted_model
from mtgcn.studio.nodes import SKIPPED, neighbourhood, next_nodes, node_details, picture_url
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.studio.project import Project

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


def opened(tmp_path, **paths):
    project = Project.open(tmp_path / "other")
    project.load_files(TableOptions(**paths))
    return project


def test_columns_are_shown_as_written(project):
    details = node_details(project, "n4")
    assert dict(details.attributes).keys() == {"id", "size", "colour", "note"}
    assert dict(details.attributes)["note"] == "note, number 4"
    assert details.picture is None
    few = node_details(project, "n4", most=1)
    assert (len(few.attributes), few.left_out) == (1, 3)
    with pytest.raises(InputError, match="unknown node '4'"):
        node_details(project, "4")


def test_largest_features_of_wide_tables_and_arrays(project, tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "MAX_COLUMNS", 3)
    names = [name for name, _ in node_details(project, "n4").attributes]
    assert any("blue" in name for name in names)
    assert not any("red" in name for name in names)
    features = np.array([[0.0, 2.0, -3.0], [0, 0, 0]])
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 0]]), features=features)
    other = opened(tmp_path, graph=tmp_path / "graph.npz")
    assert len(node_details(other, "0").attributes) == 2
    assert node_details(other, "1").left_out == 0


def test_nodes_without_attributes(files, tmp_path):
    with files.edges.open("a") as file:
        file.write("n0,stranger\n")
    project = opened(tmp_path, edges=files.edges, nodes=files.nodes, unknown_nodes="add")
    assert node_details(project, "stranger").attributes == []
    assert node_details(project, "n35").attributes
    project.load_files(TableOptions(edges=files.edges))
    assert node_details(project, "n35").attributes == []


def test_digits_have_pictures(tmp_path):
    project = Project.open(tmp_path / "project")
    project.load_dataset("digits")
    details = node_details(project, "3")
    assert details.attributes == ()
    assert details.picture == picture_url(np.asarray(project.loaded.graph.features[3]).reshape(8, 8))


def test_picture_is_a_grey_png():
    kind, _, content = picture_url(np.array([[0.0, 0.5, 1.0], [2.0, -1.0, float("nan")]])).partition(",")
    assert kind == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), [[255, 128, 0], [0, 255, 255]])


@pytest.fixture
def star(tmp_path):
    """a is linked to b, c and d; b to c; d to e."""
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\na,c,3\na,d,2\nb,c,1\nd,e,1\na,a,9\n")
    project = opened(tmp_path, edges=tmp_path / "edges.csv")
    for name, node in (("x", "b"), ("y", "e")):
        project.add_class(name)
        project.label(node, name)
    return project


def test_neighbours_and_edges_among_them(star):
    around = neighbourhood(star, "a", None)
    assert [(one.node, one.weight, one.label) for one in around.neighbours] == [
        ("c", 3, None),
        ("d", 2, None),
        ("b", 1, "x"),
    ]
    edges = {("".join(sorted(first + second)), weight) for first, second, weight in around.edges}
    assert edges == {("ac", 3), ("ad", 2), ("ab", 1), ("bc", 1)}
    assert len(around.edges) == 4
    assert around.centre.prediction is None
    assert around.neighbours[2].class_name == "x"
    assert around.left_out == 0
    few = neighbourhood(star, "a", None, most=1)
    assert ([one.node for one in few.neighbours], few.left_out, len(few.edges)) == (["c"], 2, 1)
    with pytest.raises(InputError, match="unknown node 'z'"):
        neighbourhood(star, "z", None)


def test_neighbours_with_predictions(star):
    fit_project(star, FitOptions(settings=["infomax_epochs=2"], folds=0))
    predictions = ProjectPredictions.read(star)
    around = neighbourhood(star, "a", predictions)
    for one in (around.centre, *around.neighbours):
        index = star.node_index(one.node)
        assert one.class_name == one.prediction.predicted == predictions.model.transduction_[index]
        since = predictions.model.labeled_iter_[index]
        assert one.pseudo_label_since == (since if since > 0 else None)
    assert around.neighbours[-1].pseudo_label_since is None  # b is labelled


def test_queue_without_a_model(project, truth):
    first = next_nodes(project, None, 4)
    assert len({one.node for one in first}) == 4
    assert {truth(one.node) for one in first[:3]} == {"cat", "dog", "eel"}
    assert first[0].predicted is None
    assert "neighbour" in first[0].reason
    project.label(first[0].node, "cat")
    assert [one.node for one in next_nodes(project, None, 3)] == [one.node for one in first[1:]]


def test_skipped_nodes_come_last(project):
    first = next_nodes(project, None, 1)[0].node
    project.skip(first)
    queue = next_nodes(project, None, 100)
    assert len(queue) == 36
    assert (queue[-1].node, queue[-1].reason) == (first, SKIPPED)
    assert first not in [one.node for one in next_nodes(project, None, 35)]


def test_queue_with_a_model(labelled, quick):
    fit_project(labelled, quick)
    model = fitted_model(labelled)
    queue = next_nodes(labelled, model, 5)
    assert [(one.node, one.reason) for one in queue] == [(f"n{one.index}", one.reason) for one in model.suggest(5)]
    labelled.label(queue[0].node, "cat")
    labelled.skip(queue[1].node)
    labelled.rename_class("eel", "fish")
    again = next_nodes(labelled, model, 100)
    assert queue[0].node not in [one.node for one in again]
    assert again[-1].node == queue[1].node
    assert {one.predicted for one in again[:-1]} <= {"cat", "dog", "fish"}


def test_queue_is_empty_when_all_are_labelled(project):
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    assert next_nodes(project, None, 5) == []
