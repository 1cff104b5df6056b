"""The page of a fit: view, node data and HTML."""

import base64
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fitted_models import Model
from html_page import HtmlPage
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.report import fit_page as fit_page_module
from mtgcn.report import fit_view
from mtgcn.report.charts import MAP_WIDTH
from mtgcn.report.fit_page import Background, fit_html, fit_page, node_data, packed
from mtgcn.uncertainty.expected_accuracy import ExpectedAccuracy
from weighted_peers import made_up_report

MEASURED = ExpectedAccuracy(0.824, (0.71, 0.905), labels=40, folds=5)


def test_page_is_self_contained(fitted_model, tmp_path):
    fit_page(fitted_model, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    HtmlPage(content).assert_self_contained()
    assert not re.search(r"https?:|url\(|@import|import\(|fetch\(|\bNaN\b|\bnan\b", content)
    assert "default-src 'none'" in content  # a browser is not allowed to fetch anything either
    assert "prefers-color-scheme: dark" in content
    assert 'name="viewport"' in content


def test_order_of_sections(fitted_model):
    ids = [
        one
        for one in HtmlPage(fit_html(fitted_model)).ids
        if one in ("map", "suggestions", "nodes", "confidence", "training")
    ]
    assert ids == ["map", "suggestions", "nodes", "confidence", "training"]


def test_names_are_escaped(fitted_model):
    page = fit_html(fitted_model)
    assert "<b>&" not in page
    assert "a<b: node classification" in HtmlPage(page).text
    assert "<b>&$x" in HtmlPage(page).text


def test_page_shows_counts_history_suggestions(fitted_model):
    text = HtmlPage(fit_html(fitted_model)).text
    assert "6 of 60 nodes (the items to classify) have a label" in text
    assert "classes of the other 54 are predicted" in text
    assert "which agree on" in text
    for name in ("supervised", "pseudo-label", "consistency", "agreement"):
        assert name in text
    worth = fit_view.fit_view(fitted_model).suggestions
    assert len(worth) == 10
    assert all(one.reason in text for one in worth)
    rows = fitted_model.label_distributions_[6:].argmax(1)
    for number in range(3):
        assert f"{(rows == number).sum()} predicted, 2 given" in text


def test_method_names(fitted_model):
    text = HtmlPage(fit_html(replace(fitted_model, method_=create("mt-plus")))).text
    assert "method mt-plus. Mutual teaching taken further" in text
    assert "MTPlus" not in text
    own = type("MyMethod", (type(create("lp")),), {})
    assert "method MyMethod peers" in HtmlPage(fit_html(replace(fitted_model, method_=own()))).text


def test_expected_accuracy_and_notes(fitted_model):
    notes = ["income: standardised", "edges.csv: 3 <self> loops"]
    text = HtmlPage(fit_html(fitted_model, Background(MEASURED, None, notes))).text
    assert "82 % expected accuracy" in text
    assert "95 % interval 71 to 90 %" in text
    assert "5-fold cross-validation on the 40 given labels" in text
    assert "Notes on the files income: standardised edges.csv: 3 <self> loops" in text


def test_preprocessing(fitted_model):
    graph = replace(fitted_model.graph_)
    lines = ["income: standardised", "city: 12 values, one-hot"]
    object.__setattr__(graph, "preprocessing", SimpleNamespace(lines=lambda: lines))
    text = HtmlPage(fit_html(replace(fitted_model, graph_=graph))).text
    assert "Preprocessing of the columns income: standardised city: 12 values, one-hot" in text
    assert "Preprocessing of the columns" not in HtmlPage(fit_html(fitted_model)).text


def test_reason_for_missing_accuracy(fitted_model):
    text = HtmlPage(fit_html(fitted_model, Background(None, "6 labels are too few to tell; 20 are needed"))).text
    assert "is not known: 6 labels are too few to tell; 20 are needed." in text
    assert "Notes on the files" not in text


def test_background_from_model_card():
    training = {
        "expected_accuracy": {"accuracy": 0.824, "ci95": [0.71, 0.905], "labels": 40, "folds": 5},
        "notes": ["x"],
    }
    assert Background.from_training(training) == Background(MEASURED, None, ("x",))
    assert Background.from_training({"epochs": 3}) == Background()


def test_peer_weights(fitted_model):
    peers = np.stack([fitted_model.label_distributions_] * 4)
    weighed = replace(fitted_model, peer_distributions_=peers, peer_report_=made_up_report())
    page = HtmlPage(fit_html(weighed))
    assert "peers" in page.ids
    text = page.text
    assert "The near neighbourhood decides here; features alone reach a held-out accuracy of 52 %." in text
    assert "hardly teach each other" not in text
    assert "4, of which those with 80 % of the weight agree on 100.0 % of nodes" in text
    near = "near neighbourhood features of the node and its neighbours 55.0 % 80.0 % 95.0 %"
    rows = [text.index(row) for row in (near, "features features of the node 10.0 % 52.0 % 50.0 %")]
    assert rows == sorted(rows)
    assert "structure position in the graph 5.0 % unknown 40.0 %" in text


def test_little_teaching_is_remarked(fitted_model):
    report = made_up_report(teaching=0.2)
    text = HtmlPage(fit_html(replace(fitted_model, peer_distributions_=None, peer_report_=report))).text
    assert "The given labels carry little information, so the peers hardly teach each other." in text


def test_methods_without_peer_weights(fitted_model):
    page = HtmlPage(fit_html(fitted_model))
    assert "peers" not in page.ids
    assert "2, which agree on" in page.text


def test_warnings(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[50] = [0.1, 0.8, 0.1]  # a class without predictions in this short fit
    sound = replace(fitted_model, label_distributions_=probabilities)
    assert 'id="warnings"' not in fit_html(replace(sound, graph_=with_edges_of_the_answer(sound)))
    labels = fitted_model.graph_.labels.copy()
    labels[5] = -1
    one_label = replace(fitted_model, graph_=replace(fitted_model.graph_, labels=labels))
    assert "'right': one label only" in HtmlPage(fit_html(one_label)).text


def with_edges_of_the_answer(model):
    """Edges that follow the predictions, so that there is nothing to warn of."""
    predicted = model.label_distributions_.argmax(1)
    same = (predicted[:, None] == predicted) & ~np.eye(60, dtype=bool)
    same[:6, :6] = model.graph_.labels[:6, None] == model.graph_.labels[:6]
    same[:3, 6:] |= True
    same |= same.T
    np.fill_diagonal(same, False)
    return replace(model.graph_, adjacency=same.astype(float))


def test_contradicted_labels_are_listed(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[0] = [0.1, 0.2, 0.7]
    text = HtmlPage(fit_html(replace(fitted_model, label_distributions_=probabilities, peer_distributions_=None))).text
    assert "Labels that contradict the model" in text
    assert "0 left right 70 %" in text


def test_page_of_a_large_graph_is_small(make_graph, monkeypatch):
    monkeypatch.setattr(fit_view, "MAX_ON_MAP", 100)
    graph = make_graph(nodes=400)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    labels = np.where(np.arange(400) < 9, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert "This page shows 100 of 400 nodes" in HtmlPage(page).text
    assert len(page) < 70_000


def test_page_without_epochs_and_peers(make_graph):
    graph = make_graph(unreached=True)
    labels = np.where(np.arange(40) < 6, graph.labels, -1)
    page = HtmlPage(fit_html(Model(replace(graph, labels=labels), create("lp"), np.full((40, 3), 1 / 3))))
    assert "training" not in page.ids
    assert "map" in page.ids


def test_many_classes_and_few_nodes(make_graph):
    graph = make_graph(nodes=44, classes=42, features=60)
    labels = np.where(np.arange(44) < 42, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), np.eye(42)[graph.labels]))
    assert "without the 2 smallest" in HtmlPage(page).text
    assert "--k41:#" in page
    tiny = Graph(adjacency=[[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, -1, 1])
    assert HtmlPage(fit_html(Model(tiny, create("lp"), np.array([[1, 0], [0.5, 0.5], [0, 1]])))).text


def test_page_of_identical_nodes(make_graph):
    graph = replace(make_graph(nodes=60), features=np.full((60, 2), 7.0), feature_names=())
    labels = np.where(np.arange(60) < 6, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), np.full((60, 3), 1 / 3)))
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_page_of_fully_labelled_graph(make_graph):
    graph = make_graph()
    text = HtmlPage(fit_html(Model(graph, create("lp"), np.eye(3)[graph.labels]))).text
    assert "All 40 nodes have a label" in text
    assert "Every node has a label" in text


def test_unwritable_page_is_one_clear_error(fitted_model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*page\.html: .*; make room there, or give another place"):
        fit_page(fitted_model, tmp_path / "file" / "page.html")


def test_map_uses_peer_weights(fitted_model):
    report = made_up_report(weights=(0.8, 0.2), names=("one", "other"), held_out=(0.5, 0.5))
    rows = fit_view.weighted_predictions(replace(fitted_model, peer_report_=report), np.array([7, 9]))
    roots = np.sqrt(fitted_model.peer_distributions_[:, [7, 9]])
    one, other = ((roots[:, 0] - roots[:, 1]) ** 2).sum(axis=1)  # Hellinger's distances, squared and doubled
    np.testing.assert_allclose(((rows[0] - rows[1]) ** 2).sum(), 0.8 * one + 0.2 * other, rtol=1e-5)


def test_map_of_a_large_graph_keeps_labelled_and_suggested_nodes(make_graph, monkeypatch):
    monkeypatch.setattr(fit_view, "MAX_ON_MAP", 100)
    graph = make_graph(nodes=400)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    labels = np.where(np.arange(400) < 9, graph.labels, -1)
    view = fit_view.fit_view(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert len(view.map.nodes) == 100
    assert set(range(9)) <= set(view.map.nodes)
    assert {one.index for one in view.suggestions} == set(view.map.nodes[view.map.suggested])


def test_histogram_counts_every_node_once():
    confidence = np.array([0.25, 0.26, 0.5, 0.99, 1.0, 0.2499999])
    counts, edges = fit_view.histogram(confidence, classes=4)
    assert counts.sum() == 6
    assert counts[-1] == 2
    assert edges[0] == 0.25


def test_progress_steps(fitted_model):
    steps = []
    fit_view.fit_view(fitted_model, progress=lambda *what: steps.append(what))
    assert list(dict.fromkeys(what for what, _, _ in steps)) == [
        "selecting nodes to label",
        "finding similar nodes",
        "placing nodes on the map",
    ]
    assert steps[-1][1] == steps[-1][2] > 0


def unpacked(entry):
    kind = {"Uint8": "<u1", "Uint16": "<u2", "Uint32": "<u4"}[entry["type"]]
    return np.frombuffer(base64.b64decode(entry["data"]), dtype=kind)


@pytest.fixture
def shown(fitted_model):
    return fit_view.fit_view(fitted_model).map


def content_of(shown, model):
    return json.loads(str(node_data(shown, model.graph_, model.label_distributions_)))


def edges_of(content):
    counts, others = unpacked(content["edgeCounts"]), unpacked(content["others"])
    return set(zip(np.repeat(np.arange(len(counts)), counts).tolist(), others.tolist(), strict=True))


def test_node_data_is_complete(shown, fitted_model):
    content = content_of(shown, fitted_model)
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


def test_node_data_cannot_close_the_script(shown, fitted_model):
    ids = np.array([f"</script><script>{number}\u2028&" for number in range(60)])
    strange = replace(fitted_model, graph_=replace(fitted_model.graph_, node_ids=ids))
    text = str(node_data(shown, strange.graph_, strange.label_distributions_))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["ids"] == ids.tolist()


def test_heaviest_edges_are_kept(shown, fitted_model, monkeypatch):
    monkeypatch.setattr(fit_page_module, "MAX_EDGES", 120)
    random = np.random.default_rng(0).random((60, 60))
    weights = np.triu(random, 1) + np.triu(random, 1).T
    dense = replace(fitted_model, graph_=replace(fitted_model.graph_, adjacency=weights))
    content = content_of(shown, dense)
    heaviest = {tuple(sorted((node, int(other)))) for node in range(60) for other in np.argsort(-weights[node])[:2]}
    assert edges_of(content) == heaviest
    assert set(unpacked(content["degrees"])) == {59}


def test_self_loops_are_ignored(shown, fitted_model):
    looped = fitted_model.graph_.adjacency.toarray()
    np.fill_diagonal(looped, 1)
    content = content_of(shown, replace(fitted_model, graph_=replace(fitted_model.graph_, adjacency=looped)))
    assert edges_of(content) == edges_of(content_of(shown, fitted_model))
    assert content["degrees"] == content_of(shown, fitted_model)["degrees"]


@pytest.mark.parametrize(("largest", "kind"), [(255, "Uint8"), (256, "Uint16"), (65_535, "Uint16"), (65_536, "Uint32")])
def test_packed_uses_the_smallest_type(largest, kind):
    entry = packed(np.array([0, largest]))
    assert entry["type"] == kind
    assert unpacked(entry).tolist() == [0, largest]
