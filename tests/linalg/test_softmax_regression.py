import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import one_hot

from mtgcn.linalg import softmax_regression
from mtgcn.linalg.softmax_regression import fit_to_all, fit_to_labels, probabilities_of

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
    return fit_to_labels(rows @ rows.mT, classes, CLASSES, weights, torch.tensor(penalties), steps)


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

    usual = fit_to_labels(rows @ rows.mT, classes, CLASSES, weights, torch.tensor([1e-4]))
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


NODES = 50


@pytest.fixture(params=[4, 60], ids=["fewer columns than nodes", "more columns than nodes"])
def table(request):
    values = np.random.default_rng(3).normal(size=(NODES, request.param))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return torch.from_numpy(np.concatenate([values, np.ones((NODES, 1))], axis=1)).float()


@pytest.fixture
def examples():
    """Of three runs: what each node weighs, 2 in all, and its class; the first six weigh as labels do."""
    random = np.random.default_rng(4)
    weights = random.uniform(0, 1, (3, NODES)) * (random.random((3, NODES)) < 0.6)
    weights[:, :6] = weights[:, 6:].sum(1, keepdims=True) / 6
    weights *= 2 / weights.sum(1, keepdims=True)
    return torch.from_numpy(weights).float(), torch.from_numpy(random.integers(CLASSES, size=(3, NODES)))


EACH_PENALTY = torch.tensor([1e-4, 1e-3, 1e-2])


def loss_and_gradient(table, weights, classes, penalty, weight):
    """The formula, in doubles, of one run."""
    table, weight = table.double().numpy(), weight.reshape(table.shape[1], CLASSES)
    logits = table @ weight
    logits = logits - logits.max(1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    target = np.eye(CLASSES)[classes]
    loss = -(weights.double().numpy() * (target * log_probabilities).sum(1)).sum() + penalty * (weight**2).sum()
    error = weights.double().numpy()[:, None] * (np.exp(log_probabilities) - target)
    return loss, (table.T @ error + 2 * penalty * weight).ravel()


def losses(table, examples, found):
    runs = zip(*examples, EACH_PENALTY.tolist(), found.double().numpy(), strict=True)
    return np.array([loss_and_gradient(table, *run)[0] for run in runs])


def fitted_to_all(table, examples, steps=24, start=None, runs=slice(None)):
    start = torch.zeros(3, table.shape[1], CLASSES) if start is None else start
    weights, classes = examples
    return fit_to_all(table, weights[runs], classes[runs], EACH_PENALTY[runs], start[runs], steps)[0]


def smallest_losses(table, examples):
    runs = list(zip(*examples, EACH_PENALTY.tolist(), strict=True))
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10}
    start = np.zeros(table.shape[1] * CLASSES)
    return [
        minimize(
            lambda weight, run=run: loss_and_gradient(table, *run, weight),
            start,
            jac=True,
            method="L-BFGS-B",
            options=options,
        ).fun
        for run in runs
    ]


@pytest.mark.parametrize("scale", [0.0, 3.0], ids=["from zero", "from far away"])
def test_steps_with_every_node_reach_the_minimum(table, examples, scale):
    start = scale * torch.randn(3, table.shape[1], CLASSES, generator=torch.Generator().manual_seed(0))
    found = fitted_to_all(table, examples, 500, start)
    np.testing.assert_allclose(losses(table, examples, found), smallest_losses(table, examples), rtol=0, atol=1e-5)
    for run, weight in enumerate(found.double().numpy()):
        given = examples[0][run], examples[1][run], EACH_PENALTY[run].item()
        assert np.abs(loss_and_gradient(table, *given, weight)[1]).max() < 1e-4


def test_two_dozen_steps_with_every_node_nearly_reach_the_minimum(table, examples):
    found = losses(table, examples, fitted_to_all(table, examples, 24))
    np.testing.assert_allclose(found, smallest_losses(table, examples), rtol=0, atol=2e-3)


