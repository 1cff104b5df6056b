"""The contract of every method in the registry."""

import dataclasses
import re
import sys
import typing

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, Method, create, karate_club
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

pytestmark = pytest.mark.parametrize("name", METHODS)

RUNS, LABELS_PER_CLASS, VALIDATION = 2, 2, 6
QUICK_EPOCHS = 6


def quick(name, **settings):
    """The method with few epochs and those of `settings` that it has."""
    known = {one.name: one for one in dataclasses.fields(METHODS[name])}
    chosen = {key: QUICK_EPOCHS for key in known if "epochs" in key}
    return create(name, **chosen | {key: value for key, value in settings.items() if key in known})


def without_chance(name):
    """The method with nothing drawn for single nodes, as far as its settings allow."""
    return quick(name, dropout=0.0, input_dropout=0.0, node_dropout=0.0, order="together")


# Walks, and the numbers that skip-gram starts from, are drawn for one node after the other.
DRAWS_FOR_NODES = {"deepwalk"}


def splits_of(graph):
    return draw_splits(graph, LABELS_PER_CLASS, RUNS, seed=0, validation=VALIDATION)


def fit(method, graph, splits=None, seed=0):
    splits = splits_of(graph) if splits is None else splits
    return method.fit(observe(graph, splits, seed, with_validation=method.uses_validation))


def assert_is_distribution(prediction, graph):
    probabilities = prediction.probabilities
    assert probabilities.shape == (RUNS, graph.num_nodes, graph.num_classes)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)


