import numpy as np
import pytest
import torch

from mtgcn.linalg import arrays
from mtgcn.linalg.arrays import (
    all_finite,
    blocks_of_entries,
    blocks_of_rows,
    each_block,
    on_device,
    on_host,
    received_in_pieces,
    sent_in_pieces,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("row_starts", [[0], [0, 0, 0], [0, 3, 3, 9, 10], [0, 100, 101, 101, 300]])
def test_blocks_cover_every_row_once(monkeypatch, row_starts):
    monkeypatch.setattr(arrays, "BLOCK_SIZE", 4)
    rows = len(row_starts) - 1
    for cut in (blocks_of_entries(np.array(row_starts)), blocks_of_rows(rows, width=2)):
        assert [row for block in cut for row in range(block.start, block.stop)] == list(range(rows))


def test_each_block_runs_once_and_raises(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    done = np.zeros(10)

    def mark(block):
        done[block] += 1
        if block.start == 9:
            raise ValueError("broken")

    each_block([slice(place, place + 1) for place in range(9)], mark)
    assert done.tolist() == [1] * 9 + [0]
    with pytest.raises(ValueError, match="broken"):
        each_block([slice(0, 1), slice(9, 10)], mark)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_all_finite_finds_any_value(monkeypatch, value):
    monkeypatch.setattr(arrays, "BLOCK_SIZE", 4)
    monkeypatch.setattr(arrays, "LARGE_BLOCK", 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    values = np.full((4, 6), np.finfo(np.float32).max, dtype=np.float32)  # the sum overflows
    assert all_finite(values)
    for place in np.ndindex(values.shape):
        changed = values.copy()
        changed[place] = value
        assert not all_finite(changed)
        assert not all_finite(changed.T)


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (8,), (37,), (5, 7, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_transfers_keep_every_value(monkeypatch, kind, shape, order):
    monkeypatch.setattr(arrays, "PIECE", 64)
    array = np.arange(np.prod(shape)).reshape(shape)
    array = array.astype(np.float64 if np.issubdtype(kind, np.floating) else np.int64, order=order)
    array.setflags(write=False)
    for sent in (sent_in_pieces(array, kind, CPU, pinned=False), on_device(array, kind, CPU)):
        for received in (sent.numpy(), received_in_pieces(sent.contiguous(), pinned=False), on_host(sent)):
            assert received.dtype == kind
            np.testing.assert_array_equal(received, array)


def test_only_transfers_to_a_device_copy():
    array = np.zeros(3, dtype=np.float32)
    sent = on_device(array, np.float32, CPU)
    sent += 1
    assert array.tolist() == [0, 0, 0]
    on_host(sent)[0] = 7
    assert sent.tolist() == [7, 1, 1]


def test_errors_of_a_piece_are_raised(monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", 16)
    with pytest.raises(TypeError, match="Cannot cast"):
        sent_in_pieces(np.ones(20), np.int32, CPU, pinned=False)
