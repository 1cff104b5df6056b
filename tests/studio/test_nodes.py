import base64
import csv
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio import nodes as module
from mtgcn.studio.fitting import first_answer, fit_project, fitted_model
from mtgcn.studio.nodes import SKIPPED, Cell, Nodes, Query, picture_url
from mtgcn.studio.project import Project
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import uncertainty_of

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


def opened(tmp_path, **paths):
    project = Project(tmp_path / "other")
    project.load_files(TableOptions(**paths))
    return project


@pytest.fixture
def fitted(labelled, quick_plus):
    """Nodes with the predictions of a model with peers."""
    fit_project(labelled, quick_plus)
    return Nodes(labelled, fitted_model(labelled))


# Attributes


def test_columns_are_shown_as_written(project, monkeypatch):
    attributes = {cell.column: cell.value for cell in Nodes(project).view("n4").attributes}
    assert attributes.keys() == {"size", "colour", "note"}
    assert attributes["note"] == "note,4"
    monkeypatch.setattr(module, "MAX_ATTRIBUTES", 1)
    few = Nodes(project).view("n4")
    assert (len(few.attributes), few.attributes_left_out) == (1, 2)
    with pytest.raises(InputError, match="unknown node '4'"):
        Nodes(project).view("4")


def test_largest_features_of_wide_tables_and_arrays(project, tmp_path, monkeypatch):
    vars(project.loaded.graph)["cells"] = None  # of wide tables
    names = [cell.column for cell in Nodes(project).view("n4").attributes]
    assert any("blue" in name for name in names)
    assert not any("red" in name for name in names)
    features = np.array([[0.0, 2.0, -3.0], [0, 0, 0]])
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 0]]), features=features)
    other = Nodes(opened(tmp_path, graph=tmp_path / "graph.npz"))
    assert other.view("0").attributes == [Cell("column 2", "1"), Cell("column 3", "-1")]
    assert other.view("1").attributes_left_out == 0


def test_nodes_without_attributes(files, tmp_path):
    with files.edges.open("a") as file:
        file.write("n0,stranger\n")
    project = opened(tmp_path, edges=files.edges, nodes=files.nodes, unknown_nodes="add")
    assert Nodes(project).view("stranger").attributes == []
    assert Nodes(project).view("n35").attributes
    project.load_files(TableOptions(edges=files.edges))
    assert Nodes(project).view("n35").attributes == []


def test_digits_have_pictures(tmp_path):
    project = Project(tmp_path / "project")
    project.load_dataset("digits")
    view = Nodes(project).view("3")
    assert view.attributes == []
    assert view.node.picture == picture_url(np.asarray(project.loaded.graph.features[3]).reshape(8, 8))


def test_picture_is_a_grey_png():
    kind, _, content = picture_url(np.array([[0.0, 0.5, 1.0], [2.0, -1.0, float("nan")]])).partition(",")
    assert kind == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), [[255, 128, 0], [0, 255, 255]])


# Neighbourhood and predictions


def test_neighbours_by_weight(tmp_path, monkeypatch):
    """a is linked to b, c and d; b to c; d to e."""
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\na,c,3\na,d,2\nb,c,1\nd,e,1\na,a,9\n")
    project = opened(tmp_path, edges=tmp_path / "edges.csv")
    project.add_class("x")
    project.label("b", "x")
    view = Nodes(project).view("a")
    assert [(one.id, one.label) for one in view.neighbours] == [("c", None), ("d", None), ("b", "x")]
    assert view.neighbours_left_out == 0
    assert (view.node.predicted, view.node.class_text) == (None, "no prediction yet")
    assert (view.neighbours[2].class_name, view.neighbours[2].class_text) == ("x", "x, your label")
    monkeypatch.setattr(module, "MAX_NEIGHBOURS", 1)
    few = Nodes(project).view("a")
    assert ([one.id for one in few.neighbours], few.neighbours_left_out) == (["c"], 2)


