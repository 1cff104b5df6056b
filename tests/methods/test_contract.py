"""The contract of every method in the registry, and of mt-gcn with every backbone."""

import dataclasses
import re
import sys
import typing
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, Method, create, karate_club
from mtgcn.nn.backbones import BACKBONES
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe
from own_modules import WeightedSum

pytestmark = pytest.mark.usefixtures("empty_cache")
each_method = pytest.mark.parametrize("name", METHODS)
BACKBONE_OF = {f"mt-gcn, {name}": name for name in BACKBONES if name != "gcn"} | {"mt-gcn, own module": WeightedSum}
each = pytest.mark.parametrize("name", [*METHODS, *BACKBONE_OF])

RUNS, LABELS_PER_CLASS, VALIDATION = 2, 2, 6
# Walks, and the numbers that skip-gram starts from, are drawn for one node after the other.
DRAWS_FOR_NODES = {"deepwalk"}


def quick(name, epochs=6, **settings):
    """The method with few epochs and those of `settings` that it has."""
    backbone = BACKBONE_OF.get(name)
    name = "mt-gcn" if backbone else name
    known = {one.name: one.default for one in dataclasses.fields(METHODS[name])}
    chosen = {key: min(epochs, default) for key, default in known.items() if "epochs" in key}
    if backbone is not WeightedSum:  # a module decides the rest by itself
        chosen |= {key: value for key, value in settings.items() if key in known}
    return create(name, **chosen, **({"backbone": backbone} if backbone else {}))


def without_chance(name):
    """The method with nothing drawn for single nodes, as far as its settings allow."""
    return quick(name, dropout=0.0, input_dropout=0.0, node_dropout=0.0, order="together")


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


@pytest.fixture(scope="module")
def graph(make_graph):
    return make_graph(nodes=60, features=12)


@pytest.fixture(scope="module")
def fitted(graph):
    """The quick fit of each method to the graph, with which tests compare another."""
    return cache(lambda name: fit(quick(name), graph))


@pytest.fixture(scope="module")
def fitted_without_chance(graph):
    return cache(lambda name: fit(without_chance(name), graph).probabilities)


@each_method
def test_frozen_dataclass(name):
    method = create(name)
    assert isinstance(method, Method)
    assert dataclasses.is_dataclass(method)
    assert dataclasses.replace(method) == method
    for one in dataclasses.fields(method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, one.name, getattr(method, one.name))


@each_method
def test_docstring_has_formula(name):
    assert re.search(r"^    .* = ", sys.modules[METHODS[name].__module__].__doc__ + METHODS[name].__doc__, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if "graphs" in kind.arena_groups])
def test_karate_club(name):
    task, accuracy = karate_club(with_validation=METHODS[name].uses_validation)
    assert accuracy(quick(name, epochs=200 if name == "chebyshev" else 100).fit(task)) >= 25 / 26


@each_method
def test_unknown_settings_are_refused(name):
    with pytest.raises(InputError, match=f"unknown setting of {name.replace('+', '.')} 'colour'"):
        create(name, colour="blue")
    choices = typing.get_type_hints(METHODS[name])
    for key in (key for key, hint in choices.items() if typing.get_origin(hint) is typing.Literal):
        with pytest.raises(InputError, match=f"{key} is 'banana'"):
            create(name, **{key: "banana"})


@each
def test_probabilities_sum_to_one(name, graph, fitted):
    assert_is_distribution(fitted(name), graph)


@pytest.mark.slow
@each
def test_learns_easy_classes(name, make_graph):
    # A method that mixes up nodes, classes or runs guesses, and a guess is right once in three.
    graph = make_graph(nodes=60, features=12, easy=True)
    probabilities = fit(quick(name, epochs=50 if name == "planetoid" else 30), graph).probabilities
    right = [
        probabilities[run, split.test].argmax(1) == graph.labels[split.test]
        for run, split in enumerate(splits_of(graph))
    ]
    assert np.mean(right) > 0.75


@each
def test_same_seed_same_prediction(name, graph, fitted):
    first = fitted(name)
    torch.manual_seed(2)  # the state of the world's generators is not part of the seed
    again = fit(quick(name), graph)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert first.history.keys() == again.history.keys()
    for key, values in first.history.items():
        assert np.array_equal(values, again.history[key], equal_nan=True)


@each
def test_hidden_labels_do_not_matter(name, graph, fitted):
    method, splits = quick(name), splits_of(graph)
    given = [[*split.train, *(split.validation if method.uses_validation else [])] for split in splits]
    hidden = np.setdiff1d(graph.known, np.concatenate(given))
    labels = graph.labels.copy()
    labels[hidden] = np.random.default_rng(0).permutation(labels[hidden])
    assert (labels != graph.labels).sum() > len(hidden) / 3
    other = Graph(graph.adjacency, graph.features, labels)
    assert np.array_equal(fitted(name).probabilities, fit(method, other, splits).probabilities)


