"""The page about a fit: sound, alone, small, with everything on it and in the right order."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from fitted_models import Model
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.report import fit_view
from mtgcn.report.fit_page import Background, fit_html, fit_page
from mtgcn.uncertainty.expected_accuracy import ExpectedAccuracy
from weighted_votes import made_up_report

VOID = {"meta", "br", "input"}
MEASURED = ExpectedAccuracy(0.824, (0.71, 0.905), labels=40, folds=5)


class Checked(HTMLParser):
    """Reads a page; every element must be closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.links, self.ids, self.texts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.links += [attributes[name] for name in ("href", "src") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, f"<{tag}/> is no HTML"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_the_page_is_sound_and_needs_nothing_but_itself(fitted_model, tmp_path):
    fit_page(fitted_model, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Checked(content)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not re.search(r"https?:|url\(|@import|import\(|fetch\(|\bNaN\b|\bnan\b", content)
    assert "default-src 'none'" in content  # a browser is not allowed to fetch anything either
    assert len(page.ids) == len(set(page.ids))
    assert "prefers-color-scheme: dark" in content
    assert 'name="viewport"' in content


def test_the_picture_comes_before_the_list_of_suggestions(fitted_model):
    ids = [one for one in Checked(fit_html(fitted_model)).ids if one in ("map", "look", "nodes", "sizes", "learning")]
    assert ids == ["map", "look", "nodes", "sizes", "learning"]


def test_names_are_escaped(fitted_model):
    page = fit_html(fitted_model)
    assert "<b>&" not in page
    assert "a<b: every node classified" in Checked(page).text
    assert "<b>&$x" in Checked(page).text


def test_everything_is_on_it(fitted_model):
    text = Checked(fit_html(fitted_model)).text
    assert "6 of 60 nodes (the things to classify) came with a label" in text
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


def test_methods_are_called_as_people_type_them(fitted_model):
    text = Checked(fit_html(replace(fitted_model, method_=create("mt-plus")))).text
    assert "method mt-plus. Mutual teaching taken further" in text
    assert "MTPlus" not in text
    own = type("MyMethod", (type(create("lp")),), {})
    assert "method MyMethod peers" in Checked(fit_html(replace(fitted_model, method_=own()))).text


def test_expected_accuracy_and_the_notes_of_reading_are_on_it(fitted_model):
    notes = ["income: standardised", "edges.csv: 3 <self> loops"]
    text = Checked(fit_html(fitted_model, Background(MEASURED, None, notes))).text
    assert "82 % expected accuracy" in text
    assert "71 to 90 % (95 % interval)" in text
    assert "Each of the 40 given labels was predicted without its own help, in 5 parts" in text
    assert "What reading the files did income: standardised edges.csv: 3 <self> loops" in text


def test_what_was_done_with_the_columns_is_on_it(fitted_model):
    graph = replace(fitted_model.graph_)
    lines = ["income: standardised", "city: 12 values, one-hot"]
    object.__setattr__(graph, "preprocessing", SimpleNamespace(lines=lambda: lines))
    text = Checked(fit_html(replace(fitted_model, graph_=graph))).text
    assert "What was done with the columns income: standardised city: 12 values, one-hot" in text
    assert "What was done with the columns" not in Checked(fit_html(fitted_model)).text


def test_why_accuracy_is_not_known_is_said(fitted_model):
    text = Checked(fit_html(fitted_model, Background(None, "6 labels are too few to tell; 20 are needed"))).text
    assert "is not known: 6 labels are too few to tell; 20 are needed." in text
    assert "What reading the files did" not in text


def test_background_is_read_from_the_card_of_a_model():
    told = {"expected_accuracy": {"accuracy": 0.824, "ci95": [0.71, 0.905], "labels": 40, "folds": 5}, "notes": ["x"]}
    assert Background.from_training(told) == Background(MEASURED, None, ("x",))
    assert Background.from_training({"epochs": 3}) == Background()


def test_the_votes_of_the_peers_are_shown(fitted_model):
    peers = np.stack([fitted_model.label_distributions_] * 4)
    weighed = replace(fitted_model, peer_distributions_=peers, peer_report_=made_up_report())
    page = Checked(fit_html(weighed))
    assert "peers" in page.ids
    text = page.text
    assert "The near neighbourhood decides here; the features alone get 52 % of held-out labels." in text
    assert "hardly teach each other" not in text
    assert "4, of which those with 80 % of the vote agree on 100.0 % of nodes" in text
    near = "near neighbourhood the features of the node and of its neighbours 55.0 % 80.0 % 95.0 %"
    rows = [text.index(row) for row in (near, "features the node's own features 10.0 % 52.0 % 50.0 %")]
    assert rows == sorted(rows)
    assert "structure its place among the edges 5.0 % not known 40.0 %" in text


def test_little_teaching_is_remarked_on_the_page(fitted_model):
    report = made_up_report(teaching=0.2)
    text = Checked(fit_html(replace(fitted_model, peer_distributions_=None, peer_report_=report))).text
    assert "The given labels carry little information, so the peers hardly teach each other." in text


def test_methods_without_weighted_votes_say_nothing_of_them(fitted_model):
    page = fit_html(fitted_model)
    assert "Who decides" not in page
    assert "2, which agree on" in Checked(page).text


def test_warnings_are_shown(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[50] = [0.1, 0.8, 0.1]  # the class that this short fit predicts of nobody
    sound = replace(fitted_model, label_distributions_=probabilities)
    assert "Before you rely on this" not in fit_html(replace(sound, graph_=with_edges_of_the_answer(sound)))
    labels = fitted_model.graph_.labels.copy()
    labels[5] = -1
    one_label = replace(fitted_model, graph_=replace(fitted_model.graph_, labels=labels))
    assert "'right': one label only" in Checked(fit_html(one_label)).text


def with_edges_of_the_answer(model):
    """Links that follow the predictions, so that nothing is left to warn of."""
    predicted = model.label_distributions_.argmax(1)
    same = (predicted[:, None] == predicted) & ~np.eye(60, dtype=bool)
    same[:6, :6] = model.graph_.labels[:6, None] == model.graph_.labels[:6]
    same[:3, 6:] |= True
    same |= same.T
    np.fill_diagonal(same, False)
    return replace(model.graph_, adjacency=same.astype(float))


def test_a_label_that_the_model_does_not_believe_is_listed(fitted_model):
    probabilities = fitted_model.label_distributions_.copy()
    probabilities[0] = [0.1, 0.2, 0.7]
    text = Checked(fit_html(replace(fitted_model, label_distributions_=probabilities, peer_distributions_=None))).text
    assert "Given labels that the model does not believe" in text
    assert "0 left right 70 %" in text


def test_a_large_graph_stays_a_small_page(make_graph, monkeypatch):
    monkeypatch.setattr(fit_view, "MOST_ON_MAP", 100)
    graph = make_graph(nodes=400)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    labels = np.where(np.arange(400) < 9, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert "Of 400 nodes 100 are drawn and listed on this page" in Checked(page).text
    assert len(page) < 70_000


def test_methods_without_epochs_and_peers_have_a_page(make_graph):
    graph = make_graph(unreached=True)
    labels = np.where(np.arange(40) < 6, graph.labels, -1)
    page = Checked(fit_html(Model(replace(graph, labels=labels), create("lp"), np.full((40, 3), 1 / 3))))
    assert "learning" not in page.ids
    assert "map" in page.ids


def test_many_classes_and_few_nodes(make_graph):
    graph = make_graph(nodes=44, classes=42, features=60)
    labels = np.where(np.arange(44) < 42, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), np.eye(42)[graph.labels]))
    assert "the 2 smallest are left out" in Checked(page).text
    assert "--k41:#" in page
    tiny = Graph(adjacency=[[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, -1, 1])
    assert Checked(fit_html(Model(tiny, create("lp"), np.array([[1, 0], [0.5, 0.5], [0, 1]])))).text


def test_nodes_that_are_all_the_same_have_a_page(make_graph):
    graph = replace(make_graph(nodes=60), features=np.full((60, 2), 7.0), feature_names=())
    labels = np.where(np.arange(60) < 6, graph.labels, -1)
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), np.full((60, 3), 1 / 3)))
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_every_node_given_leaves_nothing_to_suggest(make_graph):
    graph = make_graph()
    text = Checked(fit_html(Model(graph, create("lp"), np.eye(3)[graph.labels]))).text
    assert "All 40 nodes were given their class" in text
    assert "Every node has a label" in text


def test_a_page_that_cannot_be_written_is_one_clear_error(fitted_model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"cannot write .*page.html: Not a directory; make room there, or give another place"
    ):
        fit_page(fitted_model, tmp_path / "file" / "page.html")
