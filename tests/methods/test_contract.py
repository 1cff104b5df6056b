"""What holds for every method. A method is tested by standing in the registry; nothing needs to be added here."""

import dataclasses
import re
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, Method, create
from mtgcn.settings import described_settings
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

pytestmark = pytest.mark.parametrize("name", METHODS)

RUNS, LABELS_PER_CLASS, VALIDATION = 2, 2, 6
QUICK_EPOCHS = 6


def quick(name, **settings):
    """The method with few epochs, and with those of `settings` that it has."""
    known = {one.name: one for one in dataclasses.fields(METHODS[name])}
    chosen = {key: QUICK_EPOCHS for key in known if "epochs" in key}
    return create(name, **chosen | {key: value for key, value in settings.items() if key in known})


def without_chance(name):
    """The method with nothing drawn for single nodes, as far as its settings allow."""
    return quick(name, dropout=0.0, input_dropout=0.0, order="together")


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


def test_it_is_a_frozen_dataclass_of_settings(name):
    method = create(name)
    assert isinstance(method, Method)
    assert dataclasses.is_dataclass(method)
    assert dataclasses.replace(method) == method
    for one in dataclasses.fields(method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, one.name, getattr(method, one.name))


def test_it_explains_itself(name):
    method = METHODS[name]
    example, idea = method.__doc__, sys.modules[method.__module__].__doc__
    assert re.search(r"^    .* = ", idea + example, re.MULTILINE), "no formula"
    assert re.search(rf'round\(accuracy\(create\("{re.escape(name)}".*\)\.fit\(task\)\), 2\)\n    0\.\d', example)


def test_its_page_names_its_settings(name):
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    [section] = [text for text in page.split("\n## ") if text.startswith(f"`{name}`")]
    settings = {one.name for one in described_settings(METHODS[name])}
    rows = "".join(re.findall(r"^\| setting \|.*\n((?:\|.*\n)*)", section, re.MULTILINE)).splitlines()
    listed = {word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert listed - METHODS.keys() <= settings  # "and those of `gcn`" is in the tables, too
    assert settings <= set(re.findall(r"`(\w+)`", page))


def test_a_setting_it_does_not_have_is_refused(name):
    with pytest.raises(InputError, match=f"unknown setting of {name.replace('+', '.')} 'colour'"):
        create(name, colour="blue")


def test_a_choice_it_does_not_offer_is_refused(name):
    choices = typing.get_type_hints(METHODS[name])
    for key in (key for key, hint in choices.items() if typing.get_origin(hint) is typing.Literal):
        with pytest.raises(InputError, match=f"{key} is 'banana'"):
            create(name, **{key: "banana"})


def test_fewer_than_no_epochs_are_refused(name):
    for key in (one.name for one in dataclasses.fields(METHODS[name]) if "epochs" in one.name):
        with pytest.raises(InputError, match=f"{key} is -1"):
            create(name, **{key: -1})


def test_every_row_of_probabilities_sums_to_one(name, graph):
    assert_is_distribution(fit(quick(name), graph), graph)


@pytest.mark.slow
def test_it_learns_classes_that_are_easy_to_tell_apart(name, make_graph):
    # A method that mixes up nodes, classes or runs guesses, and a guess is right once in three.
    graph = make_graph(nodes=60, features=12, easy=True)
    probabilities = fit(create(name), graph).probabilities
    right = [
        probabilities[run, split.test].argmax(1) == graph.labels[split.test]
        for run, split in enumerate(splits_of(graph))
    ]
    assert np.mean(right) > 0.8


def test_the_same_seed_gives_the_same_answer_bit_for_bit(name, graph):
    torch.manual_seed(1)
    first = fit(quick(name), graph)
    torch.manual_seed(2)  # the state of the world's generators is not part of the seed
    again = fit(quick(name), graph)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert first.history.keys() == again.history.keys()
    for key, values in first.history.items():
        assert np.array_equal(values, again.history[key], equal_nan=True)


def test_permuting_hidden_labels_changes_nothing(name, graph):
    method, splits = quick(name), splits_of(graph)
    given = [[*split.train, *(split.validation if method.uses_validation else [])] for split in splits]
    hidden = np.setdiff1d(graph.known, np.concatenate(given))
    labels = graph.labels.copy()
    labels[hidden] = np.random.default_rng(0).permutation(labels[hidden])
    assert (labels != graph.labels).sum() > len(hidden) / 3
    other = Graph(graph.adjacency, graph.features, labels)
    assert np.array_equal(fit(method, graph, splits).probabilities, fit(method, other, splits).probabilities)


def test_shuffling_nodes_shuffles_the_answer(name, graph):
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


def test_runs_do_not_depend_on_their_neighbours_in_the_stack(name, graph):
    method = quick(name)
    task = observe(graph, splits_of(graph), seed=0, with_validation=method.uses_validation)
    apart = np.concatenate([method.fit(chunk).probabilities for chunk in task.chunks(1)])
    np.testing.assert_allclose(apart, method.fit(task).probabilities, atol=1e-4)
    assert not np.allclose(apart[0], apart[1])


def test_nodes_that_nothing_reaches_get_an_answer(name, make_graph):
    graph = make_graph(nodes=60, features=12, unreached=True)
    reached = Graph(graph.adjacency, graph.features, np.where(np.arange(60) < 55, graph.labels, -1))
    assert_is_distribution(fit(quick(name), reached), reached)


def test_it_takes_dense_and_sparse_features_alike(name, graph):
    dense = Graph(graph.adjacency, graph.features.toarray(), graph.labels)
    assert sp.issparse(graph.features)
    answers = [fit(without_chance(name), one).probabilities for one in (graph, dense)]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-4)


def test_it_takes_weighted_edges_and_self_loops(name, make_graph):
    weighted = make_graph(nodes=60, features=12, weighted=True)
    adjacency = weighted.adjacency.toarray()
    adjacency[3, 3], adjacency[8, 8] = 1, 0.5
    graph = Graph(adjacency, weighted.features, weighted.labels)
    assert_is_distribution(fit(quick(name), graph), graph)


def test_a_graph_without_features_is_answered_or_refused(name, graph):
    bare = Graph(graph.adjacency, labels=graph.labels)
    try:
        prediction = fit(quick(name), bare)
    except InputError as error:
        assert "features" in str(error)  # noqa: PT017 - either way is right
    else:
        assert_is_distribution(prediction, bare)
