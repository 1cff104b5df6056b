"""Tables: the forest, how a table is recognised, and its views."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_breast_cancer

from mtgcn.graph import Graph
from mtgcn.linalg.neighbours import neighbour_graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.methods.mt_plus.forest import Forest, grow
from mtgcn.methods.mt_plus.views import COLUMNS, FOREST, GRAPH_VIEWS, TABLE_VIEWS, WAVES, is_table
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CPU = torch.device("cpu")
SMALL = create("mt-plus", forest_trees=8, forest_depth=3, leaf_prior=0.0)


@pytest.fixture(scope="module")
def table():
    cells = load_breast_cancer()
    rows = ((cells.data - cells.data.mean(0)) / cells.data.std(0)).astype(np.float32)
    return Graph(neighbour_graph(rows, 10), rows, cells.target)


def test_forest_finds_the_column_that_tells_the_classes():
    """Two bits of one column tell the classes, which no linear function does; other columns are noise."""
    random = np.random.default_rng(0)
    rows = torch.from_numpy(random.normal(size=(1, 60, 3)).astype(np.float32))
    classes = ((rows[..., 1] > -0.5) & (rows[..., 1] < 0.5)).long()
    weights = torch.full((1, 1, 60), 1 / 60)
    (forest,) = grow(rows, classes, 2, weights, replace(SMALL, forest_trees=32, forest_depth=4))
    assert (forest.logits(rows).argmax(-1) == classes).float().mean() > 0.95
    new = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, -2.0, 0.0]])
    assert forest.logits(new)[0].argmax(-1).tolist() == [1, 0, 0]


def test_forest_ignores_rows_of_weight_zero_and_their_order():
    random = np.random.default_rng(1)
    rows = torch.from_numpy(random.normal(size=(1, 40, 4)).astype(np.float32))
    classes, weights = torch.from_numpy(random.integers(3, size=(1, 40))), torch.ones(1, 1, 40)
    weights[..., 25:] = 0
    (forest,) = grow(rows, classes, 3, weights, SMALL)
    order = torch.from_numpy(random.permutation(25))
    (same,) = grow(rows[:, order], classes[:, order], 3, weights[..., order], SMALL)
    torch.testing.assert_close(forest.logits(rows), same.logits(rows))
    again = Forest.of(forest.tensors)
    assert torch.equal(again.logits(rows[0]), forest.logits(rows[0]))


def test_leaf_of_a_pure_class():
    rows, classes = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0, 1]])
    (forest,) = grow(rows, classes, 2, torch.full((1, 1, 2), 0.5), SMALL)
    shares = forest.logits(rows[0]).exp()[0]
    torch.testing.assert_close(shares, torch.tensor([[1, 1e-3], [1e-3, 1]]))


def test_a_table_is_recognised_by_its_edges(table):
    assert is_table(table)
    order = np.random.default_rng(0).permutation(table.num_nodes)
    assert not is_table(replace(table, adjacency=table.adjacency[order][:, order]))  # edges of other rows
    assert not is_table(replace(table, features=sp.csr_array(table.features)))
    assert not is_table(replace(table, features=None))
    assert not is_table(replace(table, features=np.ones_like(table.features)))
    assert not is_table(Graph(neighbour_graph(table.features[:6], 5), table.features[:6]))  # all are neighbours


def test_views_of_a_table(table):
    method = create("mt-plus", rounds=3)
    task = observe(table, draw_splits(table, 5, 1, 0), 0)
    prediction = fit_in_chunks(method, task)  # which checks that parameters are finite
    assert prediction.peer_report.names == TABLE_VIEWS
    assert {COLUMNS, WAVES, FOREST} == set(TABLE_VIEWS) - set(GRAPH_VIEWS)
    assert (prediction.probabilities[0].argmax(1) == table.labels).mean() > 0.9
    # A stored model predicts the same rows alike.
    again = method.apply(prediction.parameters, table.without_labels)
    np.testing.assert_allclose(again, prediction.peers, atol=1e-5)
    new = Graph(sp.csr_array((2, 2), dtype=np.float32), table.features[:2])
    found = method.apply_to_new(prediction.parameters, table.without_labels, new, table.adjacency[:2], CPU, {})
    assert abs(prediction.parameters["forest/thresholds"]).max() < 1e6  # also of nodes without a row
    forest = TABLE_VIEWS.index(FOREST)
    np.testing.assert_allclose(found[:, forest], prediction.peers[:, forest, :2], atol=1e-6)


def test_settings_of_a_table():
    method = create("mt-plus", table_prior_features=7.0)
    assert method.for_table.prior_features == 7.0
    assert method.prior_features != 7.0


def test_many_labels_of_a_table(table):
    """Labels are then cross-validated one fold after the other."""
    rows = np.repeat(table.features, 2, 0) + np.random.default_rng(0).normal(0, 0.1, (1138, 30)).astype(np.float32)
    graph = Graph(neighbour_graph(rows, 10), rows, np.repeat(table.labels, 2))
    split = draw_splits(graph, 300, 1, 0)
    report = create("mt-plus", rounds=1).fit(observe(graph, split, 0)).peer_report
    assert (report.held_out_accuracy > 0.9).all()
