import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from mtgcn.linalg import softmax_regression
from mtgcn.linalg.softmax_regression import FitToMany, fit_to_all, fit_to_labels, probabilities_of

CLASSES, LABELS, NODES = 3, 18, 50
PENALTIES = [1e-4, 1e-2]
RUN_PENALTIES = torch.tensor([1e-4, 1e-3, 1e-2])


def unit_rows(shape, seed):
    """Random rows of length 1 and a column of ones."""
    values = np.random.default_rng(seed).normal(size=shape)
    values /= np.linalg.norm(values, axis=-1, keepdims=True)
    return torch.from_numpy(np.concatenate([values, np.ones((*shape[:-1], 1))], axis=-1)).float()


@pytest.fixture(params=[4, 60], ids=["narrow", "wide"])
def rows(request):
    """Labelled rows of two runs."""
    return unit_rows((2, LABELS, request.param), seed=0)


@pytest.fixture
def classes():
    return torch.from_numpy(np.random.default_rng(1).permuted(np.tile(np.arange(LABELS) % CLASSES, (2, 1)), axis=1))


@pytest.fixture
def weights():
    """Three parts: equal weights, four labels held out, random weights; the second run has five labels fewer."""
    values = np.ones((2, 3, LABELS))
    values[:, 1, :4] = 0
    values[:, 2] = np.random.default_rng(2).uniform(0.2, 3, LABELS)
    values[1, :, -5:] = 0
    return torch.from_numpy(values / values.sum(2, keepdims=True)).float()


def fitted(rows, classes, weights, penalties=PENALTIES, steps=1000):
    return fit_to_labels(rows @ rows.mT, classes, CLASSES, weights, torch.tensor(penalties), steps)


