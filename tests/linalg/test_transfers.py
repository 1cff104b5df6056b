import numpy as np
import pytest
import torch

from mtgcn.linalg import transfers
from mtgcn.linalg.transfers import on_device, on_host, received_in_pieces, sent_in_pieces

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (8,), (37,), (5, 7, 3)])
def test_arrays_arrive_whole_in_however_many_pieces(monkeypatch, kind, shape):
    monkeypatch.setattr(transfers, "PIECE", 64)
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
    monkeypatch.setattr(transfers, "PIECE", 32)
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
    monkeypatch.setattr(transfers, "PIECE", 16)
    with pytest.raises(TypeError, match="Cannot cast"):
        sent_in_pieces(np.ones(20), np.int32, CPU, pinned=False)