def test_prediction_of_a_node(fitted):
    model = fitted.model
    one = fitted.node("n4")
    assert one.predicted == one.class_name == model.transduction_[4]
    assert one.confidence == max(one.probabilities.values()) == model.label_distributions_[4].max()
    assert one.class_text == f"{one.predicted}, {100 * one.confidence:.0f} %"
    assert one.peers == [model.classes_[number] for number in model.peer_distributions_[:, 4].argmax(axis=1)]
    assert sum(fitted.predicted_counts().values()) == fitted.unlabelled.sum() == 30


def test_disputed_nodes_are_ordered_by_disagreement(fitted):
    model = fitted.model
    weights = peer_weights(model)
    disputed = [int(one.id[1:]) for one in fitted.disputed(100)]
    assert sorted(disputed) == np.flatnonzero(~peers_agree(model.peer_distributions_, weights)).tolist()
    values = uncertainty_of(model.label_distributions_, model.peer_distributions_, weights)
    values -= uncertainty_of(model.label_distributions_, None)
    assert (np.diff(values[disputed].clip(0, 1)) <= 0).all()
    assert len(fitted.disputed(1)) <= 1
    peers = model.peer_distributions_
    peers[:] = peers[0]
    model.label_distributions_ = peers[0].astype(np.float64)
    assert fitted.disputed(50) == []


def test_renamed_and_merged_classes(fitted):
    project = fitted.project
    project.rename_class("cat", "lion")
    project.remove_class("eel", "dog")
    again = Nodes(project, fitted.model)
    assert again.class_names == ("lion", "dog", "dog")
    assert again.predicted_counts().keys() == {"lion", "dog"}
    one = again.node("n7")
    assert one.probabilities.keys() == {"lion", "dog"}
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert again.fitted_labels == project.labels()


def test_method_without_peers(labelled):
    nodes = Nodes(labelled, first_answer(labelled))
    assert nodes.node("n4").peers == []
    assert nodes.disputed(50) == []


def test_downloads_match_mtgcn_predict(fitted, tmp_path):
    with zipfile.ZipFile(io.BytesIO(fitted.export("model.zip"))) as archive:
        archive.extractall(tmp_path / "taken")
    out = tmp_path / "predictions.csv"
    assert main(["predict", str(tmp_path / "taken" / "model"), "--keep-columns", "all", "--out", str(out)]) == 0
    content = fitted.export("predictions.csv")
    assert out.read_bytes() == content
    assert fitted.export("predictions.csv", excel=True).startswith(b"\xef\xbb\xbfid,predicted")
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [row["predicted"] for row in rows] == fitted.model.transduction_.tolist()
    assert rows[4]["note"] == "note,4"
    assert fitted.export("labels.csv") == fitted.project.labels_path.read_bytes()


@pytest.mark.parametrize(("name", "reason"), [("model.zip", "no model yet"), ("project.json", "unknown download")])
def test_downloads_that_do_not_exist(project, name, reason):
    with pytest.raises(InputError, match=reason):
        Nodes(project).export(name)


# Queue


def test_queue_without_a_model(project, truth):
    first = Nodes(project).queue(4)
    assert {truth(node) for node in list(first)[:3]} == {"cat", "dog", "eel"}
    assert "neighbour" in next(iter(first.values()))
    project.label(next(iter(first)), "cat")
    assert list(Nodes(project).queue(3)) == list(first)[1:]


def test_skipped_nodes_come_last(project):
    [first] = Nodes(project).queue(1)
    project.skip(first)
    queue = Nodes(project).queue(100)
    assert len(queue) == 36
    assert list(queue.items())[-1] == (first, SKIPPED)
    assert first not in Nodes(project).queue(35)


def test_queue_with_a_model(labelled, quick):
    fit_project(labelled, quick)
    nodes = Nodes(labelled, fitted_model(labelled))
    queue = nodes.queue(5)
    assert queue == {f"n{one.index}": one.reason for one in nodes.model.suggest(5)}
    first, second = list(queue)[:2]
    labelled.label(first, "cat")
    labelled.skip(second)
    again = list(nodes.queue(100))
    assert first not in again
    assert again[-1] == second


def test_queue_is_empty_when_all_are_labelled(project):
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    assert Nodes(project).queue(5) == {}


