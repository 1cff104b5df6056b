"""Predictions are checked; trained networks are applied to other graphs; the karate club."""

from dataclasses import dataclass, replace

import networkx
import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.linalg.structural_features import structural_features
from mtgcn.methods import METHODS, as_method, create, fit_in_chunks, karate_club, task_of
from mtgcn.settings import LARGEST, described_settings
from mtgcn.splits import draw_splits
from mtgcn.task import Prediction, observe


@dataclass(frozen=True)
class Answering:
    """Returns uniform probabilities, changed by `change`."""

    change: object
    learning_rate: float = 0.5

    def fit(self, task):
        return self.change(np.full((task.runs, task.num_nodes, task.num_classes), 1 / task.num_classes))


def with_nan(shares):
    shares[0, 3, 1] = np.nan
    return Prediction(shares)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda shares: shares, "Answering.fit returned a ndarray; return a mtgcn.task.Prediction"),
        (lambda shares: None, "Answering.fit returned a NoneType"),
        (
            lambda shares: Prediction(shares[:, :3]),
            r"of shape \(2, 3, 3\); return \(runs, nodes, classes\) = \(2, 40",
        ),
        (lambda shares: Prediction(2 * shares), "do not sum to 1; normalise them"),
        (with_nan, r"not finite \(NaN\); did its training diverge\? lower learning_rate \(0.5\), or look"),
        (
            lambda shares: torch.linalg.cholesky(-torch.eye(2)),
            r"Answering.fit could not be calculated \(.*\); did its training diverge\? lower ",
        ),
        (
            lambda shares: Prediction(shares, peers=np.nan * shares[:, None]),
            r"returned peers that are not finite \(NaN\)",
        ),
        (
            lambda shares: Prediction(shares, parameters={"weight": np.array([[1, np.inf]])}),
            r"returned weight that are not finite \(NaN\)",
        ),
    ],
)
def test_invalid_prediction_is_refused(two_runs, change, message):
    with pytest.raises(InputError, match=message):
        fit_in_chunks(as_method(Answering(change)), two_runs)


def test_divergence_names_settings(two_runs):
    """A step that is far too long, which no setting allows."""
    method = create("gcn", epochs=6, dropout=0.25)
    object.__setattr__(method, "learning_rate", 1e38)
    with pytest.raises(InputError) as refusal:
        fit_in_chunks(method, two_runs)
    assert str(refusal.value) == (
        "GCNWithoutValidation.fit returned probabilities that are not finite (NaN); dropout is 0.25 (usually 0.5), "
        "learning_rate is 1e+38 (usually 0.01), bring them nearer to that"
    )


SMALL = {
    **dict.fromkeys(("epochs", "warmup_epochs", "teaching_epochs", "infomax_epochs", "label_batches"), 4),
    **dict.fromkeys(
        ("dimensions", "directions", "edge_directions", "hop_directions", "size_waves", "clusters", "walk_length"), 4
    ),
    **dict.fromkeys(("embeddings", "walks_per_node", "rounds", "iterations", "steps"), 1),
}


def fractions(kind):
    """The settings of a method that are numbers with a fraction."""
    return [one.name for one in described_settings(kind) if one.limits.startswith("number")]


def answered(method, task):
    """The probabilities, or why there are none."""
    try:
        return fit_in_chunks(method, task).probabilities, ""
    except InputError as refusal:
        return None, str(refusal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting"), [(name, one) for name, kind in METHODS.items() if "+v" not in name for one in fractions(kind)]
)
def test_extreme_settings_are_finite_or_refused(make_graph, name, setting, monkeypatch, tmp_path):
    """Either the answer is finite, or it is refused in words; no number is without a limit."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    kind, graph = METHODS[name], make_graph(nodes=24, features=6)
    task = observe(graph, draw_splits(graph, 2, 1, 0, 6), 0, with_validation=kind.uses_validation)
    settings = {key: value for key, value in SMALL.items() if key in kind.__dataclass_fields__}

    def allowed(value):
        try:
            return create(name, **{setting: value})
        except InputError:
            return False

    small = (0.0, 5e-324)
    large = (1 - 1e-16, 1.0, 100.0, float(LARGEST))
    for value in [*filter(allowed, small), *[*filter(allowed, large)][-1:]]:
        answer, refusal = answered(create(name, **settings | {setting: value}), task)
        assert f"{setting} is {value:g} (usually " in refusal if answer is None else np.isfinite(answer).all()


@pytest.mark.parametrize("name", ["gcn", "krylov", "mt-gcn"])
def test_runs_are_the_first_axis_of_parameters(name, two_runs):
    epochs = {key: 5 for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")}
    method = create(name, **epochs)
    prediction = method.fit(two_runs)
    peers = prediction.probabilities[:, None] if prediction.peers is None else prediction.peers
    np.testing.assert_allclose(method.apply(prediction.parameters, two_runs.graph), peers, atol=1e-6)
    second = {name: values[1:] for name, values in prediction.parameters.items()}
    np.testing.assert_allclose(method.apply(second, two_runs.graph)[0], peers[1], atol=1e-6)
    joined = Prediction.concatenate([replace(prediction, parameters=second), prediction])
    assert {len(values) for values in joined.parameters.values()} == {3}


def test_apply_refuses_empty_parameters(make_graph):
    with pytest.raises(ValueError, match="there are none"):
        create("gcn").apply({}, make_graph())


def test_karate_equals_networkx():
    known = networkx.karate_club_graph()
    task, accuracy = karate_club()
    expected = networkx.to_numpy_array(known, weight=None)
    assert np.array_equal(task.graph.adjacency.toarray(), expected)
    assert np.array_equal(task.graph.features, expected + np.eye(34))
    officers = np.array([known.nodes[member]["club"] == "Officer" for member in known], dtype=float)
    assert accuracy(Prediction(np.stack([1 - officers, officers], -1)[None])) == 1
    assert accuracy(Prediction(np.stack([officers, 1 - officers], -1)[None])) == 0


def test_karate_labels():
    task, _ = karate_club()
    assert task.labelled.classes.tolist() == [[0, 0, 1, 1]]
    assert task.validation is None
    with_validation, _ = karate_club(with_validation=True)
    assert with_validation.validation.classes.tolist() == [[0, 0, 1, 1]]
    assert not set(with_validation.validation.index.flatten().tolist()) & set(task.labelled.index.flatten().tolist())


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_karate_accuracy_ignores_labelled_nodes(share):
    task, accuracy = karate_club()
    probabilities = np.full((1, 34, 2), 0.5)
    probabilities[0, task.labelled.index[0]] = [share, 1 - share]
    assert accuracy(Prediction(probabilities)) == 13 / 26


def test_methods_share_structural_features(make_graph):
    graph = replace(make_graph(), features=None)
    splits = draw_splits(graph, 2, runs=2, seed=3, validation=4)
    tasks = {name: task_of(create(name), graph, splits, seed=3) for name in ("gcn", "gcn+v", "logistic", "lp")}
    features = tasks["gcn"].graph.features
    assert tasks["gcn+v"].graph.features is tasks["logistic"].graph.features is features
    np.testing.assert_array_equal(features, structural_features(graph, seed=3))
    assert tasks["lp"].graph.features is None
    assert [name for name, task in tasks.items() if task.validation is not None] == ["gcn+v"]