@pytest.fixture(autouse=True, scope="module")
def empty_cache(tmp_path_factory):
    """What a method keeps between fits is not looked for in, or added to, the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def graph(make_graph):
    return make_graph(nodes=60, features=12)


def test_frozen_dataclass(name):
    method = create(name)
    assert isinstance(method, Method)
    assert dataclasses.is_dataclass(method)
    assert dataclasses.replace(method) == method
    for one in dataclasses.fields(method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, one.name, getattr(method, one.name))


def test_docstring_has_formula(name):
    assert re.search(r"^    .* = ", sys.modules[METHODS[name].__module__].__doc__ + METHODS[name].__doc__, re.MULTILINE)


def test_karate_club(name):
    task, accuracy = karate_club(with_validation=METHODS[name].uses_validation)
    epochs = {"planetoid": {"epochs": 200}, "multi-stage": {"epochs": 100}, "m3s": {"epochs": 100}}
    assert accuracy(create(name, **epochs.get(name, {})).fit(task)) == 25 / 26


def test_unknown_setting_is_refused(name):
    with pytest.raises(InputError, match=f"unknown setting of {name.replace('+', '.')} 'colour'"):
        create(name, colour="blue")


def test_unknown_choice_is_refused(name):
    choices = typing.get_type_hints(METHODS[name])
    for key in (key for key, hint in choices.items() if typing.get_origin(hint) is typing.Literal):
        with pytest.raises(InputError, match=f"{key} is 'banana'"):
            create(name, **{key: "banana"})


def test_probabilities_sum_to_one(name, graph):
    assert_is_distribution(fit(quick(name), graph), graph)


@pytest.mark.slow
def test_learns_easy_classes(name, make_graph):
    # A method that mixes up nodes, classes or runs guesses, and a guess is right once in three.
    graph = make_graph(nodes=60, features=12, easy=True)
    probabilities = fit(create(name), graph).probabilities
    right = [
        probabilities[run, split.test].argmax(1) == graph.labels[split.test]
        for run, split in enumerate(splits_of(graph))
    ]
    assert np.mean(right) > 0.8


def test_same_seed_same_prediction(name, graph):
    torch.manual_seed(1)
    first = fit(quick(name), graph)
    torch.manual_seed(2)  # the state of the world's generators is not part of the seed
    again = fit(quick(name), graph)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert first.history.keys() == again.history.keys()
    for key, values in first.history.items():
        assert np.array_equal(values, again.history[key], equal_nan=True)


def test_hidden_labels_do_not_matter(name, graph):
    method, splits = quick(name), splits_of(graph)
    given = [[*split.train, *(split.validation if method.uses_validation else [])] for split in splits]
    hidden = np.setdiff1d(graph.known, np.concatenate(given))
    labels = graph.labels.copy()
    labels[hidden] = np.random.default_rng(0).permutation(labels[hidden])
    assert (labels != graph.labels).sum() > len(hidden) / 3
    other = Graph(graph.adjacency, graph.features, labels)
    assert np.array_equal(fit(method, graph, splits).probabilities, fit(method, other, splits).probabilities)


def test_fit_is_order_invariant(name, graph):
    if name in DRAWS_FOR_NODES:
        pytest.skip(f"what {name} draws depends on where a node stands")
    order = np.random.default_rng(0).permutation(graph.num_nodes)  # the node that stands at each place
    place = np.argsort(order)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], graph.labels[order])
    splits = splits_of(graph)
    moved = [Split(place[split.train], place[split.validation], place[split.test]) for split in splits]
    method = without_chance(name)
    if method.draws_by_place:
        pytest.skip("moved to another place, a node draws other random numbers")
    expected = fit(method, graph, splits).probabilities[:, order]
    np.testing.assert_allclose(fit(method, shuffled, moved).probabilities, expected, atol=1e-4)
    assert np.abs(np.diff(expected, axis=1)).max() > 1e-3  # nodes are not all alike


@pytest.mark.parametrize("unit", [0.01, 2.0**20])
def test_unit_of_weights_has_no_effect(name, graph, make_graph, unit):
    method = quick(name)
    given = graph if unit == 0.01 else make_graph(nodes=60, weighted=True)
    expected = fit(method, given).probabilities
    scaled = Graph(given.adjacency * np.float32(unit), given.features, given.labels)
    np.testing.assert_allclose(fit(method, scaled).probabilities, expected, atol=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_dtype_and_mode_of_the_caller_have_no_effect(name, graph, mode):
    method = quick(name)
    expected = fit(method, graph).probabilities
    torch.set_default_dtype(torch.float64)
    try:
        with mode():
            found = fit(method, Graph(graph.adjacency, graph.features, graph.labels)).probabilities
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(found, expected)


def test_runs_are_independent(name, graph):
    method = quick(name)
    task = observe(graph, splits_of(graph), seed=0, with_validation=method.uses_validation)
    apart = np.concatenate([method.fit(chunk).probabilities for chunk in task.chunks(1)])
    np.testing.assert_allclose(apart, method.fit(task).probabilities, atol=1e-4)
    assert not np.allclose(apart[0], apart[1])


def test_dense_equals_sparse_features(name, graph):
    dense = Graph(graph.adjacency, graph.features.toarray(), graph.labels)
    assert sp.issparse(graph.features)
    answers = [fit(without_chance(name), one).probabilities for one in (graph, dense)]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-4)


# ---- one graph with components without labels, lone nodes, weights and self-edges

USES_EDGES_ALONE = {"deepwalk", "lp", "planetoid", "poisson"}  # planetoid uses features if there are some


@pytest.fixture(scope="module")
def awkward(make_graph):
    """Two components of 30 nodes, a weighted triangle of unknown classes, a lone node without features and one with a
    edge to itself alone."""
    halves = [make_graph(nodes=30, features=8, seed=seed, weighted=True) for seed in (0, 1)]
    triangle = sp.csr_array(np.array([[0, 0.5, 2], [0.5, 0, 1e-3], [2, 1e-3, 0]]))
    lone = sp.csr_array(np.diag([0.0, 1.5]))
    values = np.random.default_rng(0).random((5, 8))
    values[3] = 0
    return Graph(
        adjacency=sp.block_diag([*(half.adjacency for half in halves), triangle, lone], format="csr"),
        features=sp.vstack([*(half.features for half in halves), sp.csr_array(values)], format="csr"),
        labels=np.concatenate([*(half.labels for half in halves), np.full(5, -1)]),
    )


@pytest.mark.parametrize("features", ["sparse", pytest.param("dense", marks=pytest.mark.slow), "none"])
def test_awkward_graph(name, awkward, features):
    values = {"sparse": awkward.features, "dense": awkward.features.toarray(), "none": None}[features]
    graph = Graph(awkward.adjacency, values, awkward.labels)
    if features == "none" and name not in USES_EDGES_ALONE:
        with pytest.raises(InputError, match="features"):
            fit(quick(name), graph)
    else:
        assert_is_distribution(fit(quick(name), graph), graph)