def test_table_asks_about_doubtful_rows(files, tmp_path, quick, truth):
    project = opened(tmp_path, nodes=files.nodes, knn=5)
    for node in ("n0", "n1", "n2", "n3"):
        project.add_class(truth(node), node=node) if truth(node) not in project.classes else project.label(node, "cat")
    fit_project(project, quick)
    nodes = Nodes(project, fitted_model(project))
    least = nodes.confidence[4:][np.argsort(nodes.confidence[4:])][2]
    assert all(nodes.confidence[int(node[1:])] <= least for node in nodes.queue(3))


# Search


def test_find_and_sort(labelled, quick):
    nodes = Nodes(labelled)

    def found(**query):
        among = query.pop("among", None)
        return [nodes.loaded.ids[place] for place in nodes.find(Query(**query), among)]

    assert found(text="NOTE,3 red") == ["n3", "n30", "n33"]
    assert found(class_name="cat") == ["n0", "n9"]
    assert found(among=["n9", "n2"]) == ["n9", "n2"]  # in this order
    assert found(among={"n9": 1, "n2": 1}, sort="mine") == ["n9", "n2"]
    sizes = [float(row["own size"]) for row in nodes.rows(nodes.find(Query(sort="own size", descending=True)).tolist())]
    assert sizes == sorted(sizes, reverse=True)
    assert found(certainty="above 90 %") == []
    fit_project(labelled, quick)
    nodes = Nodes(labelled, fitted_model(labelled))
    parts = [len(found(certainty=name)) for name in module.CERTAINTIES]
    assert sum(parts) == 30  # labelled nodes are not counted
    [row] = nodes.rows([0])
    assert (row["mine"], row["class"], row["certainty"], row["own colour"]) == ("cat", "cat", None, "red")


def test_doubted_labels_and_changes(labelled, quick_plus):
    for number in range(12, 24):
        labelled.label(f"n{number}", ("cat", "dog", "eel")[number % 3])
    labelled.label("n12", "eel")  # wrong
    fit_project(labelled, quick_plus)
    nodes = Nodes(labelled, fitted_model(labelled))
    assert next(iter(nodes.doubted)) == "n12"
    assert "predicted as 'cat'" in nodes.doubted["n12"]
    assert nodes.changes(nodes) == []


def test_practice_compares_with_hidden_labels(tmp_path):
    project = Project(tmp_path / "project")
    project.load_dataset("digits")
    truth = project.loaded.truth
    assert Nodes(project).practice() == (0, 0, None)
    project.label("0", truth[0])
    project.label("1", "9" if truth[1] != "9" else "8")
    nodes = Nodes(project, first_answer(project), quick=True)
    labels, correct, accuracy = nodes.practice()
    known = np.array(truth)[2:] == np.array(nodes.class_names)[nodes.predicted[2:]]
    assert (labels, correct, accuracy) == (2, 1, pytest.approx(known.mean()))


# Cells


def test_cells_have_kinds_and_pictures_stay_inside_their_folder(tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    for place in (folder / "in.png", tmp_path / "out.png"):
        place.write_bytes(b"picture")
    (folder / "link.png").symlink_to(tmp_path / "out.png")
    lines = [
        "id,what,where,about",
        f"a,in.png,https://x.org/a,{'long ' * 20}",
        "b,../out.png,javascript:alert(1),short",
        "c,link.png,https://x.org/c,short",
        "d,https://p.org:8/d.png,x,short",
        "e,https://u@p.org/e.png,x,short",
    ]
    (folder / "nodes.csv").write_text("\n".join(lines))
    project = Project(tmp_path / "project")
    kinds = {"what": "picture", "where": "text", "about": "text"}
    project.load_files(TableOptions(nodes=folder / "nodes.csv", knn=1, kinds=kinds), pictures=folder)
    nodes = Nodes(project)
    kind = {node: [cell.kind for cell in nodes.view(node).attributes] for node in "abcde"}
    assert kind == {
        "a": ["picture", "link", "text"],
        "b": ["", "", ""],
        "c": ["", "link", ""],
        "d": ["picture", "", ""],
        "e": ["picture", "", ""],
    }
    assert nodes.view("a").node.picture == "/picture/1/0/1"
    assert nodes.loaded.picture_origins == ["https://p.org:8"]
