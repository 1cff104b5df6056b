import csv
import io
import zipfile

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.studio.answers import ProjectAnswers
from mtgcn.studio.lesson import Recipe, teach

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


@pytest.fixture
def answers(labelled):
    teach(labelled, Recipe(settings=["infomax_epochs=3"], folds=0))
    return ProjectAnswers.read(labelled)


def test_before_any_teaching_there_are_none(labelled):
    assert ProjectAnswers.read(labelled) is None


def test_a_node_with_all_that_is_known_of_it(answers):
    model = answers.model
    told = answers.answer("n4")
    assert told.predicted == model.transduction_[4]
    assert told.confidence == max(told.probabilities.values()) == model.label_distributions_[4].max()
    assert list(told.peers) == list(model.peer_report_.names)
    assert told.given is None
    assert (told.role, told.taught_at) in [("neither", None), ("pseudo-label", model.labeled_iter_[4])]
    answers.project.label("n4", "eel")
    assert answers.answer("n4").given == "eel"
    assert answers.answer("n0").role == "given"
    with pytest.raises(InputError, match="no node is called"):
        answers.answer("n40")


def test_disagreement_is_nothing_where_peers_are_of_one_mind(answers):
    peers = answers.model.peer_distributions_
    peers[:] = peers[0]
    answers.model.label_distributions_ = peers[0].astype(np.float64)
    assert np.allclose(answers.disagreement, 0, atol=1e-6)
    assert answers.peers_agree.all()
    assert answers.disputed() == []


def test_rows_are_found_sorted_and_cut(answers):
    everybody = answers.table(count=100)
    assert everybody.total == len(everybody.rows) == 36
    assert [row.node for row in everybody.rows] == [f"n{node}" for node in range(36)]
    unsure = answers.table(2, 5, order="confidence")
    assert [row.confidence for row in unsure.rows] == sorted(answers.confidence)[2:7]
    sure = answers.table(0, 1, order="confidence", descending=True)
    assert sure.rows[0].confidence == answers.confidence.max()
    found = answers.table(search="N1", predicted="cat", count=100)
    assert found.total == len(found.rows)
    expected = [f"n{n}" for n in range(36) if "n1" in f"n{n}" and answers.model.transduction_[n] == "cat"]
    assert [row.node for row in found.rows] == expected
    assert answers.table(disputed=True).total == (~answers.peers_agree).sum()


def test_counts_are_of_nodes_without_a_label(answers):
    assert sum(answers.histogram().counts) == 30
    assert len(answers.histogram().edges) == len(answers.histogram().counts) + 1
    assert sum(answers.predicted_counts().values()) == 30


def test_classes_have_the_names_of_now(answers):
    answers.project.rename_class("cat", "lion")
    answers.project.merge_classes("eel", "dog")
    again = ProjectAnswers.read(answers.project)
    assert again.class_names == ("lion", "dog", "dog")
    assert again.predicted_counts().keys() == {"lion", "dog"}
    told = again.answer("n7")
    assert told.probabilities.keys() == {"lion", "dog"}
    assert sum(told.probabilities.values()) == pytest.approx(1)
    assert again.labels_since == 0
    answers.project.label("n7", "dog")
    answers.project.unlabel("n0")
    assert again.labels_since == 2


def test_what_is_not_known_says_why(answers):
    assert answers.expected_accuracy is None
    assert answers.why_no_expected_accuracy == "not measured, as asked"


def test_the_exports_are_what_mtgcn_predict_reads_and_writes(answers, tmp_path, capsys):
    with zipfile.ZipFile(io.BytesIO(answers.model_archive())) as archive:
        archive.extractall(tmp_path / "taken")
    assert main(["predict", str(tmp_path / "taken" / "model"), "--out", str(tmp_path / "predictions.csv")]) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == answers.predictions_csv()
    rows = list(csv.DictReader(io.StringIO(answers.predictions_csv().decode())))
    assert [row["predicted"] for row in rows] == answers.model.transduction_.tolist()


def test_a_method_without_peers_has_none_to_disagree(labelled):
    teach(labelled, Recipe("lp", folds=0))
    answers = ProjectAnswers.read(labelled)
    assert answers.answer("n4").peers == {}
    assert answers.disputed() == []
