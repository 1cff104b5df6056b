"""`mt-gcn` with every backbone, beyond the contract of every method, and stacks of a user's own module."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from mtgcn.errors import InputError
from mtgcn.methods import create, method_from_text
from mtgcn.methods.mt_gcn import MTGCN
from mtgcn.nn.backbones import BACKBONES, ModuleNetwork
from mtgcn.splits import draw_splits
from mtgcn.task import observe
from mtgcn.training.loop import Adam, Phase, Step, train
from own_modules import NeighbourSum, WeightedSum

pytestmark = pytest.mark.slow

EVERY = {**{name: name for name in BACKBONES}, "own module": WeightedSum}
QUICK = {"warmup_epochs": 5, "teaching_epochs": 5}


@pytest.mark.parametrize("backbone", EVERY.values(), ids=EVERY)
def test_best_training_checkpoint_of_awkward_graphs(backbone, awkward):
    method = create("mt-gcn", **QUICK, backbone=backbone, checkpoint="best-training")
    probabilities = method.fit(observe(awkward, draw_splits(awkward, 2, 2, seed=0), seed=0)).probabilities
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)


def test_backbones_differ(task):
    answers = [create("mt-gcn", **QUICK, backbone=backbone).fit(task).probabilities for backbone in EVERY.values()]
    for one, other in combinations(answers, 2):
        assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("name", BACKBONES)
def test_bytes_grow_with_the_network(name, task):
    small, large = (create("mt-gcn", backbone=name, hidden_channels=width).bytes_per_run(task) for width in (8, 64))
    assert 0 < small < large


IGNORED = {"hidden_channels": 32, "dropout": 0.1, "decay_on": "first-layer", "bias": False, "init": "glorot"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": "gnc"}, "unknown backbone 'gnc'; did you mean 'gcn'"),
        ({"backbone": 3}, "backbone is a int; give a name"),
        *(
            ({"backbone": WeightedSum, setting: value}, f"{setting} has no effect on a user-defined module")
            for setting, value in IGNORED.items()
        ),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        create("mt-gcn", **settings)


def test_backbone_from_text():
    assert method_from_text("mt-gcn", ["backbone=appnp"]).backbone == "appnp"


class Normed(NeighbourSum):
    def __init__(self, features=12, classes=3):
        super().__init__(features, classes)
        self.norm = nn.BatchNorm1d(classes)

    def forward(self, x, edge_index):
        return self.norm(super().forward(x, edge_index))


@pytest.fixture
def task(make_graph):
    graph = make_graph(weighted=True)
    return observe(graph, draw_splits(graph, 2, 3, seed=0), seed=0)


@pytest.fixture
def stack(task):
    def build(backbone, peers=2):
        return ModuleNetwork(task, peers, MTGCN(backbone=backbone))

    return build


def test_module_stack_matches_dense(stack, task, dense_features):
    graph, network = task.graph, stack(WeightedSum().double())
    network.eval()
    logits = network.logits()
    assert (logits.shape, logits.dtype) == ((40, 3, 3, 2), torch.float32)
    features = dense_features(graph)
    near = torch.from_numpy(graph.adjacency.toarray().astype(np.float64)) @ features
    weight, bias = (getattr(network, name).detach().double() for name in ("layer/weight", "layer/bias"))
    for run, peer in np.ndindex(3, 2):
        expected = torch.cat([features, near], 1) @ weight[run, peer].T + bias[run, peer]
        torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
    assert len(weight.flatten(0, 1).unique(dim=0)) == 6


def test_module_from_a_factory(stack):
    made = []

    def factory(features, classes):
        made.append((features, classes))
        return NeighbourSum(features, classes)

    network = stack(factory)
    assert made == [(12, 3)] * 6
    assert torch.equal(stack(NeighbourSum).probabilities(), network.probabilities())


def test_modules_are_seeded_by_run_and_restore_the_generator(stack):
    module = NeighbourSum()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = stack(module).probabilities()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(stack(NeighbourSum()).probabilities(), first)


def test_module_dropout(stack):
    network = stack(NeighbourSum())
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


def test_buffers_belong_to_each_model(stack, task):
    network = stack(Normed())
    network.train()
    network.new_epoch()
    network.logits()
    counted = network.clone_parameters()
    assert counted["norm/num_batches_tracked"].tolist() == [[1, 1]] * 3
    means = counted["norm/running_mean"].flatten(0, 1)
    assert len(means.unique(dim=0)) == 6
    trained = {name for name, _ in network.named_parameters()}
    assert trained == {"layer/weight", "layer/bias", "norm/weight", "norm/bias"}
    method = create("mt-gcn", **QUICK, backbone=Normed(), checkpoint="best-training")
    found = method.fit(task)  # loads buffers as well
    np.testing.assert_allclose(method.apply(found.parameters, task.graph), found.peers, atol=1e-6)


def test_frozen_and_unused_parameters_are_not_trained(stack):
    class Half(NeighbourSum):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(2, 2)
            self.layer.bias.requires_grad_(False)

    network = stack(Half())
    before = network.clone_parameters()
    train(network, [Phase(2, lambda: Step({"sum": network.logits().sum((0, 1))}))], Adam(0.1))
    after = network.clone_parameters()
    changed = [name for name, values in after.items() if not torch.equal(values, before[name])]
    assert changed == ["layer/weight"]


class Needy(nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()


class Fixed(nn.Module):
    def forward(self, x, edge_index):
        return x[:, :3]


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (nn.Linear(12, 3), r"forward of Linear takes \(input\); give a module that takes \(x, edge_index\)"),
        (NeighbourSum(12, 4), r"NeighbourSum returned a tensor of \(40, 4\), expected 40 nodes x 3 classes"),
        (lambda features, classes: "no", r"backbone\(features, classes\) made a str"),
        (lambda features, classes: Fixed(), "Fixed has no trainable parameter that affects its output"),
        (Needy, r"Needy takes \(in_channels, hidden_channels, out_channels\); give a function of"),
    ],
)
def test_invalid_modules_are_refused(stack, backbone, message):
    with pytest.raises(InputError, match=message):
        stack(backbone).logits()


def test_parameters_without_reset_are_refused(stack):
    class Scaled(NeighbourSum):
        def __init__(self, features=12, classes=3):
            super().__init__(features, classes)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x, edge_index):
            return self.scale * super().forward(x, edge_index)

    with pytest.raises(InputError, match=r"Scaled has a parameter 'scale' but no reset_parameters\(\)"):
        stack(Scaled())
    assert stack(Scaled).probabilities().isfinite().all()


def test_bytes_of_a_module(task):
    class Wide(NeighbourSum):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(24, 1000), nn.ReLU(), nn.Linear(1000, 3))

    narrow, wide = (ModuleNetwork.bytes_per_model(task, MTGCN(backbone=one)) for one in (NeighbourSum(), Wide()))
    grown = 4 * 4 * (24 * 1000 + 1000 + 3000 + 3) + 40 * 1000 * 4  # parameters, and the hidden layer at 40 nodes
    assert wide - narrow == pytest.approx(grown, rel=0.05)


def test_pytorch_geometric_modules(stack, task):
    pyg = pytest.importorskip("torch_geometric.nn")
    lazy = pyg.GCN(-1, hidden_channels=8, num_layers=2, out_channels=3, dropout=0.5)
    for backbone in (lazy, pyg.GCNConv(12, 3), pyg.GATConv(12, 3), pyg.SAGEConv(12, 3)):
        probabilities = create("mt-gcn", **QUICK, backbone=backbone).fit(task).probabilities
        np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