def loss_and_gradient(rows, weights, classes, penalty, weight):
    """The loss of one run and its gradient, in doubles."""
    rows, weights = rows.double().numpy(), weights.double().numpy()
    weight = weight.reshape(rows.shape[1], CLASSES)
    logits = rows @ weight
    logits = logits - logits.max(1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    target = np.eye(CLASSES)[classes]
    loss = -(weights * (target * log_probabilities).sum(1)).sum() + penalty * (weight**2).sum()
    error = weights[:, None] * (np.exp(log_probabilities) - target)
    return loss, (rows.T @ error + 2 * penalty * weight).ravel()


def test_labels_match_scikit_learn_and_gradient_vanishes(rows, classes, weights):
    found = fitted(rows, classes, weights)
    assert found.shape == (2, 3, 2, LABELS, CLASSES)
    for run, part, number in np.ndindex(2, 3, 2):
        given, weight = weights[run, part] > 0, (rows[run].mT @ found[run, part, number]).double().numpy()
        # Σ m · loss + λ |W|² has its minimum where C Σ m · loss + |W|² / 2 has, with C = 1 / (2 λ).
        reference = LogisticRegression(C=0.5 / PENALTIES[number], fit_intercept=False, tol=1e-9, max_iter=10_000)
        reference.fit(rows[run][given], classes[run][given], sample_weight=weights[run, part][given])
        np.testing.assert_allclose(rows[run].numpy() @ weight, rows[run].numpy() @ reference.coef_.T, atol=3e-4)
        problem = rows[run], weights[run, part], classes[run], PENALTIES[number]
        assert np.abs(loss_and_gradient(*problem, weight)[1]).max() < 5e-5


def test_many_labels_give_the_same_minimum(rows, classes, weights):
    expected = fitted(rows, classes, weights)
    for run, part, number in np.ndindex(2, 3, 2):
        fit = FitToMany(rows[run], classes[run], CLASSES)
        weight = fit.weight(fit.coefficients(weights[run, part], PENALTIES[number], None, 500, tolerance=0))
        found = rows[run] @ weight
        np.testing.assert_allclose(found, rows[run] @ rows[run].mT @ expected[run, part, number], atol=2e-2)
        start = fit.coefficients(weights[run, part], 1.0, None, 500)
        from_there = fit.coefficients(weights[run, part], PENALTIES[number], start, 500, tolerance=0)
        np.testing.assert_allclose(fit.rows @ from_there, found, atol=2e-2)


def test_default_steps_nearly_reach_the_minimum(rows, classes, weights):
    default = fit_to_labels(rows @ rows.mT, classes, CLASSES, weights, torch.tensor([1e-4]))
    exact = fitted(rows, classes, weights, [1e-4], steps=5000)
    for run, part in np.ndindex(2, 3):
        problem = rows[run], weights[run, part], classes[run], 1e-4
        losses = [
            loss_and_gradient(*problem, (rows[run].mT @ found[run, part, 0]).double().numpy())[0]
            for found in (default, exact)
        ]
        assert abs(losses[0] - losses[1]) < 1e-4


def test_iteration_stops_at_convergence(rows, classes, weights, monkeypatch):
    checks, settled = [], softmax_regression._settled
    monkeypatch.setattr(softmax_regression, "_settled", lambda *args: checks.append(settled(*args)) or checks[-1])
    fitted(rows, classes, weights, [1e-2], steps=5000)
    assert (checks[0], checks[-1]) == (False, True)
    assert len(checks) < 20


def test_rows_of_absent_labels_are_ignored(rows, classes, weights):
    found = fitted(rows, classes, weights)
    assert not found[1, ..., -5:, :].any()
    others = rows.clone()
    others[1, -5:] = 100 * torch.rand(5, rows.shape[2])
    torch.testing.assert_close(fitted(others, classes, weights), found)
    short = fitted(rows[1:, :-5], classes[1:, :-5], weights[1:, :, :-5])
    kernel = (rows[1:] @ rows[1:, :-5].mT)[:, None, None]
    np.testing.assert_allclose(kernel @ short, kernel @ found[1:, ..., :-5, :], atol=3e-4)


def test_missing_classes_and_missing_labels(rows, classes, weights):
    found = fitted(rows, torch.zeros_like(classes), weights)
    probabilities = ((rows @ rows.mT)[:, None, None] @ found).softmax(-1)
    assert (probabilities[..., 0] > 0.5).all()
    torch.testing.assert_close(probabilities[..., 1], probabilities[..., 2])
    assert not fitted(rows, classes, torch.zeros_like(weights)).any()


@pytest.fixture(params=[4, 60], ids=["narrow", "wide"])
def table(request):
    return unit_rows((NODES, request.param), seed=3)


@pytest.fixture
def examples():
    """Weights and classes of three runs; weights sum to 2, half of it at the first six nodes."""
    random = np.random.default_rng(4)
    weights = random.uniform(0, 1, (3, NODES)) * (random.random((3, NODES)) < 0.6)
    weights[:, :6] = weights[:, 6:].sum(1, keepdims=True) / 6
    weights *= 2 / weights.sum(1, keepdims=True)
    return torch.from_numpy(weights).float(), torch.from_numpy(random.integers(CLASSES, size=(3, NODES)))


def fitted_to_all(table, examples, steps=24, start=None, runs=slice(None), **bound):
    start = torch.zeros(3, table.shape[1], CLASSES) if start is None else start
    weights, classes = (part[runs] for part in examples)
    return fit_to_all(table, weights, classes, RUN_PENALTIES[runs], start[runs], steps, **bound)


def random_start(table, scale=1.0):
    return scale * torch.randn(3, table.shape[1], CLASSES, generator=torch.Generator().manual_seed(0))


def losses_and_gradients(table, examples, found):
    runs = zip(*examples, RUN_PENALTIES.tolist(), found.double().numpy(), strict=True)
    losses, gradients = zip(*(loss_and_gradient(table, *run) for run in runs), strict=True)
    return np.array(losses), np.array(gradients)


def smallest_losses(table, examples):
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10}
    how = {"x0": np.zeros(table.shape[1] * CLASSES), "jac": True, "method": "L-BFGS-B", "options": options}
    runs = zip(*examples, RUN_PENALTIES.tolist(), strict=True)
    return [minimize(lambda weight, run=run: loss_and_gradient(table, *run, weight), **how).fun for run in runs]


@pytest.mark.parametrize(("steps", "scale", "gap"), [(500, 0.0, 1e-5), (500, 3.0, 1e-5), (24, 0.0, 2e-3)])
def test_all_nodes_reach_the_minimum(table, examples, steps, scale, gap):
    found, _ = fitted_to_all(table, examples, steps, random_start(table, scale))
    losses, gradients = losses_and_gradients(table, examples, found)
    np.testing.assert_allclose(losses, smallest_losses(table, examples), rtol=0, atol=gap)
    assert steps < 500 or np.abs(gradients).max() < 1e-4