def test_more_steps_with_every_node_are_never_worse(table, examples):
    start = torch.randn(3, table.shape[1], CLASSES, generator=torch.Generator().manual_seed(0))
    after = np.array([losses(table, examples, fitted_to_all(table, examples, steps, start)) for steps in range(30)])
    assert (np.diff(after, axis=0) < 1e-5).all()
    assert (after[1] < after[0]).all()
    np.testing.assert_array_equal(fitted_to_all(table, examples, 0, start), start)


def test_a_bound_of_other_examples_serves_until_it_leads_uphill(table, examples):
    weights, classes = examples
    start = torch.zeros(3, table.shape[1], CLASSES)
    _, own = fit_to_all(table, weights, classes, EACH_PENALTY, start, 4)
    found, kept = fit_to_all(table, 0.9 * weights, classes, EACH_PENALTY, start, 4, bound=own)
    assert torch.equal(kept, own)
    fewer = (0.9 * weights, classes)
    assert (losses(table, fewer, found) < 0.9 * losses(table, fewer, start)).all()
    # Steps a thousand times too long for the second run: it takes those of its own bound, the others what they had.
    wrong = own.clone()
    wrong[1] *= 1000
    found, mended = fit_to_all(table, weights, classes, EACH_PENALTY, start, 4, bound=wrong)
    torch.testing.assert_close(mended, own)
    torch.testing.assert_close(found, fitted_to_all(table, examples, 4))
    wrong[1] = torch.nan
    torch.testing.assert_close(fit_to_all(table, weights, classes, EACH_PENALTY, start, 4, bound=wrong)[1], own)


def test_runs_with_every_node_do_not_depend_on_each_other(table, examples):
    together = fitted_to_all(table, examples)
    for run in range(3):
        alone = fitted_to_all(table, examples, runs=slice(run, run + 1))
        np.testing.assert_allclose((table @ alone)[0], (table @ together)[run], atol=1e-4)


def test_a_node_that_weighs_nothing_counts_nothing(table, examples):
    weights, classes = examples
    found = fitted_to_all(table, examples)
    silent = weights == 0
    assert silent.any(1).all()
    others = torch.where(silent, (classes + 1) % CLASSES, classes)
    torch.testing.assert_close(fitted_to_all(table, (weights, others)), found)
    nobody = silent.all(0)
    assert nobody.any()
    moved = torch.where(nobody[:, None], 100 * table, table)
    torch.testing.assert_close(fitted_to_all(moved, examples), found)
    torch.testing.assert_close(fitted_to_all(table[~nobody], (weights[:, ~nobody], classes[:, ~nobody])), found)


def test_with_every_node_or_with_labels_alone_it_is_the_same_minimum(rows, classes, weights):
    by_labels = rows[0].mT @ fitted(rows, classes, weights)[0, :, 1]  # parts are runs here
    parts = len(weights[0])
    found, _ = fit_to_all(
        rows[0],
        weights[0],
        classes[:1].repeat(parts, 1),
        torch.full((parts,), PENALTIES[1]),
        torch.zeros_like(by_labels),
        steps=500,
    )
    np.testing.assert_allclose(rows[0] @ found, rows[0] @ by_labels, atol=3e-4)


def test_probabilities_are_those_of_the_logits_at_a_temperature():
    rows = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    weight = torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], [[2.0, 1.0, 0.0], [-1.0, 0.0, 3.0]]])
    logits = torch.tensor([[[1.0, 2, 4], [0, 1, 1], [3, -1, 5]], [[0, 1, 6], [-1, 0, 3], [7, 3, -3]]])  # by hand
    torch.testing.assert_close(probabilities_of(rows, weight), logits.softmax(-1))
    cooled = probabilities_of(rows, weight, torch.tensor([2.0, 0.5]))
    by_hand = np.exp([1 / 2, 2 / 2, 4 / 2])  # the first node of the first run: logits 1, 2, 4
    np.testing.assert_allclose(cooled[0, 0], by_hand / by_hand.sum(), rtol=1e-6)
    torch.testing.assert_close(cooled[1], (2 * logits[1]).softmax(-1))
