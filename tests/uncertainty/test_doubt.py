import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.persistence import load_model
from mtgcn.uncertainty.held_out import expected_gain

FLIPPED = (4, 13)


@pytest.fixture(scope="module")
def fitted(make_graph):
    """60 nodes of 3 classes, 8 labels of each, of which two are wrong."""
    graph = make_graph(nodes=60, easy=True)
    labels = np.where(np.arange(60) < 24, graph.labels, -1)
    labels[list(FLIPPED)] = (labels[list(FLIPPED)] + 1) % 3
    return GraphModel(random_state=0).fit_graph(graph.with_labels(labels))


def test_flipped_labels_come_first(fitted, tmp_path):
    found = fitted.doubtful_labels(None)
    assert {one.index for one in found[:2]} == set(FLIPPED)
    assert sorted(one.index for one in found) == list(range(24))
    first = found[0]
    assert (first.label, first.predicted) == (str((first.index + 1) % 3), str(first.index % 3))
    assert first.probability < 0.5 < first.predicted_probability
    near = fitted.graph_.adjacency[[first.index]].indices
    unlike = int((near % 3 != (first.index + 1) % 3).sum())
    assert f"{unlike} of its {len(near)} neighbours are not {first.label!r}" in first.reason
    assert found[-1].reason.startswith("Without its label it is also predicted as")
    assert found._repr_html_().count("<tr>") == 25
    fitted.save(tmp_path / "model")
    assert load_model(tmp_path / "model").doubtful_labels(5) == found[:5]


def test_count_is_checked(fitted):
    with pytest.raises(InputError, match="count is 0"):
        fitted.doubtful_labels(0)


def test_gain_of_more_labels(fitted, make_graph):
    never = np.zeros(98)
    found = expected_gain(never, (80, 20), labels=100)
    step = (1 / 100**0.5 - 1 / 110**0.5) / (1 / 20**0.5 - 1 / 80**0.5)
    assert found.gain == pytest.approx(step / 100, abs=1e-6)  # one of two added labels is gained
    assert found.enough
    assert expected_gain(never, (7, 7), labels=8) is None
    assert not expected_gain(never + 1, (80, 20), labels=100).enough
    assert fitted.expected_gain(folds=4).labels == 10
    few = make_graph(nodes=60, easy=True)
    few = few.with_labels(np.where(np.arange(60) < 6, few.labels, -1))
    assert GraphModel("lp", random_state=0).fit_graph(few).expected_gain() is None
