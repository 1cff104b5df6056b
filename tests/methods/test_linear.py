"""Logistic regression on features: alone, of the near and of the far neighbourhood."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

METHODS = ("logistic", "sgc", "ppr")


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def rows_of(name, graph, propagation):
    """What each method sees, by its formula."""
    start = unit(graph.features.toarray())
    if name == "logistic":
        return start
    if name == "sgc":
        return unit(propagation @ propagation @ start)
    place = start
    for _ in range(20):
        place = 0.9 * propagation @ place + 0.1 * start
    return unit(place)


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=60, weighted=True, unreached=True)


def splits_of(graph):
    reached = Graph(graph.adjacency, labels=np.where(np.arange(60) < 55, graph.labels, -1))
    return draw_splits(reached, [4, 2, 1], runs=2, seed=0) + draw_splits(reached, 2, runs=1, seed=1)


@pytest.mark.parametrize("name", METHODS)
def test_equals_scikit_learn(name, graph, dense_propagation):
    rows = rows_of(name, graph, np.asarray(dense_propagation(graph)))
    with_constant = np.column_stack([rows, np.ones(60)])
    splits = splits_of(graph)
    found = create(name).fit(observe(graph, splits, seed=0)).probabilities
    for run, split in enumerate(splits):
        # mean loss + 1e-4 |W|² has its minimum where C Σ loss + |W|² / 2 has.
        strength = 1 / (2 * 1e-4 * len(split.train))
        reference = LogisticRegression(C=strength, fit_intercept=False, tol=1e-9, max_iter=10_000)
        reference.fit(with_constant[split.train], graph.labels[split.train])
        np.testing.assert_allclose(found[run], reference.predict_proba(with_constant), atol=1e-3)


def test_many_labels(graph, monkeypatch):
    task = observe(graph, draw_splits(graph, 14, runs=2, seed=0), seed=0)
    few = create("sgc", penalty=1e-3).fit(task).probabilities
    monkeypatch.setattr("mtgcn.linalg.softmax_regression.STACK_SIZE", 32)
    monkeypatch.setattr("mtgcn.methods.linear.fit_to_labels", None)  # whose cost is quadratic in the labels
    np.testing.assert_allclose(create("sgc", penalty=1e-3).fit(task).probabilities, few, atol=1e-2)


def test_without_steps_all_are_logistic(graph):
    task = observe(graph, splits_of(graph), seed=0)
    expected = create("logistic").fit(task).probabilities
    for name in ("sgc", "ppr"):
        np.testing.assert_allclose(create(name, steps=0).fit(task).probabilities, expected, atol=1e-6)
    always_back = create("ppr", restart=1).fit(task).probabilities
    np.testing.assert_allclose(always_back, expected, atol=1e-3)
    without_restarts = create("ppr", restart=0, steps=2).fit(task).probabilities
    np.testing.assert_allclose(without_restarts, create("sgc").fit(task).probabilities, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_settings_matter(name, graph):
    task = observe(graph, splits_of(graph), seed=0)
    usual = create(name).fit(task).probabilities
    for settings in ({"penalty": 1e-2}, {"feature_scaling": "sum"}, {"feature_scaling": "none"}):
        assert np.abs(create(name, **settings).fit(task).probabilities - usual).max() > 1e-2
    strong = create(name, penalty=1e4).fit(task).probabilities
    np.testing.assert_allclose(strong, 1 / 3, atol=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_apply_to_other_graphs(name, graph, make_graph):
    method, order = create(name), np.random.default_rng(0).permutation(60)
    prediction = method.fit(observe(graph, splits_of(graph), seed=0))
    assert {key: len(values) for key, values in prediction.parameters.items()} == {"weight": 3, "bias": 3}
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], class_names=graph.class_names)
    found = method.apply(prediction.parameters, shuffled)
    assert found.shape == (3, 1, 60, 3)
    np.testing.assert_allclose(method.combined(found), prediction.probabilities[:, order], atol=1e-6)

    unseen = make_graph(nodes=30, seed=5, sparse=False)
    assert method.apply(prediction.parameters, unseen).shape == (3, 1, 30, 3)
    narrower = replace(unseen, features=unseen.features[:, :-1])
    with pytest.raises(InputError, match="trained weights of 12 features where this graph has 11; use a graph with"):
        method.apply(prediction.parameters, narrower)


def test_runs_cut_into_chunks_are_the_same(graph):
    task = observe(graph, splits_of(graph), seed=0)
    together, apart = create("ppr").fit(task), fit_in_chunks(create("ppr"), task, memory_budget=1)
    np.testing.assert_allclose(apart.probabilities, together.probabilities, atol=1e-4)
    np.testing.assert_allclose(apart.parameters["weight"], together.parameters["weight"], atol=1e-2)
