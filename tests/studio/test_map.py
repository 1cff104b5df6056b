import numpy as np
import pytest

from mtgcn.studio import map as studio_map
from mtgcn.studio.answers import ProjectAnswers
from mtgcn.studio.lesson import Recipe, teach
from mtgcn.studio.map import MAP, project_map

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
QUICK = Recipe("gcn", ["epochs=20"], folds=0)


def test_without_a_model_nodes_lie_by_what_they_look_like(labelled):
    points = project_map(labelled, None)
    assert list(points.nodes) == [f"n{node}" for node in range(36)]
    assert points.places.shape == (36, 2)
    assert (points.predicted == -1).all()
    assert points.classes == ("cat", "dog", "eel")
    assert points.given[[0, 1, 2, 3]].tolist() == [0, 1, 2, -1]


def test_with_a_model_it_is_what_the_teaching_left(labelled, monkeypatch):
    teach(labelled, QUICK)
    answers = ProjectAnswers.read(labelled)
    with monkeypatch.context() as patched:
        patched.delattr(studio_map, "plane_layout")  # it is not needed any more
        points = project_map(labelled, answers)
    names = np.array(points.classes)
    assert names[points.predicted].tolist() == answers.model.transduction_.tolist()
    assert np.array_equal(points.confidence, answers.confidence)
    labelled.merge_classes("cat", "dog")
    merged = project_map(labelled, ProjectAnswers.read(labelled))
    assert merged.classes == ("dog", "eel")
    assert np.array_equal(merged.places, points.places)


@pytest.mark.parametrize("damage", ["remove", "shorten", "another"])
def test_a_map_that_is_not_there_or_not_of_this_model_is_made_again(labelled, damage):
    teach(labelled, QUICK)
    path = labelled.folder / MAP
    before = project_map(labelled, ProjectAnswers.read(labelled)).places
    if damage == "remove":
        path.unlink()
    elif damage == "shorten":
        path.write_bytes(path.read_bytes()[:100])
    else:
        np.savez(path, nodes=np.arange(36), places=np.zeros((36, 2)), made_for=np.array("another"))
    assert np.array_equal(project_map(labelled, ProjectAnswers.read(labelled)).places, before)
    assert path.stat().st_size > 100


def test_classes_of_a_hand_edit_are_on_the_map(labelled):
    with labelled.labels_path.open("a") as file:
        file.write("n30,ant\n")
    points = project_map(labelled, None)
    assert points.classes[points.given[30]] == "ant"