def test_more_steps_never_increase_the_loss(table, examples):
    start = random_start(table)
    found = [fitted_to_all(table, examples, steps, start)[0] for steps in range(30)]
    losses = np.array([losses_and_gradients(table, examples, one)[0] for one in found])
    assert (np.diff(losses, axis=0) < 1e-5).all()
    assert (losses[1] < losses[0]).all()
    np.testing.assert_array_equal(found[0], start)


def test_rounding_errors_larger_than_the_penalty(table, examples):
    """As on a GPU with few distinct rows, where the curvature was not positive definite in 32 bits."""

    def rounded(total):
        if total.dtype == torch.float32 and total.shape[-2:] == (table.shape[1],) * 2:
            return total - total.diagonal(dim1=1, dim2=2).amax() * torch.eye(table.shape[1])
        return total

    _, expected = fitted_to_all(table, examples)
    _, found = fitted_to_all(table, examples, total=rounded)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3 * expected.abs().max().item())
    with pytest.raises(torch.linalg.LinAlgError):
        fitted_to_all(table, examples, total=lambda total: -total)


def test_bound_is_reused_until_the_loss_grows(table, examples):
    weights, classes = examples
    expected, own = fitted_to_all(table, examples, 4)
    lighter = 0.9 * weights, classes
    found, kept = fitted_to_all(table, lighter, 4, bound=own)
    assert torch.equal(kept, own)
    start = losses_and_gradients(table, lighter, torch.zeros_like(found))[0]
    assert (losses_and_gradients(table, lighter, found)[0] < 0.9 * start).all()
    # Steps of the second run are a thousand times too long, or undefined: it takes its own bound.
    for factor in (1000, torch.nan):
        wrong = own.clone()
        wrong[1] *= factor
        found, mended = fitted_to_all(table, examples, 4, bound=wrong)
        torch.testing.assert_close(mended, own)
        torch.testing.assert_close(found, expected)


def test_runs_are_independent(table, examples, rows, classes, weights):
    together, _ = fitted_to_all(table, examples)
    by_labels, kernel = fitted(rows, classes, weights), (rows @ rows.mT)[:, None, None]
    for run in (slice(0, 1), slice(1, 2)):
        alone, _ = fitted_to_all(table, examples, runs=run)
        np.testing.assert_allclose(table @ alone, table @ together[run], atol=1e-4)
        alone = fitted(rows[run], classes[run], weights[run])
        np.testing.assert_allclose(kernel[run] @ alone, kernel[run] @ by_labels[run], atol=3e-4)


def test_nodes_of_weight_zero_are_ignored(table, examples):
    weights, classes = examples
    found, _ = fitted_to_all(table, examples)
    unweighted = weights == 0
    assert unweighted.any(1).all()
    others = torch.where(unweighted, (classes + 1) % CLASSES, classes)
    torch.testing.assert_close(fitted_to_all(table, (weights, others))[0], found)
    unused = unweighted.all(0)
    assert unused.any()
    moved = torch.where(unused[:, None], 100 * table, table)
    torch.testing.assert_close(fitted_to_all(moved, examples)[0], found)
    torch.testing.assert_close(fitted_to_all(table[~unused], (weights[:, ~unused], classes[:, ~unused]))[0], found)


def test_probabilities_at_a_temperature_by_hand():
    rows = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    weight = torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], [[2.0, 1.0, 0.0], [-1.0, 0.0, 3.0]]])
    logits = torch.tensor([[[1.0, 2, 4], [0, 1, 1], [3, -1, 5]], [[0, 1, 6], [-1, 0, 3], [7, 3, -3]]])
    torch.testing.assert_close(probabilities_of(rows, weight), logits.softmax(-1))
    cooled = probabilities_of(rows, weight, torch.tensor([2.0, 0.5]))
    by_hand = np.exp([1 / 2, 2 / 2, 4 / 2])
    np.testing.assert_allclose(cooled[0, 0], by_hand / by_hand.sum(), rtol=1e-6)
    torch.testing.assert_close(cooled[1], (2 * logits[1]).softmax(-1))
