"""What the contract asks of every method, asked of `mt-gcn` with every backbone; and what is asked of backbones."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create, method_from_text
from mtgcn.methods.base import fit_in_chunks
from mtgcn.nn.backbones import BACKBONES
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


class OwnModule(nn.Module):
    """Two layers, each of a node and its neighbours' mean."""

    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second = nn.Linear(2 * features, 16), nn.Linear(32, classes)

    def forward(self, x, edge_index, edge_weight):
        return self.second(
            self.spread(self.first(self.spread(x, edge_index, edge_weight)).relu(), edge_index, edge_weight)
        )

    def spread(self, x, edge_index, weight):
        source, target = edge_index
        degree = torch.ones(len(x)).index_add(0, target, weight)[:, None]
        return torch.cat([x, torch.zeros_like(x).index_add(0, target, x[source] * weight[:, None]) / degree], 1)


EVERY = {**{name: name for name in BACKBONES}, "own module": OwnModule}
QUICK = {"warmup_epochs": 5, "teaching_epochs": 5}
RUNS = 2


@pytest.fixture(params=EVERY)
def backbone(request):
    return EVERY[request.param]


@pytest.fixture(scope="module")
def graph(make_graph):
    return make_graph(nodes=60, features=12)


@pytest.fixture(scope="module")
def awkward(make_graph):
    """Weighted components, a triangle of unknown classes, a lone node without features, one linked to itself alone."""
    halves = [make_graph(nodes=30, features=8, seed=seed, weighted=True) for seed in (0, 1)]
    triangle = sp.csr_array(np.array([[0, 0.5, 2], [0.5, 0, 1e-3], [2, 1e-3, 0]]))
    values = np.random.default_rng(0).random((5, 8))
    values[3] = 0
    parts = [*(half.adjacency for half in halves), triangle, sp.csr_array(np.diag([0.0, 1.5]))]
    return Graph(
        adjacency=sp.block_diag(parts, format="csr"),
        features=sp.vstack([*(half.features for half in halves), sp.csr_array(values)], format="csr"),
        labels=np.concatenate([*(half.labels for half in halves), np.full(5, -1)]),
    )


def task_of(graph, splits=None):
    return observe(graph, splits or draw_splits(graph, 2, RUNS, seed=0), seed=0)


def fit(backbone, graph, splits=None, **settings):
    return create("mt-gcn", **{**QUICK, **settings}, backbone=backbone).fit(task_of(graph, splits))


def without_chance(backbone):
    return {} if callable(backbone) else {"dropout": 0.0}  # a module has a dropout of its own, this one none


def assert_is_belief(prediction, graph):
    probabilities = prediction.probabilities
    assert probabilities.shape == (RUNS, graph.num_nodes, graph.num_classes)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)


def test_awkward_graphs_are_answered(backbone, awkward):
    assert_is_belief(fit(backbone, awkward), awkward)
    dense = Graph(awkward.adjacency, awkward.features.toarray(), awkward.labels)
    assert_is_belief(fit(backbone, dense), dense)
    with pytest.raises(InputError, match="features"):
        fit(backbone, Graph(awkward.adjacency, labels=awkward.labels))


@pytest.mark.slow
def test_classes_that_are_easy_to_tell_apart_are_learned(backbone, make_graph):
    graph = make_graph(nodes=60, features=12, easy=True)
    splits = draw_splits(graph, 2, RUNS, seed=0)
    probabilities = fit(backbone, graph, splits, warmup_epochs=100, teaching_epochs=50).probabilities
    right = [probabilities[run, split.test].argmax(1) == graph.labels[split.test] for run, split in enumerate(splits)]
    assert np.mean(right) > 0.8


def test_the_same_seed_gives_the_same_answer_bit_for_bit(backbone, graph):
    answers = []
    for state in (1, 2):
        torch.manual_seed(state)  # which is not part of the seed
        answers.append(fit(backbone, graph).probabilities)
    assert np.array_equal(*answers)


def test_runs_do_not_depend_on_the_cut(backbone, graph):
    method, task = create("mt-gcn", **QUICK, backbone=backbone), task_of(graph)
    together = fit_in_chunks(method, task).probabilities
    apart = fit_in_chunks(method, task, memory_budget=1).probabilities
    np.testing.assert_allclose(apart, together, atol=1e-4)
    assert not np.allclose(apart[0], apart[1])


def test_shuffling_nodes_shuffles_the_answer(backbone, graph):
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    place = np.argsort(order)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], graph.labels[order])
    splits = draw_splits(graph, 2, RUNS, seed=0)
    moved = [Split(place[split.train], place[split.validation], place[split.test]) for split in splits]
    expected = fit(backbone, graph, splits, **without_chance(backbone)).probabilities[:, order]
    found = fit(backbone, shuffled, moved, **without_chance(backbone)).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(np.diff(expected, axis=1)).max() > 1e-3


def test_trained_peers_are_applied_to_their_own_and_to_other_graphs(backbone, graph, make_graph):
    method = create("mt-gcn", **QUICK, backbone=backbone)
    found = method.fit(task_of(graph))
    np.testing.assert_allclose(method.apply(found.parameters, graph), found.peers, atol=1e-6)
    other = method.apply(found.parameters, make_graph(nodes=20, features=12, seed=3))
    assert other.shape == (RUNS, 2, 20, 3)
    np.testing.assert_allclose(other.sum(-1), 1, atol=1e-5)


def test_reading_as_the_authors_do(backbone, graph):
    assert_is_belief(fit(backbone, graph, checkpoint="best-training"), graph)


def test_backbones_differ(graph):
    answers = [fit(backbone, graph).probabilities for backbone in EVERY.values()]
    for number, one in enumerate(answers):
        assert all(np.abs(one - other).max() > 1e-3 for other in answers[:number])


@pytest.mark.parametrize("name", BACKBONES)
def test_a_larger_network_is_told_to_take_more(name, graph):
    task = task_of(graph)
    small, large = (create("mt-gcn", backbone=name, hidden_channels=width).bytes_per_run(task) for width in (8, 64))
    assert 0 < small < large


def test_a_backbone_is_a_setting_that_can_be_typed():
    assert method_from_text("mt-gcn", ["backbone=appnp"]).backbone == "appnp"
    with pytest.raises(InputError, match="unknown backbone 'gnc'; did you mean 'gcn'"):
        method_from_text("mt-gcn", ["backbone=gnc"])


def test_what_is_no_backbone_is_refused():
    with pytest.raises(InputError, match="backbone is a int; give a name"):
        create("mt-gcn", backbone=3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("hidden_channels", 32), ("dropout", 0.1), ("decay_on", "first-layer"), ("bias", False), ("init", "glorot")],
)
def test_settings_that_a_module_of_ones_own_would_not_heed_are_refused(setting, value):
    with pytest.raises(InputError, match=f"{setting} is .*, but a module of your own decides that itself"):
        create("mt-gcn", backbone=OwnModule, **{setting: value})
