import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import one_hot

from mtgcn.linalg import softmax_regression
from mtgcn.linalg.softmax_regression import fit_to_labels

CLASSES, LABELS = 3, 18
PENALTIES = [1e-4, 1e-2]


@pytest.fixture(params=[4, 60], ids=["fewer columns than labels", "more columns than labels"])
def rows(request):
    """Of two runs, of length 1 and with a column of ones."""
    values = np.random.default_rng(0).normal(size=(2, LABELS, request.param))
    values /= np.linalg.norm(values, axis=2, keepdims=True)
    return torch.from_numpy(np.concatenate([values, np.ones((2, LABELS, 1))], axis=2)).float()


@pytest.fixture
def classes():
    return torch.from_numpy(np.random.default_rng(1).permuted(np.tile(np.arange(LABELS) % CLASSES, (2, 1)), axis=1))


@pytest.fixture
def weights():
    """Of three parts: all labels alike, some held out, each its own; the second run has five labels fewer."""
    values = np.ones((2, 3, LABELS))
    values[:, 1, :4] = 0
    values[:, 2] = np.random.default_rng(2).uniform(0.2, 3, LABELS)
    values[1, :, -5:] = 0
    return torch.from_numpy(values / values.sum(2, keepdims=True)).float()


def fitted(rows, classes, weights, penalties=PENALTIES, steps=1000):
    return fit_to_labels(rows, classes, CLASSES, weights, torch.tensor(penalties), steps)


def test_it_is_what_scikit_learn_finds(rows, classes, weights):
    kernel = rows @ rows.mT
    found = fitted(rows, classes, weights)
    assert found.shape == (2, 3, 2, LABELS, CLASSES)
    for run, part, number in np.ndindex(2, 3, 2):
        # Σ m · loss + λ |W|² has its minimum where C Σ m · loss + |W|² / 2 has, with C = 1 / (2 λ).
        reference = LogisticRegression(C=0.5 / PENALTIES[number], fit_intercept=False, tol=1e-9, max_iter=10_000)
        given = weights[run, part] > 0
        reference.fit(rows[run][given], classes[run][given], sample_weight=weights[run, part][given])
        logits = kernel[run] @ found[run, part, number]
        np.testing.assert_allclose(logits, rows[run].numpy() @ reference.coef_.T, atol=3e-4)
        np.testing.assert_allclose(logits.softmax(-1), reference.predict_proba(rows[run]), atol=1e-4)


def test_it_is_where_the_gradient_vanishes(rows, classes, weights):
    found = fitted(rows, classes, weights)
    probabilities = ((rows @ rows.mT)[:, None, None] @ found).softmax(-1)
    error = weights[:, :, None, :, None] * (probabilities - one_hot(classes, CLASSES)[:, None, None])
    pull = 2 * torch.tensor(PENALTIES)[:, None, None] * found
    assert (rows.mT[:, None, None] @ (error + pull)).abs().max() < 5e-5


def test_the_usual_number_of_steps_nearly_reaches_the_minimum(rows, classes, weights):
    def loss(coefficients):
        logits = (rows @ rows.mT)[:, None] @ coefficients[:, :, 0]
        surprise = -logits.log_softmax(-1).gather(-1, classes[:, None, :, None].expand(-1, 3, -1, 1))[..., 0]
        squares = (coefficients[:, :, 0] * logits).sum((-1, -2))  # |Xᵀ α|² is α · X Xᵀ α
        return (weights * surprise).sum(-1) + 1e-4 * squares

    usual = fit_to_labels(rows, classes, CLASSES, weights, torch.tensor([1e-4]))
    gap = loss(usual) - loss(fitted(rows, classes, weights, [1e-4], steps=5000))
    assert gap.abs().max() < 1e-4


def test_what_has_settled_is_left_alone(rows, classes, weights, monkeypatch):
    looks = []

    def settled(*args):
        looks.append(original(*args))
        return looks[-1]

    original = softmax_regression._settled
    monkeypatch.setattr(softmax_regression, "_settled", settled)
    fitted(rows, classes, weights, [1e-2], steps=5000)
    assert looks[-1]
    assert not looks[0]
    assert len(looks) < 20


def test_rows_of_absent_labels_may_hold_anything(rows, classes, weights):
    found = fitted(rows, classes, weights)
    assert not found[1, ..., -5:, :].any()
    others = rows.clone()
    others[1, -5:] = 100 * torch.rand(5, rows.shape[2])
    torch.testing.assert_close(fitted(others, classes, weights), found)
    short = fitted(rows[1:, :-5], classes[1:, :-5], weights[1:, :, :-5])
    kernel = (rows[1:] @ rows[1:, :-5].mT)[:, None, None]
    np.testing.assert_allclose(kernel @ short, kernel @ found[1:, ..., :-5, :], atol=3e-4)


def test_runs_do_not_depend_on_each_other(rows, classes, weights):
    kernel = (rows @ rows.mT)[:, None, None]
    alone = torch.cat([fitted(rows[run], classes[run], weights[run]) for run in (slice(0, 1), slice(1, 2))])
    np.testing.assert_allclose(kernel @ alone, kernel @ fitted(rows, classes, weights), atol=3e-4)


def test_two_labels_by_hand():
    # Two rows at right angles, one of each class: by symmetry W = [[a, -a], [-a, a]] / √2 and both probabilities of the
    # right class are p with 2 λ a' = (1 - p) / 2, a' the logit of a row's own class and -a' that of the other.
    penalty = 0.05
    found = fit_to_labels(
        torch.eye(2)[None], torch.tensor([[0, 1]]), 2, torch.full((1, 1, 2), 0.5), torch.tensor([penalty])
    )
    logits = found[0, 0, 0]
    own = logits[0, 0].item()
    np.testing.assert_allclose(logits, [[own, -own], [-own, own]], atol=1e-6)
    np.testing.assert_allclose(2 * penalty * own, 0.5 * (1 - 1 / (1 + np.exp(-2 * own))), rtol=1e-4)


def test_a_class_without_labels_is_unlikely_and_no_labels_say_nothing(rows, classes, weights):
    found = fitted(rows, torch.zeros_like(classes), weights)
    probabilities = ((rows @ rows.mT)[:, None, None] @ found).softmax(-1)
    assert (probabilities[..., 0] > 0.5).all()
    torch.testing.assert_close(probabilities[..., 1], probabilities[..., 2])
    assert not fitted(rows, classes, torch.zeros_like(weights)).any()
