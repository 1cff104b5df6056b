import json
import os

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.estimator.persistence import load_model, read_card
from mtgcn.io.options import TableOptions
from mtgcn.studio.lesson import Recipe, check_teachable, model_of, teach

QUICK = Recipe("gcn", ["epochs=20"], folds=0)
PLUS = Recipe(settings=["infomax_epochs=3"], folds=0)

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")


def test_labels_that_leave_nothing_to_learn_are_told(project):
    with pytest.raises(InputError, match="no node is labelled yet"):
        check_teachable(project)
    project.label("n0", "cat")
    with pytest.raises(InputError, match="all labels are of one class, 'cat'"):
        teach(project, QUICK)
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    with pytest.raises(InputError, match="all 36 nodes are labelled"):
        check_teachable(project)


def fitted_by_command(project, out, *more):
    files, labels = project.folder / "files" / "1", project.labels_path
    given = ["--edges", files / "edges.csv", "--nodes", files / "nodes.csv", "--labels", labels]
    assert main(["fit", *map(str, given), "--out", str(out), "--folds", "0", *more]) == 0
    return load_model(out)


@pytest.mark.parametrize(
    ("recipe", "typed"),
    [(QUICK, ["--method", "gcn", "--set", "epochs=20"]), (PLUS, ["--set", "infomax_epochs=3"])],
    ids=["gcn", "mt-plus"],
)
def test_the_model_is_the_one_that_mtgcn_fit_makes_of_the_same_labels(labelled, tmp_path, capsys, recipe, typed):
    teach(labelled, recipe)
    for node, name in (("n3", "cat"), ("n5", "eel")):  # and so it is after a refit, which keeps what it can
        labelled.label(node, name)
    assert teach(labelled, recipe).refitted
    ours, theirs = model_of(labelled), fitted_by_command(labelled, tmp_path / "model", *typed)
    assert ours.graph_.class_names == theirs.graph_.class_names
    assert np.array_equal(ours.transduction_, theirs.transduction_)
    assert np.array_equal(ours.label_distributions_, theirs.label_distributions_)
    cards = [read_card(folder)["estimator"] for folder in (labelled.model_folder, tmp_path / "model")]
    assert cards[0] == cards[1]


def test_what_changed_is_told_by_the_names_of_now(labelled):
    first = teach(labelled, QUICK)
    assert (first.changed, first.compared, first.refitted, first.labels) == (
        None,
        None,
        False,
        {"cat": 2, "dog": 2, "eel": 2},
    )
    before = model_of(labelled)
    labelled.rename_class("cat", "lion")
    labelled.label("n3", "eel")  # which is wrong, and should change something
    labelled.label("n6", "eel")
    second = teach(labelled, QUICK)
    after = model_of(labelled)
    then = np.where(before.transduction_ == "cat", "lion", before.transduction_)
    differing = (then != after.transduction_)[before.graph_.labels == -1]
    assert second.changed == differing.sum() > 0
    assert second.compared == 30
    assert sum(one.nodes for one in second.moved) == second.changed
    assert all("cat" not in (one.before, one.after) for one in second.moved)
    assert labelled.state.renamed == ()


def test_another_method_or_seed_or_graph_starts_anew(labelled, files):
    teach(labelled, QUICK)
    assert not teach(labelled, Recipe("gcn", ["epochs=20"], seed=1, folds=0)).refitted
    assert not teach(labelled, Recipe("gcn", ["epochs=21"], seed=1, folds=0)).refitted
    labelled.load_files(TableOptions(nodes=files.nodes, knn=3))
    assert model_of(labelled) is None
    labelled.load_files(files)
    assert model_of(labelled) is not None  # it is the same graph


def test_accuracy_is_measured_where_labels_are_many(labelled, truth):
    for node in range(27):
        labelled.label(f"n{node}", truth(f"n{node}"))
    told = teach(labelled, Recipe("gcn", ["epochs=20"]))
    assert told.expected_accuracy["labels"] == 27
    assert told.expected_accuracy == json.loads((labelled.model_folder / "card.json").read_text())["training"][
        "expected_accuracy"
    ] | {"ci95": told.expected_accuracy["ci95"]}


def test_nothing_is_kept_outside_of_the_project(labelled, tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "users-cache"))
    teach(labelled, PLUS)
    assert sorted(os.listdir(tmp_path)) == ["given", "project"]
    assert list((labelled.folder / "cache").rglob("*.npz"))
    assert os.environ["MTGCN_CACHE"] == str(tmp_path / "users-cache")
