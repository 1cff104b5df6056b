import json

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.estimator.persistence import load_model, read_card
from mtgcn.io.options import TableOptions
from mtgcn.studio import fitting
from mtgcn.studio.fitting import LAYOUT_FILE, FitOptions, check_labels, fit_project, fitted_model, model_layout

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


def test_labels_must_leave_something_to_learn_and_predict(project, quick):
    with pytest.raises(InputError, match="no node is labelled"):
        check_labels(project)
    project.label("n0", "cat")
    with pytest.raises(InputError, match="all labels are of one class, 'cat'"):
        fit_project(project, quick)
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    with pytest.raises(InputError, match="all 36 nodes are labelled"):
        check_labels(project)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [("quick", ["--method", "gcn", "--set", "epochs=20"]), ("quick_plus", ["--set", "infomax_epochs=3"])],
)
def test_fit_and_refit_equal_mtgcn_fit(labelled, tmp_path, request, options, arguments):
    options = request.getfixturevalue(options)
    fit_project(labelled, options)
    for node, name in (("n3", "cat"), ("n5", "eel")):
        labelled.label(node, name)
    assert fit_project(labelled, options).refitted
    copies = labelled.folder / "files" / "1"
    files = ["--edges", copies / "edges.csv", "--nodes", copies / "nodes.csv", "--labels", labelled.labels_path]
    assert main(["fit", *map(str, files), "--out", str(tmp_path / "model"), "--folds", "0", *arguments]) == 0
    ours, theirs = fitted_model(labelled), load_model(tmp_path / "model")
    assert ours.graph_.class_names == theirs.graph_.class_names
    assert np.array_equal(ours.transduction_, theirs.transduction_)
    assert np.array_equal(ours.label_distributions_, theirs.label_distributions_)
    cards = [read_card(folder)["estimator"] for folder in (labelled.model_folder, tmp_path / "model")]
    assert cards[0] == cards[1]


def test_result_compares_with_the_previous_model(labelled, quick):
    first = fit_project(labelled, quick)
    assert (first.changed, first.compared, first.refitted) == (None, None, False)
    assert first.labels == {"cat": 2, "dog": 2, "eel": 2}
    before = fitted_model(labelled)
    labelled.rename_class("cat", "lion")
    labelled.label("n3", "eel")  # wrong, so that predictions change
    labelled.label("n6", "eel")
    second = fit_project(labelled, quick)
    previous = np.where(before.transduction_ == "cat", "lion", before.transduction_)
    differing = (previous != fitted_model(labelled).transduction_)[before.graph_.labels == -1]
    assert second.changed == differing.sum() > 0
    assert second.compared == 30
    assert sum(nodes for _, _, nodes in second.changes) == second.changed
    assert not any("cat" in change for change in second.changes)
    assert labelled.state.renamed == ()


def test_other_settings_or_graph_need_a_full_fit(labelled, files, quick):
    fit_project(labelled, quick)
    assert not fit_project(labelled, FitOptions("gcn", ["epochs=20"], seed=1, folds=0)).refitted
    assert not fit_project(labelled, FitOptions("gcn", ["epochs=21"], seed=1, folds=0)).refitted
    labelled.load_files(TableOptions(nodes=files.nodes, knn=3))
    assert fitted_model(labelled) is None
    labelled.load_files(files)
    assert fitted_model(labelled) is not None


def test_accuracy_is_cross_validated(labelled, truth):
    for node in range(27):
        labelled.label(f"n{node}", truth(f"n{node}"))
    expected = fit_project(labelled, FitOptions("gcn", ["epochs=20"])).expected_accuracy
    stored = json.loads((labelled.model_folder / "card.json").read_text())["training"]["expected_accuracy"]
    assert expected["labels"] == 27
    assert stored == expected | {"ci95": list(expected["ci95"])}


@pytest.mark.parametrize("damage", ["none", "remove", "shorten", "another"])
def test_layout_is_stored_and_remade_if_damaged(labelled, monkeypatch, damage, quick):
    fit_project(labelled, quick)
    model, path = fitted_model(labelled), labelled.folder / LAYOUT_FILE
    nodes, before = model_layout(labelled, model)
    assert nodes.tolist() == list(range(36))
    if damage == "none":
        monkeypatch.delattr(fitting, "layout_2d")
    elif damage == "remove":
        path.unlink()
    elif damage == "shorten":
        path.write_bytes(path.read_bytes()[:100])
    else:
        np.savez(path, nodes=np.arange(36), places=np.zeros((36, 2)), made_for=np.array("another"))
    assert np.array_equal(model_layout(labelled, model)[1], before)
    assert path.stat().st_size > 100
