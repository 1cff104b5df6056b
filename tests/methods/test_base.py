"""What a method answers is looked at before anything is made of it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.methods import METHODS, as_method, create, fit_in_chunks
from mtgcn.methods.base import Method
from mtgcn.settings import LARGEST, described_settings
from mtgcn.splits import draw_splits
from mtgcn.task import Prediction, observe


@dataclass(frozen=True)
class Answering:
    """Answers a table of the shape that is asked for and changes it as it is told."""

    change: object

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
            r"of shape \(2, 3, 3\); here they are runs, nodes, classes: \(2, 40",
        ),
        (lambda shares: Prediction(2 * shares), "do not sum to 1 at every node; normalise them"),
        (with_nan, r"not finite \(NaN\); did its training diverge"),
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
def test_an_answer_that_is_none_is_refused(two_runs, change, message):
    with pytest.raises(InputError, match=message):
        fit_in_chunks(as_method(Answering(change)), two_runs)


def test_an_answer_that_is_one_comes_back(two_runs):
    shares = fit_in_chunks(as_method(Answering(Prediction)), two_runs).probabilities
    assert shares.shape == (2, 40, 3)


def test_it_is_said_since_when_and_by_which_setting(two_runs):
    with pytest.raises(InputError) as refusal:
        fit_in_chunks(create("planetoid", context_learning_rate=50, epochs=3, label_batches=20), two_runs)
    assert str(refusal.value) == (
        "Planetoid.fit returned probabilities that are not finite (NaN): an embedding was not finite from batch "
        f"{first_bad_batch(two_runs)} of 24 on; context_learning_rate is 50 (usually 0.01), bring it nearer to that"
    )


def first_bad_batch(task):
    """By training on one batch of the label context after the other."""
    for batches in range(1, 21):
        method = create("planetoid", context_learning_rate=50, label_batches=batches, walks_per_node=0)
        if not method.embeddings(task).isfinite().all():
            return batches
    raise AssertionError("none of these batches is")


def test_the_epoch_is_that_of_the_loss(two_runs, monkeypatch):
    """A step that is far too long, which no setting allows, is one in the second epoch."""
    monkeypatch.setattr("mtgcn.training.loop.EPSILON", 1e-45)
    method = create("gcn", epochs=6, dropout=0.25)
    object.__setattr__(method, "learning_rate", 1e38)
    with pytest.raises(InputError) as refusal:
        fit_in_chunks(method, two_runs)
    assert str(refusal.value) == (
        "GCNWithoutValidation.fit returned probabilities that are not finite (NaN): its loss 'supervised' was not "
        "finite from epoch 2 of 6 on; dropout is 0.25 (usually 0.5), learning_rate is 1e+38 (usually 0.01), bring them "
        "nearer to that"
    )


@dataclass(frozen=True, kw_only=True)
class Singular(Method):
    learning_rate: float = 0.5

    def fit(self, task):
        torch.linalg.cholesky(-torch.eye(2))


def test_numbers_that_cannot_be_calculated_with_are_one_line(two_runs):
    with pytest.raises(
        InputError, match=r"Singular.fit could not be calculated \(.*\); did its training diverge\? lower "
    ):
        fit_in_chunks(Singular(), two_runs)


SMALL = {
    **dict.fromkeys(("epochs", "warmup_epochs", "teaching_epochs", "infomax_epochs", "label_batches"), 4),
    **dict.fromkeys(("dimensions", "directions", "edge_directions", "clusters", "walk_length"), 4),
    **dict.fromkeys(("embeddings", "walks_per_node", "rounds", "iterations"), 1),
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


@pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name, kind in METHODS.items() for setting in fractions(kind)]
)
def test_no_number_that_a_setting_allows_comes_out_as_nan(make_graph, name, setting, monkeypatch, tmp_path):
    """Either the answer is finite, or it is refused in words; no number is without a limit."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    kind, graph = METHODS[name], make_graph(nodes=24, features=6)
    task = observe(graph, draw_splits(graph, 2, 1, 0, 6), 0, with_validation=kind.uses_validation)
    settings = {key: value for key, value in SMALL.items() if key in kind.__dataclass_fields__}
    tried = 0
    for value in (0.0, 5e-324, 1 - 1e-16, 1.0, 100.0, float(LARGEST)):
        try:
            method = create(name, **settings | {setting: value})
        except InputError:
            continue
        tried += 1
        answer, refusal = answered(method, task)
        assert f"{setting} is {value:g} (usually " in refusal if answer is None else np.isfinite(answer).all()
    assert tried >= 2
    for value in (1e38, np.inf, -np.inf, np.nan):
        with pytest.raises(InputError, match=f"^{setting} is "):
            create(name, **{setting: value})
