import numpy as np
import pytest
import torch

from mtgcn.nn.layers import DropoutStream, uniform

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
        assert torch.equal(together.kept_by(some, runs), whole[some, runs])
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
