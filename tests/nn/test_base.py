from itertools import combinations

import numpy as np
import pytest
import torch

from dense_networks import model_parameters
from mtgcn.nn.base import NetworkSettings, each_peer, mean_of_peers, rows_at
from mtgcn.nn.layers import DropoutStream, uniform
from mtgcn.nn.networks import GCN
from mtgcn.task import MISSING


def parameters_of(network, run, peer):
    return [*model_parameters(network, run, peer).values()]


def same(one, other):
    return [torch.equal(mine, yours) for mine, yours in zip(one, other, strict=True)]


def test_rows_and_means_by_hand():
    # Node n, class c, run r, peer p: 1000 n + 100 c + 10 r + p.
    place = torch.arange(3)[:, None, None, None] * 1000 + torch.arange(2)[:, None, None] * 100
    values = (place + torch.arange(2)[:, None] * 10 + torch.arange(2)).float()
    rows = rows_at(values, torch.tensor([[2, 0], [1, MISSING]]))
    assert rows[0, :, 0].tolist() == [[2000, 2001], [2100, 2101]]
    assert rows[1, :, 0].tolist() == [[0, 1], [100, 101]]
    assert rows[0, :, 1].tolist() == [[1010, 1011], [1110, 1111]]
    assert mean_of_peers(values)[1].tolist() == [[10.5, 110.5], [1010.5, 1110.5], [2010.5, 2110.5]]
    assert each_peer(values)[1, 0].tolist() == [[10, 110], [1010, 1110], [2010, 2110]]


@pytest.mark.parametrize("init", ["uniform", "glorot"])
def test_initial_weights_fill_their_range(two_runs, init):
    network = GCN(two_runs, 2, NetworkSettings(hidden_channels=25, init=init))
    bounds = {"uniform": [1 / 5, 1 / np.sqrt(3)], "glorot": [np.sqrt(6 / (12 + 25)), np.sqrt(6 / (25 + 3))]}[init]
    for run, peer in np.ndindex(2, 2):
        weights = parameters_of(network, run, peer)
        for weight, bias, bound in zip(weights[::2], weights[1::2], bounds, strict=True):
            assert 0.8 * bound < weight.max() <= bound
            assert -bound <= weight.min() < -0.8 * bound
            assert 0 < bias.abs().max() <= bound if init == "uniform" else not bias.any()


def test_initial_weights_depend_on_seed_and_peer_alone(two_runs):
    network, again = (GCN(two_runs, 2, NetworkSettings()) for _ in range(2))
    single = GCN(list(two_runs.chunks(1))[1], 2, NetworkSettings())
    models = [parameters_of(network, run, peer) for run, peer in np.ndindex(2, 2)]
    assert not any(any(same(*pair)) for pair in combinations(models, 2))
    for peer in range(2):
        assert all(same(models[2 + peer], parameters_of(again, 1, peer)))
        assert all(same(models[2 + peer], parameters_of(single, 0, peer)))


def test_copy_runs_copies_marked_runs(two_runs):
    network, fresh = (GCN(two_runs, 2, NetworkSettings()) for _ in range(2))
    before = network.clone_parameters()
    target = {name: torch.zeros_like(values) for name, values in before.items()}
    network.copy_runs(before, target, torch.tensor([False, True]))
    network.load_state_dict(target)
    assert before["weight0"][:, 0].any()  # a clone does not follow the network
    for peer in range(2):
        assert not any(part.any() for part in parameters_of(network, 0, peer))
        assert all(same(parameters_of(network, 1, peer), parameters_of(fresh, 1, peer)))


# Dropout and initial weights

NODES = torch.arange(1000)


def stream(seeds=(11, 12, 13), units=32, rate=0.5, **label):
    return DropoutStream(seeds, units, rate, torch.device("cpu"), **label)


@pytest.mark.parametrize("rate", [0.5, 0.3, 0.8])
@pytest.mark.parametrize("units", [1, 32, 37])
def test_mask_is_zero_or_one_at_the_rate(rate, units):
    kept = stream(units=units, rate=rate).kept(torch.arange(4000))
    assert kept.shape == (4000, 3, units)
    assert set(kept.unique().tolist()) == {0, 1}
    deviation = np.sqrt(rate * (1 - rate) / 4000)
    assert (kept.mean(0) - (1 - rate)).abs().max() < 5 * deviation  # of every run and unit
    assert abs(kept.mean().item() - (1 - rate)) < 5 * deviation / np.sqrt(3 * units)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_mask_depends_on_seed_epoch_and_node_alone(rate):
    together, alone = stream((5, 6, 7), rate=rate), stream((6,), rate=rate)
    some, runs = torch.tensor([999, 3, 500, 3]), torch.tensor([0, 2, 1, 0])
    before = None
    for _ in range(3):
        whole = together.kept(NODES)
        assert torch.equal(together.kept(NODES), whole)
        assert torch.equal(whole[:, 1:2], alone.kept(NODES))
        assert torch.equal(together.kept(some), whole[some])
        assert torch.equal(together.kept(some, runs), whole[some, runs])
        assert before is None or not torch.equal(before, whole)
        before = whole
        together.advance()
        alone.advance()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_masks_are_independent(rate):
    masks = stream(rate=rate, units=40)
    epochs = []
    for _ in range(3):
        epochs.append(masks.kept(NODES) != 0)
        masks.advance()
    now, following, later = epochs  # nodes, runs, units each
    pairs = {
        "runs": (now[:, 0], now[:, 1]),
        "neighbouring units": (now[..., :-1], now[..., 1:]),
        "units of neighbouring words": (now[..., :8], now[..., 32:]),
        "neighbouring nodes": (now[:-1], now[1:]),
        "nodes a power of two apart": (now[:-256], now[256:]),
        "neighbouring epochs": (now, following),
        "epochs two apart": (now, later),
        "a node and its neighbour in the next epoch": (now[:-1], following[1:]),
        "streams": (now, stream(rate=rate, units=40, label=0xD1).kept(NODES) != 0),
    }
    expected = (1 - rate) ** 2
    for name, (left, right) in pairs.items():
        both = (left & right).float().mean().item()
        assert abs(both - expected) < 5 * np.sqrt(expected * (1 - expected) / left.numel()), name


def test_uniform_fills_its_range_and_depends_on_seed_and_label():
    values = uniform([1, 2, 3], (50, 40), bound=0.25, label=0)
    assert values.shape == (3, 50, 40)
    # The largest of 6000 numbers misses the bound by more than 1 % with probability e^-60.
    assert 0.2475 < values.max() <= 0.25
    assert -0.25 <= values.min() < -0.2475
    assert abs(values.mean().item()) < 5 * 0.25 / np.sqrt(3) / np.sqrt(values.numel())
    assert torch.equal(uniform([2], (50, 40), bound=0.25, label=0)[0], values[1])
    assert not torch.equal(values[0], values[1])
    assert not torch.equal(uniform([1], (50, 40), bound=0.25, label=1)[0], values[0])
