"""Trained networks can be taken to another graph."""

from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, create
from mtgcn.methods.base import NetworkMethod
from mtgcn.splits import draw_splits
from mtgcn.task import Prediction, observe

RUNS = 2


def quick(name, **settings):
    epochs = {key: 5 for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")}
    return create(name, **epochs | settings)


def fitted(method, graph):
    splits = draw_splits(graph, 2, RUNS, seed=0, validation=6)
    return method.fit(observe(graph, splits, seed=0, with_validation=method.uses_validation))


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if issubclass(kind, NetworkMethod)])
def test_on_its_own_graph_a_trained_network_says_what_it_said(name, make_graph):
    graph = make_graph()
    method = quick(name)
    prediction = fitted(method, graph)
    probabilities = method.apply(prediction.parameters, graph)
    assert probabilities.shape[0] == RUNS
    np.testing.assert_allclose(method.combined(probabilities), prediction.probabilities, atol=1e-6)


def test_every_parameter_has_its_runs_first_so_that_runs_can_be_taken_out(make_graph):
    graph = make_graph()
    method = quick("mt-gcn")
    prediction = fitted(method, graph)
    second = {name: values[1:] for name, values in prediction.parameters.items()}
    np.testing.assert_allclose(method.apply(second, graph)[0], prediction.peers[1], atol=1e-6)
    joined = Prediction.concatenate([replace(prediction, parameters=second), prediction])
    assert {len(values) for values in joined.parameters.values()} == {RUNS + 1}


def test_a_graph_with_its_nodes_in_another_order_gets_the_same_answers(make_graph):
    graph = make_graph()
    method = quick("mt-gcn")
    prediction = fitted(method, graph)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    shuffled = Graph(
        adjacency=graph.adjacency[order][:, order], features=graph.features[order], class_names=graph.class_names
    )
    probabilities = method.apply(prediction.parameters, shuffled)
    np.testing.assert_allclose(probabilities, prediction.peers[:, :, order], atol=1e-6)


def test_where_the_first_peer_answers_it_answers_on_other_graphs_too(make_graph):
    graph = make_graph()
    method = quick("mt-gcn", output="first")
    prediction = fitted(method, graph)
    peers = method.apply(prediction.parameters, graph)
    np.testing.assert_allclose(peers, prediction.peers, atol=1e-6)  # the second peer is heard, but does not answer
    np.testing.assert_allclose(method.combined(peers), prediction.probabilities, atol=1e-6)
    assert np.abs(peers.mean(axis=1) - prediction.probabilities).max() > 1e-3


def test_a_graph_with_other_features_is_refused(make_graph):
    method = quick("gcn")
    graph = make_graph()
    parameters = fitted(method, graph).parameters
    narrower = replace(graph, features=graph.features[:, :-1])
    with pytest.raises(InputError, match=r"weight0 of shape .* use settings and a graph with the features"):
        method.apply(parameters, narrower)


@pytest.mark.parametrize("name", ["lp", "mani-reg", "ica"])
def test_methods_that_keep_no_network_say_so(name, make_graph):
    method = create(name)
    graph = make_graph()
    assert fitted(method, graph).parameters is None
    with pytest.raises(InputError, match="keeps nothing that could be applied to another graph; fit it on"):
        method.apply({}, graph)


def test_without_weights_there_is_nothing_to_apply(make_graph):
    with pytest.raises(ValueError, match="there are none"):
        create("gcn").apply({}, make_graph())
