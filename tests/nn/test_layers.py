import numpy as np
import pytest
import torch

from mtgcn.nn.layers import DropoutStream, uniform

CPU = torch.device("cpu")
NODES = torch.arange(1000)


def stream(seeds=(11, 12, 13), units=32, rate=0.5, label=None):
    more = {} if label is None else {"label": label}
    return DropoutStream(seeds, units, rate, CPU, **more)


@pytest.mark.parametrize("rate", [0.5, 0.3, 0.8])
@pytest.mark.parametrize("units", [1, 32, 37])
def test_what_is_kept_is_one_what_is_dropped_is_zero_and_the_rate_says_how_much(rate, units):
    kept = stream(units=units, rate=rate).kept(NODES)
    assert kept.shape == (1000, 3, units)
    assert set(kept.unique().tolist()) == {0, 1}
    margin = 5 * np.sqrt(rate * (1 - rate) / kept.numel())
    assert abs(kept.mean().item() - (1 - rate)) < margin


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_every_unit_and_every_run_keeps_its_share(rate):
    kept = stream(rate=rate).kept(torch.arange(4000))
    margin = 5 * np.sqrt(rate * (1 - rate) / 4000)
    assert (kept.mean(0) - (1 - rate)).abs().max() < margin  # runs x units


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_the_mask_of_a_run_does_not_depend_on_its_neighbours(rate):
    together, alone = stream((5, 6, 7), rate=rate), stream((6,), rate=rate)
    for _ in range(3):
        assert torch.equal(together.kept(NODES)[:, 1:2], alone.kept(NODES))
        together.advance()
        alone.advance()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_the_mask_of_a_node_does_not_depend_on_which_nodes_are_asked_for(rate):
    masks = stream(rate=rate)
    masks.advance()
    whole = masks.kept(NODES)
    some = torch.tensor([999, 3, 500, 3])
    assert torch.equal(masks.kept(some), whole[some])
    runs = torch.tensor([0, 2, 1, 0])
    assert torch.equal(masks.kept_by(some, runs), whole[some, runs])


def test_masks_stay_within_an_epoch_and_change_with_the_next():
    masks = stream()
    first = masks.kept(NODES)
    assert torch.equal(masks.kept(NODES), first)
    masks.advance()
    assert not torch.equal(masks.kept(NODES), first)


def test_the_same_seeds_give_the_same_masks_epoch_after_epoch():
    one, other = stream(), stream()
    for _ in range(3):
        assert torch.equal(one.kept(NODES), other.kept(NODES))
        one.advance()
        other.advance()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_masks_of_different_runs_units_nodes_epochs_and_streams_are_independent(rate):
    masks = stream(rate=rate, units=40)
    other_label = stream(rate=rate, units=40, label=0xD1)
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
        "a node now and its neighbour in the next epoch": (now[:-1], following[1:]),
        "streams": (now, other_label.kept(NODES) != 0),
    }
    keep = 1 - rate
    expected = keep**2
    for name, (left, right) in pairs.items():
        both = (left & right).float().mean().item()
        margin = 5 * np.sqrt(expected * (1 - expected) / left.numel())
        assert abs(both - expected) < margin, name


def test_uniform_fills_the_range_and_belongs_to_the_run():
    values = uniform([1, 2, 3], (50, 40), bound=0.25, label=0)
    assert values.shape == (3, 50, 40)
    assert values.abs().max() <= 0.25
    # The largest of 6000 such numbers falls short of the bound by more than 1 % once in e^60 times.
    assert values.max() > 0.2475
    assert values.min() < -0.2475
    deviation = 0.25 / np.sqrt(3)
    assert abs(values.mean().item()) < 5 * deviation / np.sqrt(values.numel())
    assert torch.equal(uniform([2], (50, 40), bound=0.25, label=0)[0], values[1])
    assert not torch.equal(values[0], values[1])
    assert not torch.equal(uniform([1], (50, 40), bound=0.25, label=1)[0], values[0])
