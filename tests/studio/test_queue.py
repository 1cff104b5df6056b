import numpy as np
import pytest

from mtgcn.studio.lesson import Recipe, model_of, teach
from mtgcn.studio.project import Project
from mtgcn.studio.queue import SKIPPED, next_nodes

RECIPE = Recipe("gcn", ["epochs=20"], folds=0)


def test_it_asks_without_any_label_and_with_one_class(project):
    first = next_nodes(project, None, 4)
    assert len({one.node for one in first}) == 4
    assert first[0].predicted is None
    assert "neighbour" in first[0].reason
    project.label(first[0].node, "cat")
    # Labelling the first changes nothing about the rest.
    assert [one.node for one in next_nodes(project, None, 3)] == [one.node for one in first[1:]]


def test_the_first_nodes_are_of_different_classes(project, truth):
    assert {truth(one.node) for one in next_nodes(project, None, 3)} == {"cat", "dog", "eel"}


def test_who_was_skipped_comes_last(project):
    first = next_nodes(project, None, 1)[0].node
    project.skip(first)
    everybody = next_nodes(project, None, 100)
    assert len(everybody) == 36
    assert everybody[-1].node == first
    assert everybody[-1].reason == SKIPPED
    assert first not in [one.node for one in next_nodes(project, None, 35)]


@pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
def test_with_a_model_it_is_what_suggest_says_of_labels_of_now(labelled):
    teach(labelled, RECIPE)
    model = model_of(labelled)
    asked = next_nodes(labelled, model, 5)
    suggested = model.suggest(5)
    assert [(one.index, one.reason) for one in asked] == [(one.index, one.reason) for one in suggested]
    labelled.label(asked[0].node, "cat")
    labelled.skip(asked[1].node)
    labelled.rename_class("eel", "fish")
    again = next_nodes(labelled, model, 100)
    assert asked[0].node not in [one.node for one in again]
    assert again[-1].node == asked[1].node
    assert {one.predicted for one in again[:-1]} <= {"cat", "dog", "fish"}


def test_a_project_where_all_are_labelled_asks_for_nobody(tmp_path, files):
    project = Project.open(tmp_path / "project")
    project.load_files(files)
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    assert next_nodes(project, None, 5) == []
    assert np.bincount(project.labelled_graph().labels).tolist() == [18, 18]
