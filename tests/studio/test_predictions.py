import csv
import io
import zipfile

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.studio.fitting import FitOptions, fit_project
from mtgcn.studio.predictions import ProjectPredictions, map_points

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


@pytest.fixture
def predictions(labelled, quick_plus):
    fit_project(labelled, quick_plus)
    return ProjectPredictions.read(labelled)


def test_no_model_no_predictions(labelled):
    assert ProjectPredictions.read(labelled) is None


def test_prediction_of_a_node(predictions):
    model = predictions.model
    one = predictions.of_node("n4")
    assert one.predicted == model.transduction_[4]
    assert one.confidence == max(one.probabilities.values()) == model.label_distributions_[4].max()
    assert list(one.peers) == list(model.peer_report_.names)
    assert (one.role, one.pseudo_label_since) in [("unlabelled", None), ("pseudo-label", model.labeled_iter_[4])]
    assert predictions.of_node("n0").role == "labelled"
    with pytest.raises(InputError, match="unknown node"):
        predictions.of_node("n40")
    assert predictions.expected_accuracy is None
    assert predictions.why_no_expected_accuracy == "not measured, as asked"


def test_disputed_nodes_are_ordered_by_disagreement(predictions):
    disputed = [one.node for one in predictions.disputed(100)]
    assert len(disputed) == (~predictions.peers_agree).sum()
    values = predictions.disagreement[[int(node[1:]) for node in disputed]]
    assert (np.diff(values) <= 0).all()
    assert ((values >= 0) & (values <= 1)).all()


def test_equal_peers_do_not_disagree(predictions):
    peers = predictions.model.peer_distributions_
    peers[:] = peers[0]
    predictions.model.label_distributions_ = peers[0].astype(np.float64)
    assert np.allclose(predictions.disagreement, 0, atol=1e-6)
    assert predictions.disputed() == []


def test_counts_are_of_unlabelled_nodes(predictions):
    histogram = predictions.histogram()
    assert sum(histogram.counts) == sum(predictions.predicted_counts().values()) == 30
    assert len(histogram.edges) == len(histogram.counts) + 1


def test_renamed_and_merged_classes(predictions):
    project = predictions.project
    project.rename_class("cat", "lion")
    project.merge_classes("eel", "dog")
    again = ProjectPredictions.read(project)
    assert again.class_names == ("lion", "dog", "dog")
    assert again.predicted_counts().keys() == {"lion", "dog"}
    one = again.of_node("n7")
    assert one.probabilities.keys() == {"lion", "dog"}
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert map_points(project, again).classes == ("lion", "dog")
    assert again.new_labels == 0
    project.label("n7", "dog")
    project.unlabel("n0")
    assert again.new_labels == 2


def test_downloads_match_mtgcn_predict(predictions, tmp_path):
    with zipfile.ZipFile(io.BytesIO(predictions.model_archive())) as archive:
        archive.extractall(tmp_path / "taken")
    assert main(["predict", str(tmp_path / "taken" / "model"), "--out", str(tmp_path / "predictions.csv")]) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == predictions.predictions_csv()
    rows = list(csv.DictReader(io.StringIO(predictions.predictions_csv().decode())))
    assert [row["predicted"] for row in rows] == predictions.model.transduction_.tolist()


def test_method_without_peers(labelled):
    fit_project(labelled, FitOptions("lp", folds=0))
    predictions = ProjectPredictions.read(labelled)
    assert predictions.of_node("n4").peers == {}
    assert predictions.disputed() == []


def test_map_without_a_model(labelled):
    with labelled.labels_path.open("a") as file:
        file.write("n30,ant\n")
    points = map_points(labelled, None)
    assert list(points.nodes) == [f"n{node}" for node in range(36)]
    assert points.places.shape == (36, 2)
    assert (points.predicted == -1).all()
    assert points.classes == ("cat", "dog", "eel", "ant")


def test_map_with_a_model(predictions):
    points = map_points(predictions.project, predictions)
    assert np.array(points.classes)[points.predicted].tolist() == predictions.model.transduction_.tolist()
    assert np.array_equal(points.confidence, predictions.confidence)
