import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.nn.base import NetworkSettings, each_peer, mean_of_peers, rows_at
from mtgcn.nn.gcn import GCN
from mtgcn.task import MISSING


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


def test_initial_weights_fill_their_range(two_runs, weights_of):
    network = GCN(two_runs, 2, NetworkSettings(hidden_channels=25))
    bounds = [1 / 5, 1 / 5, 1 / np.sqrt(3), 1 / np.sqrt(3)]
    for run in range(2):
        for peer in range(2):
            weights = weights_of(network, run, peer)
            for part, bound in zip(weights, bounds, strict=True):
                assert part.abs().max() <= bound
            for part, bound in zip(weights[::2], bounds[::2], strict=True):  # the large ones
                assert part.max() > 0.8 * bound
                assert part.min() < -0.8 * bound


def test_glorot_weights_fill_their_range_and_have_no_bias(two_runs, weights_of):
    network = GCN(two_runs, 1, NetworkSettings(hidden_channels=18, init="glorot"))
    weight0, bias0, weight1, bias1 = weights_of(network, 1, 0)
    for weight, bound in ((weight0, np.sqrt(6 / (12 + 18))), (weight1, np.sqrt(6 / (18 + 3)))):
        assert 0.8 * bound < weight.max() <= bound
        assert -bound <= weight.min() < -0.8 * bound
    assert not bias0.any()
    assert not bias1.any()


def test_models_start_from_different_weights_that_depend_on_the_runs_seed_alone(two_runs, weights_of):
    network, again = (GCN(two_runs, 2, NetworkSettings()) for _ in range(2))
    (alone,) = list(two_runs.chunks(1))[1:]
    single = GCN(alone, 2, NetworkSettings())
    models = [weights_of(network, run, peer) for run in range(2) for peer in range(2)]
    for one in range(4):
        for other in range(one):
            assert all(not torch.equal(mine, yours) for mine, yours in zip(models[one], models[other], strict=True))
    for peer in range(2):
        for same in (weights_of(again, 1, peer), weights_of(single, 0, peer)):
            assert all(torch.equal(mine, yours) for mine, yours in zip(models[2 + peer], same, strict=True))


def test_without_bias_only_weights_are_trained(two_runs):
    network = GCN(two_runs, 2, NetworkSettings(bias=False))
    assert [parameter is network.weight0 or parameter is network.weight1 for parameter in network.parameters()] == [
        True,
        True,
    ]
    assert not network.bias0.any()
    assert not network.bias1.any()


def test_runs_can_be_copied_one_by_one(two_runs, weights_of):
    network = GCN(two_runs, 2, NetworkSettings())
    before = network.clone_parameters()
    target = {name: torch.zeros_like(values) for name, values in before.items()}
    network.copy_runs(before, target, torch.tensor([False, True]))
    network.load_state_dict(target)
    fresh = GCN(two_runs, 2, NetworkSettings())
    for peer in range(2):
        assert not any(part.any() for part in weights_of(network, 0, peer))
        assert all(
            torch.equal(mine, yours)
            for mine, yours in zip(weights_of(network, 1, peer), weights_of(fresh, 1, peer), strict=True)
        )


def test_a_clone_of_the_parameters_does_not_follow_them(two_runs):
    network = GCN(two_runs, 1, NetworkSettings())
    clone = network.clone_parameters()
    with torch.no_grad():
        network.weight0.zero_()
    assert clone["weight0"].any()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hidden_channels", 0),
        ("learning_rate", -0.1),
        ("weight_decay", -1),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("input_dropout", 1.5),
        ("decay_on", "some"),
        ("init", "zeros"),
        ("feature_scaling", "mean"),
    ],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(InputError, match=f"{setting} is .*{value}"):
        NetworkSettings(**{setting: value})
