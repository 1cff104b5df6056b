"""What there is to see of a fit, in numbers."""

from dataclasses import replace

import numpy as np

from fitted_models import Model
from mtgcn.methods import create
from mtgcn.report import fit_view
from mtgcn.report.fit_view import histogram, voted_rows
from weighted_votes import made_up_report


def test_peers_weigh_on_the_map_as_in_the_vote(fitted_model):
    report = made_up_report(weights=(0.8, 0.2), names=("one", "other"), held_out=(0.5, 0.5))
    rows = voted_rows(replace(fitted_model, peer_report_=report), np.array([7, 9]))
    roots = np.sqrt(fitted_model.peer_distributions_[:, [7, 9]])
    one, other = ((roots[:, 0] - roots[:, 1]) ** 2).sum(axis=1)  # Hellinger's distances, squared and doubled
    np.testing.assert_allclose(((rows[0] - rows[1]) ** 2).sum(), 0.8 * one + 0.2 * other, rtol=1e-5)


def test_of_a_large_graph_labelled_and_suggested_nodes_are_shown(make_graph, monkeypatch):
    monkeypatch.setattr(fit_view, "MOST_ON_MAP", 100)
    graph = make_graph(nodes=400)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    labels = np.where(np.arange(400) < 9, graph.labels, -1)
    view = fit_view.fit_view(Model(replace(graph, labels=labels), create("lp"), probabilities))
    assert len(view.map.nodes) == 100
    assert set(range(9)) <= set(view.map.nodes)
    assert {one.index for one in view.suggestions} == set(view.map.nodes[view.map.suggested])


def test_the_histogram_counts_every_node_once():
    confidence = np.array([0.25, 0.26, 0.5, 0.99, 1.0, 0.2499999])
    counts, edges = histogram(confidence, classes=4)
    assert counts.sum() == 6
    assert counts[-1] == 2
    assert edges[0] == 0.25


def test_progress_names_what_is_done(fitted_model):
    told = []
    fit_view.fit_view(fitted_model, progress=lambda *what: told.append(what))
    assert list(dict.fromkeys(what for what, _, _ in told)) == [
        "choosing nodes worth a look",
        "finding nodes that are alike",
        "placing nodes on the map",
    ]
    assert told[-1][1] == told[-1][2] > 0