@pytest.mark.slow
@each
def test_fit_is_order_invariant(name, graph, fitted_without_chance):
    if name in DRAWS_FOR_NODES:
        pytest.skip(f"what {name} draws depends on where a node stands")
    order = np.random.default_rng(0).permutation(graph.num_nodes)  # the node that stands at each place
    place = np.argsort(order)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], graph.labels[order])
    moved = [Split(place[split.train], place[split.validation], place[split.test]) for split in splits_of(graph)]
    method = without_chance(name)
    if method.draws_by_place:
        pytest.skip("moved to another place, a node draws other random numbers")
    expected = fitted_without_chance(name)[:, order]
    np.testing.assert_allclose(fit(method, shuffled, moved).probabilities, expected, atol=1e-4)
    assert np.abs(np.diff(expected, axis=1)).max() > 1e-3  # nodes are not all alike


@pytest.mark.slow
@pytest.mark.parametrize("unit", [0.01, 2.0**20])
@each
def test_unit_of_weights_has_no_effect(name, graph, fitted, make_graph, unit):
    given = graph if unit == 0.01 else make_graph(nodes=60, weighted=True)
    expected = fitted(name) if unit == 0.01 else fit(quick(name), given)
    scaled = Graph(given.adjacency * np.float32(unit), given.features, given.labels)
    np.testing.assert_allclose(fit(quick(name), scaled).probabilities, expected.probabilities, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@each
def test_dtype_and_mode_of_the_caller_have_no_effect(name, graph, fitted, mode):
    expected = fitted(name).probabilities
    torch.set_default_dtype(torch.float64)
    try:
        with mode():
            found = fit(quick(name), Graph(graph.adjacency, graph.features, graph.labels)).probabilities
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(found, expected)


APPLIED = [name for name, kind in METHODS.items() if kind.apply is not Method.apply]


@pytest.mark.parametrize("name", [*APPLIED, *BACKBONE_OF])
def test_apply_to_other_graphs(name, graph, make_graph):
    method, order = quick(name), np.random.default_rng(0).permutation(graph.num_nodes)
    prediction = fit(method, graph, splits_of(graph)[:1])
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], class_names=graph.class_names)
    found = method.apply(prediction.parameters, shuffled)
    if not method.peers_of_their_graph:
        combined = method.combined(found, prediction.parameters)
        np.testing.assert_allclose(combined, prediction.probabilities[:, order], atol=1e-5)
    if name in BACKBONE_OF:
        np.testing.assert_allclose(found, prediction.peers[:, :, order], atol=1e-5)

    unseen = make_graph(nodes=30, features=12, seed=5, sparse=False)
    other = method.apply(prediction.parameters, unseen)
    assert other.shape == (*found.shape[:2], 30, 3)
    np.testing.assert_allclose(other.sum(-1), 1, atol=1e-5)
    with pytest.raises(InputError, match="features"):
        method.apply(prediction.parameters, dataclasses.replace(unseen, features=unseen.features[:, :-1]))


@pytest.mark.parametrize("name", sorted(METHODS.keys() - set(APPLIED)))
def test_apply_without_parameters_is_refused(name, graph, fitted):
    assert fitted(name).parameters is None
    with pytest.raises(InputError, match="has no trained parameters for other graphs; fit it on"):
        quick(name).apply({}, graph)


@pytest.mark.slow
@each
def test_runs_are_independent(name, graph, fitted):
    method = quick(name)
    task = observe(graph, splits_of(graph), seed=0, with_validation=method.uses_validation)
    together, apart = fitted(name), [method.fit(chunk) for chunk in task.chunks(1)]
    np.testing.assert_allclose(together.probabilities, np.concatenate([one.probabilities for one in apart]), atol=1e-4)
    assert not np.allclose(*together.probabilities)
    for key, values in together.history.items():
        parts = np.concatenate([one.history[key] for one in apart], axis=1)
        np.testing.assert_allclose(parts, values, atol=1e-4, rtol=1e-3)
    if together.pseudo_labelled_at is not None:
        assert np.array_equal(together.pseudo_labelled_at, np.concatenate([one.pseudo_labelled_at for one in apart]))


@pytest.mark.slow
@each
def test_dense_equals_sparse_features(name, graph, fitted_without_chance):
    dense = Graph(graph.adjacency, graph.features.toarray(), graph.labels)
    assert sp.issparse(graph.features)
    found = fit(without_chance(name), dense).probabilities
    np.testing.assert_allclose(found, fitted_without_chance(name), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@each
def test_awkward_graph(name, awkward, features):
    values = {"sparse": awkward.features, "dense": awkward.features.toarray(), "none": None}[features]
    graph = Graph(awkward.adjacency, values, awkward.labels)
    if features == "none" and getattr(METHODS.get(name), "uses_features", True):
        with pytest.raises(InputError, match="features"):
            fit(quick(name), graph)
    else:
        assert_is_distribution(fit(quick(name), graph), graph)
