import numpy as np
import pytest
import torch
from torch import nn

from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.methods.base import fit_in_chunks
from mtgcn.nn.backbones import ModuleNetwork
from mtgcn.nn.base import NetworkSettings
from mtgcn.splits import draw_splits
from mtgcn.task import observe

QUICK = {"warmup_epochs": 4, "teaching_epochs": 4, "per_class": 3}


class Mean(nn.Module):
    """A layer on each node and the mean of its neighbours, with dropout, and with edges' weights if `weighted`."""

    def __init__(self, features=12, classes=3):
        super().__init__()
        self.layer = nn.Linear(2 * features, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, edge_index):
        return self.layer(self.dropout(torch.cat([x, self.spread(x, edge_index)], 1)))

    def spread(self, x, edge_index, weight=None):
        source, target = edge_index
        carried = x[source] if weight is None else x[source] * weight[:, None]
        return torch.zeros_like(x).index_add(0, target, carried)


class Weighted(Mean):
    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(torch.cat([x, self.spread(x, edge_index, edge_weight)], 1))


class Normed(Mean):
    def __init__(self, features=12, classes=3):
        super().__init__(features, classes)
        self.norm = nn.BatchNorm1d(classes)

    def forward(self, x, edge_index):
        return self.norm(super().forward(x, edge_index))


@pytest.fixture
def graph(make_graph):
    return make_graph(weighted=True)


@pytest.fixture
def task(graph):
    return observe(graph, draw_splits(graph, 2, 3, seed=0), seed=0)


@pytest.fixture
def stack(task):
    def build(backbone, peers=2):
        return ModuleNetwork(task, peers, NetworkSettings(), backbone)

    return build


def test_each_model_is_the_module_with_numbers_of_its_own(stack, task, graph, dense_features):
    network = stack(Weighted())
    network.eval()
    logits = network.logits()
    assert logits.shape == (40, 3, 3, 2)
    features = dense_features(graph)
    near = torch.from_numpy(graph.adjacency.toarray().astype(np.float64)) @ features
    weight, bias = (getattr(network, name).detach().double() for name in ("layer/weight", "layer/bias"))
    for run in range(3):
        for peer in range(2):
            expected = torch.cat([features, near], 1) @ weight[run, peer].T + bias[run, peer]
            torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
    assert len({tuple(weight[run, peer].flatten().tolist()) for run in range(3) for peer in range(2)}) == 6


def test_a_module_may_come_from_a_factory(stack):
    made = []

    def factory(features, classes):
        made.append((features, classes))
        return Mean(features, classes)

    network = stack(factory)
    assert made == [(12, 3)] * 6
    assert torch.equal(stack(Mean).probabilities(), network.probabilities())


def test_numbers_come_from_the_runs_seed_and_leave_torchs_generator_alone(stack):
    module = Mean()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = stack(module).probabilities()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(stack(Mean()).probabilities(), first)


def test_dropout_lasts_an_epoch_differs_between_models_and_ends_with_training(stack):
    network = stack(Mean())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1)
    network.train()
    network.new_epoch()
    first = network.logits()
    torch.randn(3)
    assert torch.equal(network.logits(), first)
    models = first.flatten(2).unbind(-1)
    assert not any(torch.equal(models[0], other) for other in models[1:])
    network.new_epoch()
    assert not torch.equal(network.logits(), first)
    probabilities = network.probabilities()
    network.new_epoch()
    assert torch.equal(network.probabilities(), probabilities)


def test_a_run_does_not_depend_on_the_stack_it_stands_in(task):
    method = create("mt-gcn", **QUICK, backbone=Mean())
    together = method.fit(task).probabilities
    apart = fit_in_chunks(method, task, memory_budget=1).probabilities
    np.testing.assert_allclose(apart, together, atol=1e-5)
    assert not np.allclose(apart[0], apart[1])


def test_what_a_module_counts_as_it_runs_is_its_own_and_is_kept(stack, task):
    network = stack(Normed())
    network.train()
    network.new_epoch()
    network.logits()
    counted = network.clone_parameters()
    assert counted["norm/num_batches_tracked"].tolist() == [[1, 1]] * 3
    means = counted["norm/running_mean"].flatten(0, 1)
    assert len(means.unique(dim=0)) == 6
    assert {name for name, _ in network.named_parameters()} == {
        "layer/weight",
        "layer/bias",
        "norm/weight",
        "norm/bias",
    }
    create("mt-gcn", **QUICK, backbone=Normed(), checkpoint="best-training").fit(task)  # loads all of them


def test_trained_modules_are_applied_to_a_graph_they_have_not_seen(task, make_graph):
    method = create("mt-gcn", **QUICK, backbone=Normed())
    found = method.fit(task)
    np.testing.assert_allclose(method.apply(found.parameters, task.graph), found.peers, atol=1e-6)
    other = make_graph(nodes=25, seed=4)
    assert method.apply(found.parameters, other).shape == (3, 2, 25, 3)


def test_parameters_that_are_frozen_or_unused_stay_as_they_are(stack):
    class Half(Mean):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(2, 2)
            self.layer.bias.requires_grad_(False)

    network = stack(Half())
    assert [name for name, _ in network.named_parameters()] == ["layer/weight"]
    assert {"layer/bias", "spare/weight", "spare/bias"} <= set(network.trained())


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (nn.Linear(12, 3), r"forward of Linear takes \(input\); give a module that takes \(x, edge_index\)"),
        (Mean(12, 4), r"Mean answers with a tensor of \(40, 4\) where 40 nodes x 3 classes are wanted"),
        (lambda features, classes: "no", "the backbone made a str of"),
        (lambda features, classes: Fixed(), "Fixed has no parameter that could be trained"),
    ],
)
def test_what_cannot_be_a_backbone_is_refused(stack, backbone, message):
    with pytest.raises(InputError, match=message):
        stack(backbone)


class Fixed(nn.Module):
    def forward(self, x, edge_index):
        return x[:, :3]


def test_a_parameter_that_cannot_be_drawn_anew_is_refused(stack):
    class Scaled(Mean):
        def __init__(self, features=12, classes=3):
            super().__init__(features, classes)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x, edge_index):
            return self.scale * super().forward(x, edge_index)

    with pytest.raises(InputError, match=r"Scaled has a parameter 'scale' but no reset_parameters\(\)"):
        stack(Scaled())
    assert stack(Scaled).probabilities().isfinite().all()


def test_bytes_are_those_of_its_numbers_and_of_what_a_pass_keeps(task):
    class Wide(Mean):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(24, 1000), nn.ReLU(), nn.Linear(1000, 3))

    narrow, wide = (ModuleNetwork.bytes_per_model(task, NetworkSettings(), one) for one in (Mean(), Wide()))
    grown = 4 * 4 * (24 * 1000 + 1000 + 3000 + 3) + 40 * 1000 * 4  # numbers, and the hidden layer at 40 nodes
    assert wide - narrow == pytest.approx(grown, rel=0.05)


@pytest.mark.slow
def test_modules_of_pytorch_geometric(stack, task):
    pyg = pytest.importorskip("torch_geometric.nn")
    lazy = pyg.GCN(-1, hidden_channels=8, num_layers=2, out_channels=3, dropout=0.5)
    for backbone in (lazy, pyg.GCNConv(12, 3), pyg.GATConv(12, 3), pyg.SAGEConv(12, 3)):
        probabilities = create("mt-gcn", **QUICK, backbone=backbone).fit(task).probabilities
        np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
