"""Rows cut into blocks, and work on all of them."""

import numpy as np
import pytest
import torch

from mtgcn.linalg import blocks
from mtgcn.linalg.blocks import all_finite, blocks_of_entries, blocks_of_rows, each_block


@pytest.mark.parametrize("row_starts", [[0], [0, 0, 0], [0, 3, 3, 9, 10], [0, 100, 101, 101, 300]])
def test_blocks_cover_every_row_once(monkeypatch, row_starts):
    monkeypatch.setattr(blocks, "NUMBERS_AT_ONCE", 4)
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
    monkeypatch.setattr(blocks, "NUMBERS_AT_ONCE", 4)
    monkeypatch.setattr(blocks, "LOOKED_AT_ONCE", 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    values = np.full((4, 6), np.finfo(np.float32).max, dtype=np.float32)  # whose sum would not be
    assert all_finite(values)
    for place in np.ndindex(values.shape):
        changed = values.copy()
        changed[place] = strange
        assert not all_finite(changed)
        assert not all_finite(changed.T)
