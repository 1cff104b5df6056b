import csv
import io
import zipfile

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.studio.fitting import FitOptions, fit_project
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import uncertainty_of

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


@pytest.fixture
def predictions(labelled, quick_plus):
    fit_project(labelled, quick_plus)
    return ProjectPredictions.read(labelled)


def test_prediction_of_a_node(predictions):
    model = predictions.model
    one = predictions.of_node("n4")
    assert one.predicted == model.transduction_[4]
    assert one.confidence == max(one.probabilities.values()) == model.label_distributions_[4].max()
    assert list(one.peers) == list(model.peer_report_.names)
    since = int(model.labeled_iter_[4])
    assert (one.labelled, one.pseudo_label_since) == (False, since if since > 0 else None)
    assert predictions.of_node("n0").labelled
    with pytest.raises(InputError, match="unknown node"):
        predictions.of_node("n40")
    assert sum(predictions.predicted_counts().values()) == predictions.unlabelled.sum() == 30


def test_disputed_nodes_are_ordered_by_disagreement(predictions):
    model = predictions.model
    weights = peer_weights(model)
    disputed = [int(one.node[1:]) for one in predictions.disputed(100)]
    assert sorted(disputed) == np.flatnonzero(~peers_agree(model.peer_distributions_, weights)).tolist()
    values = uncertainty_of(model.label_distributions_, model.peer_distributions_, weights)
    values -= uncertainty_of(model.label_distributions_, None)
    assert (np.diff(values[disputed].clip(0, 1)) <= 0).all()
    assert len(predictions.disputed(1)) <= 1
    peers = model.peer_distributions_
    peers[:] = peers[0]
    model.label_distributions_ = peers[0].astype(np.float64)
    assert predictions.disputed() == []


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
    assert again.new_labels() == 0
    project.label("n7", "dog")
    project.unlabel("n0")
    assert again.new_labels() == 2


def test_downloads_match_mtgcn_predict(predictions, tmp_path):
    with zipfile.ZipFile(io.BytesIO(predictions.model_archive())) as archive:
        archive.extractall(tmp_path / "taken")
    assert main(["predict", str(tmp_path / "taken" / "model"), "--out", str(tmp_path / "predictions.csv")]) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == predictions.predictions_csv()
    rows = list(csv.DictReader(io.StringIO(predictions.predictions_csv().decode())))
    assert [row["predicted"] for row in rows] == predictions.model.transduction_.tolist()


def test_method_without_peers(labelled):
    assert ProjectPredictions.read(labelled) is None
    fit_project(labelled, FitOptions("lp", folds=0))
    predictions = ProjectPredictions.read(labelled)
    assert predictions.of_node("n4").peers == {}
    assert predictions.disputed() == []
