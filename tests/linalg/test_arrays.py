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


@pytest.mark.parametrize("row_starts", [[0], [0, 0, 0], [0, 3, 3, 9, 10], [0, 100, 101, 101, 300]])
def test_blocks_cover_every_row_once(monkeypatch, row_starts):
    monkeypatch.setattr(arrays, "BLOCK_SIZE", 4)
    rows = len(row_starts) - 1
    for cut in (blocks_of_entries(np.array(row_starts)), blocks_of_rows(rows, width=2)):
        assert [row for block in cut for row in range(block.start, block.stop)] == list(range(rows))


def test_threads_share_the_blocks_and_hand_on_what_went_wrong(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    done = np.zeros(10)

    def mark(block):
        done[block] += 1

    each_block([slice(place, place + 1) for place in range(10)], mark)
    assert done.tolist() == [1] * 10

    def fail(block):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        each_block([slice(0, 1), slice(1, 2)], fail)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found_wherever_it_stands(monkeypatch, strange):
    monkeypatch.setattr(arrays, "BLOCK_SIZE", 4)
    monkeypatch.setattr(arrays, "LARGE_BLOCK", 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    values = np.full((4, 6), np.finfo(np.float32).max, dtype=np.float32)  # whose sum would not be
    assert all_finite(values)
    for place in np.ndindex(values.shape):
        changed = values.copy()
        changed[place] = strange
        assert not all_finite(changed)
        assert not all_finite(changed.T)


CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (8,), (37,), (5, 7, 3)])
def test_arrays_arrive_whole_in_however_many_pieces(monkeypatch, kind, shape):
    monkeypatch.setattr(arrays, "PIECE", 64)
    array = np.arange(np.prod(shape)).reshape(shape)
    array = array.astype(np.float64 if np.issubdtype(kind, np.floating) else np.int64)
    array.setflags(write=False)
    for sent in (sent_in_pieces(array, kind, CPU, pinned=False), on_device(array, kind, CPU)):
        assert sent.numpy().dtype == kind
        np.testing.assert_array_equal(sent.numpy(), array)
        for received in (received_in_pieces(sent, pinned=False), on_host(sent)):
            assert received.dtype == kind
            np.testing.assert_array_equal(received, array)


def test_an_array_that_does_not_lie_row_after_row_arrives_in_its_order(monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", 32)
    array = np.arange(60, dtype=np.float32).reshape(6, 10).T
    np.testing.assert_array_equal(sent_in_pieces(array, np.float32, CPU, pinned=False).numpy(), array)


def test_what_goes_to_a_device_is_a_copy_and_what_comes_from_main_memory_is_none():
    array = np.zeros(3, dtype=np.float32)
    sent = on_device(array, np.float32, CPU)
    sent += 1
    assert array.tolist() == [0, 0, 0]
    on_host(sent)[0] = 7
    assert sent.tolist() == [7, 1, 1]


def test_what_goes_wrong_in_a_piece_is_raised(monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", 16)
    with pytest.raises(TypeError, match="Cannot cast"):
        sent_in_pieces(np.ones(20), np.int32, CPU, pinned=False)
