"""The page about a fit: sound, alone, small, with everything on it; and the figure."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.report import fit_view
from mtgcn.report.fit_charts import class_chart, confidence_chart, history_charts, peer_chart
from mtgcn.report.fit_page import fit_html, fit_page, plot
from mtgcn.report.fit_view import histogram
from mtgcn.splits import Split
from mtgcn.task import observe
from mtgcn.trust.peer_votes import contributions
from weighted_votes import made_up_report

VOID = {"meta", "br"}


@dataclass(frozen=True)
class Model:
    """What a fitted estimator has."""

    graph_: Graph
    method_: Any
    label_distributions_: Any
    peer_distributions_: Any = None
    peer_report_: Any = None
    history_: Any = field(default_factory=dict)


def fitted(graph, labelled, **settings):
    labels = np.full(graph.num_nodes, -1)
    labels[labelled] = graph.labels[labelled]
    method = create("mt-gcn", **({"warmup_epochs": 12, "teaching_epochs": 8} | settings))
    rest = np.setdiff1d(np.arange(graph.num_nodes), labelled)
    answer = method.fit(observe(graph, [Split(labelled, [], rest)], seed=0))
    return Model(
        replace(graph, labels=labels),
        method,
        answer.probabilities[0],
        answer.peers[0],
        history_={name: values[:, 0] for name, values in answer.history.items()},
    )


@pytest.fixture(scope="module")
def model(make_graph):
    graph = make_graph(nodes=60)
    return fitted(replace(graph, class_names=("left", "<b>&$x", "right"), name="a<b"), np.arange(6))


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
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_the_page_is_sound_and_needs_nothing_but_itself(model, tmp_path):
    fit_page(model, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Checked(content)
    assert page.links == []
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not re.search(r"https?:|url\(|@import|nan", content)
    assert {"look", "sizes", "map", "learning"} <= set(page.ids)
    assert "prefers-color-scheme: dark" in content
    assert 'name="viewport"' in content


def test_names_are_escaped(model):
    page = fit_html(model)
    assert "<b>" not in page
    assert "The nodes of a<b, classified" in Checked(page).text
    assert "<b>&$x" in Checked(page).text


def test_everything_is_on_it(model):
    page = Checked(fit_html(model))
    text = page.text
    assert "6 labels given, 54 nodes predicted" in text
    assert "60 nodes" in text
    assert "which agree on" in text
    for name in ("supervised", "pseudo-label", "consistency", "agreement"):
        assert name in text
    worth = fit_view.fit_view(model).suggestions
    assert len(worth) == 10
    assert all(one.reason in text for one in worth)
    rows = model.label_distributions_[6:].argmax(1)
    for number in range(3):
        assert f"{(rows == number).sum()} predicted, 2 given" in text


def test_the_votes_of_the_peers_are_shown(model):
    peers = np.stack([model.label_distributions_] * 4)
    weighed = replace(model, peer_distributions_=peers, peer_report_=made_up_report())
    page = Checked(fit_html(weighed))
    assert "peers" in page.ids
    text = page.text
    assert "The near neighbourhood decides here; the features alone get 52 % of held-out labels." in text
    assert "hardly teach each other" not in text
    assert "4, of which those with 80 % of the vote agree on 100.0 % of nodes" in text
    rows = [text.index(row) for row in ("near neighbourhood 55.0 % 80.0 % 95.0 %", "features 10.0 % 52.0 % 50.0 %")]
    assert rows == sorted(rows)
    assert "structure 5.0 % not known 40.0 %" in text
    assert "nan" not in fit_html(weighed)


def test_little_teaching_is_remarked_on_the_page(model):
    text = Checked(fit_html(replace(model, peer_distributions_=None, peer_report_=made_up_report(teaching=0.2)))).text
    assert "The given labels say little, so the peers hardly teach each other." in text


def test_methods_without_weighted_votes_say_nothing_of_them(model):
    page = fit_html(model)
    assert "Who decides" not in page
    assert "2, which agree on" in Checked(page).text


def test_the_chart_of_the_peers_is_to_scale():
    chart = peer_chart(contributions(made_up_report()))
    bars = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', chart)]
    np.testing.assert_allclose(np.array(bars) / bars[0], np.array([55, 30, 10, 5]) / 55, atol=1e-3)
    assert (chart.count('class="ring"'), chart.count('<circle class="filled"')) == (4, 3)  # one accuracy is not known


def test_peers_weigh_on_the_map_as_in_the_vote(model):
    report = made_up_report(weights=(0.8, 0.2), names=("one", "other"), held_out=(0.5, 0.5))
    rows = fit_view.voted_rows(replace(model, peer_report_=report), np.array([7, 9]))
    roots = np.sqrt(model.peer_distributions_[:, [7, 9]])
    one, other = ((roots[:, 0] - roots[:, 1]) ** 2).sum(axis=1)  # Hellinger's distances, squared and doubled
    np.testing.assert_allclose(((rows[0] - rows[1]) ** 2).sum(), 0.8 * one + 0.2 * other, rtol=1e-5)


def test_curves_are_named_after_the_peers():
    values = np.ones((5, 2))
    ((_, chart),) = history_charts({"loss": values}, ("features", "<b>"))
    assert re.findall(r"<title>(.*?)</title>", chart) == ["features", "&lt;b&gt;"]
    ((_, chart),) = history_charts({"loss": values}, ("one", "two", "three"))
    assert re.findall(r"<title>(.*?)</title>", chart) == ["peer 1", "peer 2"]


def test_every_node_of_a_small_graph_is_on_the_map_once(model):
    page = Checked(fit_html(model))
    dots = sum(
        attributes["d"].count("M") for tag, attributes in page.tags if "dot" in attributes.get("class", "").split()
    )
    rings = sum(tag == "circle" and attributes.get("r") == "5.5" for tag, attributes in page.tags)
    assert (dots, rings) == (54, 6)


def test_warnings_are_shown(model):
    probabilities = model.label_distributions_.copy()
    probabilities[50] = [0.1, 0.8, 0.1]  # the class that this short fit predicts of nobody
    sound = replace(model, label_distributions_=probabilities)
    assert "Before you rely on this" not in fit_html(replace(sound, graph_=with_second_labels(sound)))
    labels = model.graph_.labels.copy()
    labels[5] = -1
    assert (
        "'right': one label only" in Checked(fit_html(replace(model, graph_=replace(model.graph_, labels=labels)))).text
    )


def with_second_labels(model):
    """Links that follow the predictions, so that nothing is left to warn of."""
    predicted = model.label_distributions_.argmax(1)
    same = (predicted[:, None] == predicted) & ~np.eye(60, dtype=bool)
    same[:6, :6] = model.graph_.labels[:6, None] == model.graph_.labels[:6]
    same[:3, 6:] |= True
    same |= same.T
    np.fill_diagonal(same, False)
    return replace(model.graph_, adjacency=same.astype(float))


def test_a_label_that_the_model_does_not_believe_is_listed(model):
    probabilities = model.label_distributions_.copy()
    probabilities[0] = [0.1, 0.2, 0.7]
    text = Checked(fit_html(replace(model, label_distributions_=probabilities, peer_distributions_=None))).text
    assert "Given labels that the model does not believe" in text
    assert "0 left right 70 %" in text


def test_a_large_graph_stays_a_small_page(make_graph, monkeypatch):
    monkeypatch.setattr(fit_view, "MOST_ON_MAP", 100)
    graph = make_graph(nodes=400)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    labels = np.where(np.arange(400) < 9, graph.labels, -1)
    view = fit_view.fit_view(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert len(view.map.nodes) == 100
    assert set(range(9)) <= set(view.map.nodes)
    assert {one.index for one in view.suggestions} == set(view.map.nodes[view.map.suggested])
    page = fit_html(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert "100 of 400 nodes are drawn" in page
    assert len(page) < 60_000


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
    assert ".k41{--series:hsl(" in page
    tiny = Graph(adjacency=[[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, -1, 1])
    assert Checked(fit_html(Model(tiny, create("lp"), np.array([[1, 0], [0.5, 0.5], [0, 1]])))).text


def test_every_node_given_leaves_nothing_to_suggest(make_graph):
    graph = make_graph()
    text = Checked(fit_html(Model(graph, create("lp"), np.eye(3)[graph.labels]))).text
    assert "All 40 nodes were given their class" in text
    assert "Every node has a label" in text


def test_a_page_that_cannot_be_written_is_one_clear_error(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write the page .*choose another place"):
        fit_page(model, tmp_path / "file" / "page.html")


def test_the_histogram_counts_every_node_once():
    confidence = np.array([0.25, 0.26, 0.5, 0.99, 1.0, 0.2499999])
    counts, edges = histogram(confidence, classes=4)
    assert counts.sum() == 6
    assert counts[-1] == 2
    assert edges[0] == 0.25
    assert "<rect" in confidence_chart(np.empty(0), 2)


def test_a_curve_breaks_off_where_nothing_was_written_down():
    values = np.array([[np.nan], [1.0], [2.0], [np.nan], [3.0]])
    ((name, chart),) = history_charts({"loss": values, "never": np.full((5, 1), np.nan)})
    assert name == "loss"
    (line,) = re.findall(r'class="line" d="([^"]*)"', chart)
    assert (line.count("M"), line.count("L")) == (2, 1)


def test_long_names_are_shortened():
    assert "…" in class_chart(["x" * 80, "y"], np.array([1, 1]), np.array([5, 4]))


@pytest.mark.slow
def test_the_figure_has_four_panels(model, tmp_path):
    figure = plot(model)
    titles = [panel.get_title() for panel in figure.axes]
    assert [title.split(":")[0].split(",")[0] for title in titles] == [
        "Confidence",
        "Class sizes",
        "Map",
        "Learning curves",
    ]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_figure_needs_no_screen():
    code = "import mtgcn.report.fit_page, sys; print('matplotlib' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MPLBACKEND": "no such backend"},
    )
    assert done.stdout.split() == ["False", "False"]
