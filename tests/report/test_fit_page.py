"""The page of a fit: view, node data and HTML."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from fitted_models import Model, with_labels
from html_page import HtmlPage
from mtgcn.graph import Graph
from mtgcn.methods import create, method_title
from mtgcn.report import fit_page as fit_page_module
from mtgcn.report.fit_page import Background, fit_html, node_data
from mtgcn.training.progress import progress_callbacks
from mtgcn.uncertainty.held_out import ExpectedAccuracy
from weighted_peers import made_up_report

pytestmark = pytest.mark.slow

MEASURED = ExpectedAccuracy(0.824, (0.71, 0.905), (0.69, 0.92), labels=40, folds=5)


@pytest.fixture(scope="module")
def page(fitted_model):
    return fit_html(fitted_model)


def lp_model(graph, labelled, probabilities):
    return Model(with_labels(graph, np.arange(labelled)), create("lp"), probabilities)


def text_of(model, background=None, **changes):
    return HtmlPage(fit_html(replace(model, **changes), background)).text


def test_page_is_self_contained(page):
    found = HtmlPage(page)
    found.assert_self_contained()
    assert not re.search(r"https?:|url\(|@import|import\(|fetch\(|\bNaN\b|\bnan\b", page)
    assert "default-src 'none'" in page  # a browser is not allowed to fetch anything either
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    sections = ["map", "suggestions", "nodes", "confidence", "training", "data"]
    assert [link.removeprefix("#") for link in dict.fromkeys(found.links) if link != "#peers"][:6] == sections
    assert [one for one in found.ids if one in sections] == sections
    assert "<b>&" not in page
    assert "a<b: node classification" in found.text
    assert "<b>&$x" in found.text


def test_page_shows_counts_history_suggestions(page, fitted_model):
    text = HtmlPage(page).text
    assert "6 of 60 nodes (the items to classify) have a label" in text
    assert "classes of the other 54 are predicted" in text
    assert "2, which agree on" in text
    for name in ("supervised", "pseudo-label", "consistency", "agreement"):
        assert name in text
    worth = fit_page_module.fit_view(fitted_model).suggestions
    assert len(worth) == 10
    assert all(one.reason in text for one in worth)
    assert all(f"Why {one.predicted}?" in text and f"reasons of {one.node}" in text for one in worth)
    rows = fitted_model.label_distributions_[6:].argmax(1)
    for number in range(3):
        name = fitted_model.graph_.class_names[number]
        assert [name, str((rows == number).sum()), "2"] in HtmlPage(page).rows


def test_method_names(fitted_model):
    for name in ("lp", "mt-plus"):
        text = text_of(fitted_model, method_=create(name))
        assert f"method {name}" in text
        assert method_title(name) in text
    own = type("MyMethod", (type(create("lp")),), {})
    assert "method MyMethod peers" in text_of(fitted_model, method_=own())


def test_expected_accuracy_and_notes(fitted_model):
    text = text_of(fitted_model, Background(MEASURED, None, ["income: standardised", "edges.csv: 3 <self> loops"]))
    assert "82 % expected accuracy" in text
    assert "90 % interval 71 to 90 %" in text
    assert "5-fold cross-validation on 40 given labels" in text
    assert "Notes on the files income: standardised edges.csv: 3 <self> loops" in text
    text = text_of(fitted_model, Background(None, "6 labels are too few; 20 are needed"))
    assert "is not known: 6 labels are too few; 20 are needed." in text
    assert "Notes on the files" not in text


def test_preprocessing(page, fitted_model):
    graph = replace(fitted_model.graph_)
    lines = ["income: standardised", "city: 12 values, one-hot"]
    object.__setattr__(graph, "preprocessing", SimpleNamespace(lines=lambda: lines, id_column=None, name_column=None))
    assert f"Preprocessing of the columns {' '.join(lines)}" in text_of(fitted_model, graph_=graph)
    assert "Preprocessing of the columns" not in HtmlPage(page).text


def test_peer_weights(page, fitted_model):
    peers = np.stack([fitted_model.label_distributions_] * 4)
    text = text_of(fitted_model, peer_distributions_=peers, peer_report_=made_up_report())
    assert "The near neighbourhood decides here; features alone reach a held-out accuracy of 52 %." in text
    assert "hardly teach each other" not in text
    assert "4, of which those with 80 % of the weight agree on 100.0 % of nodes" in text
    near = "near neighbourhood features of the node and its neighbours 55.0 % 80.0 % 95.0 %"
    assert text.index(near) < text.index("features features of the node 10.0 % 52.0 % 50.0 %")
    assert "structure position in the graph 5.0 % unknown 40.0 %" in text
    weak = text_of(fitted_model, peer_distributions_=None, peer_report_=made_up_report(teaching=0.2))
    assert "The given labels carry little information, so the peers hardly teach each other." in weak
    assert "peers" not in HtmlPage(page).ids  # the method reports no weights


def test_warnings(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[50] = [0.1, 0.8, 0.1]  # a class without predictions in this short fit
    predicted, labels = probabilities.argmax(1), fitted_model.graph_.labels.copy()
    edges = predicted[:, None] == predicted  # edges that follow the predictions need no warning
    edges[:6, :6] = labels[:6, None] == labels[:6]
    edges[:3, 6:] = True
    edges |= edges.T
    np.fill_diagonal(edges, False)
    graph = replace(fitted_model.graph_, adjacency=edges.astype(float))
    assert 'id="warnings"' not in fit_html(replace(fitted_model, label_distributions_=probabilities, graph_=graph))
    labels[5] = -1
    assert "'right': one label only" in text_of(fitted_model, graph_=replace(fitted_model.graph_, labels=labels))


def test_contradicted_labels_are_listed(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[:2] = [[0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]
    text = text_of(fitted_model, label_distributions_=probabilities, peer_distributions_=None)
    assert "Labels that contradict the model" in text
    assert text.index("1 <b>&$x right 80 %") < text.index("0 left right 70 %")


def test_page_of_a_large_graph(make_graph, monkeypatch):
    monkeypatch.setattr(fit_page_module, "MAX_ON_MAP", 100)
    large = lp_model(make_graph(nodes=400), 9, np.random.default_rng(0).dirichlet(np.ones(3), 400))
    page = fit_html(large)
    assert "This page shows 100 of 400 nodes" in HtmlPage(page).text
    assert len(page) < 100_000
    view = fit_page_module.fit_view(large)
    assert len(view.nodes) == 100
    assert set(range(9)) <= set(view.nodes)
    assert {one.index for one in view.suggestions} == set(view.nodes[view.suggested])


def test_page_without_epochs_and_peers(make_graph):
    equal = replace(make_graph(unreached=True), features=np.full((40, 2), 7.0), feature_names=())
    for graph in (make_graph(unreached=True), equal):
        page = fit_html(lp_model(graph, 6, np.full((40, 3), 1 / 3)))
        assert {"map", "training"} & set(HtmlPage(page).ids) == {"map"}
        assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_many_classes_and_few_nodes(make_graph):
    graph = make_graph(nodes=44, classes=42, features=60)
    model = lp_model(graph, 42, np.eye(42)[graph.labels])
    page = fit_html(model)
    assert len(fit_page_module.fit_figure(model).axes[0].collections) == 5  # one for each shape
    assert "without the 2 smallest" in HtmlPage(page).text
    assert "--k41:#" in page
    tiny = Graph(adjacency=[[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, -1, 1])
    assert text_of(Model(tiny, create("lp"), np.array([[1, 0], [0.5, 0.5], [0, 1]])))


def test_page_of_fully_labelled_graph(make_graph):
    graph = make_graph()
    text = text_of(Model(graph, create("lp"), np.eye(3)[graph.labels]))
    assert "All 40 nodes have a label" in text
    assert "Every node has a label" in text


def test_map_uses_peer_weights(fitted_model):
    report = made_up_report(weights=(0.8, 0.2), names=("one", "other"), held_out=(0.5, 0.5))
    rows = fit_page_module.weighted_predictions(replace(fitted_model, peer_report_=report), np.array([7, 9]))
    roots = np.sqrt(fitted_model.peer_distributions_[:, [7, 9]])
    one, other = ((roots[:, 0] - roots[:, 1]) ** 2).sum(axis=1)  # Hellinger's distances, squared and doubled
    np.testing.assert_allclose(((rows[0] - rows[1]) ** 2).sum(), 0.8 * one + 0.2 * other, rtol=1e-5)


def test_progress(fitted_model):
    stages, steps = [], []
    with progress_callbacks(lambda *counts: steps.append(counts), stages.append):
        fit_page_module.fit_view(fitted_model)
    assert list(filter(None, stages)) == ["selecting nodes to label", "placing nodes on the map"]
    assert steps[-1][0] == steps[-1][1] > 0


@pytest.fixture
def content_of(fitted_model):
    """The node data of the model with another graph."""
    shown, probabilities = fit_page_module.fit_view(fitted_model), fitted_model.label_distributions_
    return lambda **changes: node_data(shown, replace(fitted_model.graph_, **changes), probabilities)


def stored_ids(page):
    [content] = re.findall('id="node-data">(.*)</script>', page)
    assert not set("<>&\u2028") & set(content)  # it cannot close the script
    return json.loads(content)["ids"]


def test_node_data_is_complete(content_of, fitted_model):
    content = content_of()
    graph, probabilities = fitted_model.graph_, fitted_model.label_distributions_
    assert content["ids"] == [str(number) for number in range(60)]
    assert content["classes"] == ["left", "<b>&$x", "right"]
    np.testing.assert_array_equal(np.array(content["best"])[:, 0], probabilities.argmax(axis=1))
    of_best = np.take_along_axis(probabilities, np.array(content["best"]), axis=1)
    np.testing.assert_allclose(content["probabilities"], of_best, atol=1e-4)
    np.testing.assert_array_equal(content["given"], graph.labels)
    np.testing.assert_array_equal(content["degrees"], np.diff(graph.adjacency.indptr))
    assert content["edges"] == [np.flatnonzero(row).tolist() for row in np.triu(graph.adjacency.toarray(), 1)]
    assert np.max(content["places"]) == 1
    assert content["total"] == 60


def test_names_stand_with_ids(fitted_model):
    names = [f"Ada {number}" for number in range(59)] + [""]
    graph = replace(fitted_model.graph_, cells=pa.table({"name": names}))
    columns = SimpleNamespace(lines=list, id_column=None, name_column="name")
    object.__setattr__(graph, "preprocessing", columns)
    page = fit_html(replace(fitted_model, graph_=graph))
    assert stored_ids(page) == [*(f"Ada {number} ({number})" for number in range(59)), "59"]
    best = fit_page_module.fit_view(fitted_model).suggestions[0].index
    assert f"Ada {best} ({best})" in HtmlPage(page).text


def test_node_data_cannot_close_the_script(fitted_model):
    ids = np.array([f"</script><script>{number}\u2028&" for number in range(60)])
    page = fit_html(replace(fitted_model, graph_=replace(fitted_model.graph_, node_ids=ids)))
    assert stored_ids(page) == ids.tolist()


def test_heaviest_edges_are_kept(content_of, monkeypatch):
    monkeypatch.setattr(fit_page_module, "MAX_EDGES", 120)
    random = np.random.default_rng(0).random((60, 60))
    weights = np.triu(random, 1) + np.triu(random, 1).T
    content = content_of(adjacency=weights)
    heaviest = {tuple(sorted((node, int(other)))) for node in range(60) for other in np.argsort(-weights[node])[:2]}
    assert {(node, other) for node, others in enumerate(content["edges"]) for other in others} == heaviest
    assert set(content["degrees"]) == {59}


def test_self_loops_are_ignored(content_of, fitted_model):
    looped = fitted_model.graph_.adjacency.toarray()
    np.fill_diagonal(looped, 1)
    content, plain = content_of(adjacency=looped), content_of()
    assert content["edges"] == plain["edges"]
    assert content["degrees"] == plain["degrees"]
