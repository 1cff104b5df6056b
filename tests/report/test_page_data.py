"""The nodes as the page carries them: nothing lost, nothing that could be read as HTML."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.report import page_data
from mtgcn.report.fit_charts import MAP_WIDTH
from mtgcn.report.fit_view import fit_view
from mtgcn.report.page_data import node_data, packed


def unpacked(entry):
    kind = {"Uint8": "<u1", "Uint16": "<u2", "Uint32": "<u4"}[entry["type"]]
    return np.frombuffer(base64.b64decode(entry["data"]), dtype=kind)


@pytest.fixture
def shown(fitted_model):
    return fit_view(fitted_model).map


def told(shown, model):
    return json.loads(str(node_data(shown, model.graph_, model.label_distributions_)))


def edges_of(content):
    each, others = unpacked(content["edgesEach"]), unpacked(content["others"])
    return set(zip(np.repeat(np.arange(len(each)), each).tolist(), others.tolist(), strict=True))


def test_everything_about_a_node_is_there(shown, fitted_model):
    content = told(shown, fitted_model)
    graph, probabilities = fitted_model.graph_, fitted_model.label_distributions_
    assert content["ids"] == [str(number) for number in range(60)]
    assert content["classes"] == ["left", "<b>&$x", "right"]
    best = unpacked(content["best"]).reshape(60, 3)
    np.testing.assert_array_equal(best[:, 0], probabilities.argmax(axis=1))
    found = unpacked(content["probabilities"]).reshape(60, 3) / content["steps"]["probability"]
    np.testing.assert_allclose(found, np.take_along_axis(probabilities, best.astype(int), axis=1), atol=1e-4)
    np.testing.assert_array_equal(unpacked(content["given"]).astype(int) - 1, graph.labels)
    np.testing.assert_array_equal(unpacked(content["degrees"]), np.diff(graph.adjacency.indptr))
    upper = np.nonzero(np.triu(graph.adjacency.toarray(), 1))
    assert edges_of(content) == set(zip(*(ends.tolist() for ends in upper), strict=True))
    places = unpacked(content["places"]).reshape(60, 2) * MAP_WIDTH / content["steps"]["place"]
    assert places[:, 1].max() < content["map"]["height"]


def test_names_cannot_end_the_element_they_stand_in(shown, fitted_model):
    ids = np.array([f"</script><script>{number}\u2028&" for number in range(60)])
    strange = replace(fitted_model, graph_=replace(fitted_model.graph_, node_ids=ids))
    text = str(node_data(shown, strange.graph_, strange.label_distributions_))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["ids"] == ids.tolist()


def test_of_many_edges_the_heaviest_are_kept(shown, fitted_model, monkeypatch):
    monkeypatch.setattr(page_data, "MOST_EDGES", 120)
    random = np.random.default_rng(0).random((60, 60))
    weights = np.triu(random, 1) + np.triu(random, 1).T
    dense = replace(fitted_model, graph_=replace(fitted_model.graph_, adjacency=weights))
    content = told(shown, dense)
    heaviest = {tuple(sorted((node, int(other)))) for node in range(60) for other in np.argsort(-weights[node])[:2]}
    assert edges_of(content) == heaviest
    assert set(unpacked(content["degrees"])) == {59}  # how many there are is still told


def test_a_loop_makes_nobody_its_own_neighbour(shown, fitted_model):
    looped = fitted_model.graph_.adjacency.toarray()
    np.fill_diagonal(looped, 1)
    content = told(shown, replace(fitted_model, graph_=replace(fitted_model.graph_, adjacency=looped)))
    assert edges_of(content) == edges_of(told(shown, fitted_model))
    assert content["degrees"] == told(shown, fitted_model)["degrees"]


@pytest.mark.parametrize(("largest", "kind"), [(255, "Uint8"), (256, "Uint16"), (65_535, "Uint16"), (65_536, "Uint32")])
def test_numbers_take_as_little_room_as_they_need(largest, kind):
    entry = packed(np.array([0, largest]))
    assert entry["type"] == kind
    assert unpacked(entry).tolist() == [0, largest]
