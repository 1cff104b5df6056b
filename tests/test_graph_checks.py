"""Checks of counts and compressed matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import memory
from mtgcn.errors import InputError
from mtgcn.graph_checks import checked_count, compressed_matrix

DATA, INDICES, INDPTR = np.ones(4, np.float32), np.array([1, 0, 2, 1]), np.array([0, 1, 3, 4])


def test_compressed_matrix():
    dense = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert (compressed_matrix(DATA, INDICES, INDPTR, (3, 3)).toarray() == dense).all()
    tall = sp.csc_array(np.array([[1, 0], [0, 2], [3, 0]], np.float32))
    by_column = compressed_matrix(tall.data, tall.indices, tall.indptr, (3, 2), by_column=True)
    assert (by_column.toarray() == tall.toarray()).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        # scipy does not check entries before a last start of 0, and reads out of bounds on conversion.
        ({"indptr": np.array([0, 10**12, 5, 0])}, "row starts are not increasing"),
        ({"indptr": np.array([1, 1, 3, 4])}, "row starts are not increasing"),
        ({"indptr": np.array([0, 1, 3])}, "3 starts of 3 rows"),
        ({"indptr": INDPTR.astype(float)}, "indptr of type float64"),
        ({"indices": np.array([1, 0, 3, 1])}, "an index beyond 3"),
        ({"indices": np.array([1, 0, -1, 1])}, "an index beyond 3"),
        ({"indices": INDICES.astype(complex)}, "indices of type complex128"),
        ({"data": np.ones(3)}, "4 indices and 3 values"),
        ({"data": np.ones((2, 2))}, "data of type"),
        ({"shape": (3, -1)}, "a matrix of shape"),
    ],
)
def test_invalid_compressed_matrix(changed, message):
    parts = {"data": DATA, "indices": INDICES, "indptr": INDPTR, "shape": (3, 3)} | changed
    with pytest.raises(ValueError, match=message):
        compressed_matrix(**parts)


def test_count_limit(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 64 * 1000)
    assert checked_count(np.int64(1000), "edges") == 1000
    with pytest.raises(InputError, match=r"^edges numbers its nodes up to 1000, which takes .*; number them from 0"):
        checked_count(1001, "edges")


@pytest.mark.parametrize("count", [-1, 10**30, "6", 6.0, True, None])
def test_invalid_counts(count):
    with pytest.raises(InputError, match=r"^edges has"):
        checked_count(count, "edges")
