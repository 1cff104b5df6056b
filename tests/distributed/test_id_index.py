"""Ids are found by their hashes, and nobody else's is taken for them."""

import numpy as np
import pyarrow as pa
import pytest

from mtgcn.distributed import id_index
from mtgcn.distributed.id_index import LargeIndex, id_hashes
from mtgcn.errors import InputError
from mtgcn.io.table import MISSING, Coded

IDS = pa.array(["b", "a", "ab", "ba", "007", "7", "Äpfel", "a" * 900])


def test_every_id_is_found_at_its_place():
    index = LargeIndex(IDS, "nodes.csv")
    assert len(index) == 8
    assert index.places(IDS).tolist() == list(range(8))
    asked = Coded(np.array([1, 0, MISSING, 2, 1]), pa.array(["7", "007", "c"]))
    assert index.find(asked).tolist() == [4, 5, MISSING, MISSING, 4]
    assert index.knows("ab")
    assert not index.knows("abb")


def test_numbers_are_found_by_how_they_are_written():
    index = LargeIndex(pa.array(["12", "-3"]), "nodes.csv")
    assert index.places(pa.array([-3, 12, 3])).tolist() == [1, 0, MISSING]


def test_hashes_do_not_depend_on_what_else_is_hashed(monkeypatch):
    whole = id_hashes(IDS)
    monkeypatch.setattr(id_index, "IDS_AT_ONCE", 3)
    np.testing.assert_array_equal(id_hashes(IDS), whole)
    np.testing.assert_array_equal(id_hashes(IDS.slice(2, 3)), whole[2:5])
    assert len(np.unique(whole)) == 16


def test_many_ids_have_different_hashes():
    ids = pa.array([str(number) for number in range(100_000)])
    assert len(np.unique(id_hashes(ids)[:, 0])) == 100_000


def test_an_id_that_stands_twice_is_named_with_its_rows():
    with pytest.raises(InputError, match=r"nodes.csv: node 'x' has two rows, numbers 2 and 4; keep one"):
        LargeIndex(pa.array(["a", "x", "b", "x"]), "nodes.csv")
    with pytest.raises(InputError, match=r"node 'a' has two rows, numbers 1 and 3 \(and 1 more\)"):
        LargeIndex(pa.array(["a", "x", "a", "x"]), "nodes.csv")


def test_ids_that_only_seem_the_same_are_refused_and_never_mixed_up(monkeypatch):
    true = id_hashes
    monkeypatch.setattr(id_index, "id_hashes", lambda ids: true(ids) * np.array([0, 1], dtype=np.uint64))
    with pytest.raises(InputError, match="cannot be told apart"):
        LargeIndex(pa.array(["a", "b"]), "nodes.csv")
