"""Logistic regression on propagated features, self-trained or not; correct-and-smooth."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import draw_splits
from mtgcn.task import observe

PLAIN = ("logistic", "sgc", "ppr")
SELF_TRAINED = ("logistic-self", "sgc-self", "ppr-self")


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 1e-5, lengths, 1)


def rows_of(name, graph, propagation):
    """R of each method, by its formula."""
    start = unit(graph.features.toarray())
    place = propagation @ propagation @ start if name == "sgc" else start
    if name == "ppr":
        for _ in range(20):
            place = 0.9 * propagation @ place + 0.1 * start
    place = unit(place)
    return np.column_stack([unit(place - place.mean(0)), np.ones(len(place))])


def without_temperature(probabilities):
    """Logits of each run divided by their size."""
    logits = np.log(np.asarray(probabilities, dtype=np.float64))
    logits -= logits.mean(-1, keepdims=True)
    return logits / np.sqrt(np.square(logits).mean((-1, -2), keepdims=True))


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=60, weighted=True, unreached=True)


def splits_of(graph):
    reached = Graph(graph.adjacency, labels=np.where(np.arange(60) < 55, graph.labels, -1))
    return draw_splits(reached, [4, 2, 1], runs=2, seed=0) + draw_splits(reached, 2, runs=1, seed=1)


@pytest.fixture
def task(graph):
    return observe(graph, splits_of(graph), seed=0)


@pytest.mark.parametrize("name", PLAIN)
def test_equals_scikit_learn(name, graph, task, dense_propagation):
    rows = rows_of(name, graph, np.asarray(dense_propagation(graph)))
    found = without_temperature(create(name, penalty=1e-3).fit(task).probabilities)
    for run, split in enumerate(splits_of(graph)):
        # mean loss + 1e-3 |W|² has its minimum where C Σ loss + |W|² / 2 has.
        strength = 1 / (2 * 1e-3 * len(split.train))
        reference = LogisticRegression(C=strength, fit_intercept=False, tol=1e-9, max_iter=10_000)
        reference.fit(rows[split.train], graph.labels[split.train])
        np.testing.assert_allclose(found[run], without_temperature(reference.predict_proba(rows)), atol=2e-3)


@pytest.mark.parametrize("name", PLAIN)
def test_labels_choose_the_penalty(name, task):
    found = without_temperature(create(name).fit(task).probabilities)
    fixed = [
        without_temperature(create(name, penalty=penalty).fit(task).probabilities)
        for penalty in (1e-5, 1e-4, 1e-3, 1e-2)
    ]
    differences = np.array([np.abs(found - one).max((1, 2)) for one in fixed])  # penalties, runs
    np.testing.assert_allclose(differences.min(0), 0, atol=1e-5)
    assert (differences.max(0) > 1e-2).all()


def test_one_label_per_class(graph):
    task = observe(graph, draw_splits(graph, 1, runs=2, seed=0), seed=0)
    for name in PLAIN + SELF_TRAINED:
        np.testing.assert_allclose(create(name).fit(task).probabilities.sum(2), 1, atol=1e-5)


def test_many_labels(graph, monkeypatch):
    task = observe(graph, draw_splits(graph, 14, runs=2, seed=0), seed=0)
    few = create("sgc", penalty=1e-3).fit(task).probabilities
    monkeypatch.setattr("mtgcn.linalg.softmax_regression.STACK_SIZE", 32)
    monkeypatch.setattr("mtgcn.methods.mt_plus.cross_validation.fit_to_labels", None)  # its cost is quadratic
    found = create("sgc", penalty=1e-3).fit(task).probabilities
    np.testing.assert_allclose(without_temperature(found), without_temperature(few), atol=2e-2)


def test_without_steps_all_are_logistic(task):
    expected = create("logistic").fit(task).probabilities
    for name in ("sgc", "ppr"):
        np.testing.assert_allclose(create(name, steps=0).fit(task).probabilities, expected, atol=1e-6)
    always_back = create("ppr", restart=1).fit(task).probabilities
    np.testing.assert_allclose(always_back, expected, atol=1e-3)
    without_restarts = create("ppr", restart=0, steps=2).fit(task).probabilities
    np.testing.assert_allclose(without_restarts, create("sgc").fit(task).probabilities, atol=1e-6)


@pytest.mark.parametrize("name", PLAIN + SELF_TRAINED)
def test_directions_reduce_the_features(name, task):
    assert create(name, directions=3).fit(task).parameters is None  # only a single run is applied to other graphs
    prediction = create(name, directions=3).fit(task.select(np.array([0])))
    assert prediction.parameters["features/basis"].shape == (12, 3)
    assert prediction.parameters["weight"].shape == (1, 4, 3)
    assert create(name).bytes_per_run(task) > create(name, directions=3).bytes_per_run(task)


@pytest.mark.parametrize("name", SELF_TRAINED)
def test_without_rounds_is_plain(name, task):
    expected = create(name.removesuffix("-self")).fit(task)
    found = create(name, rounds=0).fit(task)
    assert np.array_equal(found.probabilities, expected.probabilities)
    assert found.pseudo_labelled_at is None


@pytest.mark.parametrize("name", SELF_TRAINED)
def test_settles_where_its_formula_does(name, make_graph, dense_propagation):
    """After many rounds, a refit to the pseudo labels of the last prediction changes nothing."""
    graph = make_graph(nodes=60, easy=True)
    [split] = splits = draw_splits(graph, 2, runs=1, seed=0)
    method = create(name, rounds=100, penalty=1e-2, teaching_weight=0.5)
    prediction = method.fit(observe(graph, splits, seed=0))
    probabilities = prediction.probabilities[0].astype(np.float64)

    unlabelled = np.setdiff1d(np.arange(60), split.train)
    shares = probabilities[unlabelled].mean(0)
    corrected = probabilities * (1 / 3 / shares) ** 0.3  # two labels per class: equal shares among the labels
    corrected /= corrected.sum(1, keepdims=True)
    confidence, classes = corrected.max(1), corrected.argmax(1)
    pseudo = unlabelled[confidence[unlabelled] >= confidence[unlabelled].mean()]
    share = 1 / np.bincount(classes[pseudo], minlength=3)[classes[pseudo]]  # few labels: classes balanced
    nodes = np.concatenate([split.train, pseudo])
    weights = np.concatenate([np.full(6, 1 / 6), 0.5 * share / share.sum()])
    rows = rows_of(name.removesuffix("-self"), graph, np.asarray(dense_propagation(graph)))
    reference = LogisticRegression(C=1 / (2 * 1e-2), fit_intercept=False, tol=1e-9, max_iter=10_000)
    reference.fit(rows[nodes], np.concatenate([graph.labels[split.train], classes[pseudo]]), weights)
    np.testing.assert_allclose(probabilities, reference.predict_proba(rows), atol=5e-3)

    assert set(pseudo) <= set(np.flatnonzero(prediction.pseudo_labelled_at[0]))
    assert prediction.history["pseudo labels"].shape == (100, 1, 1)
    assert prediction.history["pseudo labels"][-1] == len(pseudo)


# Correct and Smooth


def adjacency_of(graph):
    """S by its formula."""
    weights = graph.adjacency.toarray().astype(np.float64)
    degree = weights.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return root[:, None] * weights * root


def corrected_and_smoothed(adjacency, predicted, nodes, classes, alphas, steps):
    """One run, line by line as the paper has it."""
    labels = np.eye(predicted.shape[1])[classes]
    error = np.zeros_like(predicted)
    error[nodes] = labels - predicted[nodes]
    place = error
    for _ in range(steps):
        place = np.clip(alphas[0] * adjacency @ place + (1 - alphas[0]) * error, -1, 1)
    usual = np.abs(error[nodes]).sum(1).mean()
    corrected = predicted.copy()
    for node, moved in enumerate(place):
        size = np.abs(moved).sum()
        if size:
            corrected[node] += moved * (usual / size if usual / size <= 1000 else 1)
    corrected[nodes] = labels
    place = corrected
    for _ in range(steps):
        place = np.clip(alphas[1] * adjacency @ place + (1 - alphas[1]) * corrected, 0, 1)
    return place / place.sum(1, keepdims=True)


@pytest.mark.parametrize(("alphas", "steps"), [((0.98, 0.65), 50), ((0.5, 0.9), 3), ((0.5, 0.9), 0)])
def test_correct_and_smooth_equals_the_formula(make_graph, alphas, steps):
    given = make_graph(nodes=60, weighted=True, unreached=True)
    graph = Graph(given.adjacency, given.features, np.where(np.arange(60) < 55, given.labels, -1))
    splits = draw_splits(graph, [4, 2, 1], runs=2, seed=0) + draw_splits(graph, 1, runs=1, seed=1)
    task = observe(graph, splits, seed=0)
    settings = {"correction_alpha": alphas[0], "smoothing_alpha": alphas[1]}
    settings |= {"correction_steps": steps, "smoothing_steps": steps}
    found = create("correct-and-smooth", penalty=1e-2, **settings).fit(task)
    assert found.parameters is None
    predicted = create("logistic", penalty=1e-2).fit(task).probabilities.astype(np.float64)
    for run, split in enumerate(splits):
        arguments = adjacency_of(graph), predicted[run], split.train, graph.labels[split.train], alphas, steps
        np.testing.assert_allclose(found.probabilities[run], corrected_and_smoothed(*arguments), atol=1e-4)
