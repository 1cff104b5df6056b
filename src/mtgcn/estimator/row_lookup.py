"""Which nodes of a fit are meant: by their ids or, where there are none, by their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.shapes import Bool, Int, UInt64

Table = Any  # sp.csr_array | np.ndarray of 32-bit floats; scipy's arrays are untyped

NOWHERE = -1
NUMBERS_AT_ONCE = 2**22  # hashed together, so that little memory is taken beside the table


def place_of_ids(known: np.ndarray, ids: np.ndarray) -> Int[np.ndarray, "ids"]:
    """For each of `ids`, where it stands among those known, all of them different; `NOWHERE` if it does not.

    Ids are compared as they are written: a file in which all look like numbers gives numbers, another one texts.

    >>> place_of_ids(np.array(["7", "x", "007"]), np.array([7, 8]))
    array([ 0, -1])
    """
    if known.dtype.kind not in "iu" or ids.dtype.kind not in "iu":
        known, ids = known.astype(str), ids.astype(str)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known[order], ids), len(known) - 1)]
    return np.where(known[found] == ids, found, NOWHERE)


def place_of_rows(table: Table, rows: Table) -> Int[np.ndarray, "rows"]:
    """For each of `rows`, where a row with the same numbers stands in `table`; `NOWHERE` if there is none.

    Equal rows are taken in the order of the table: the first of them means the first there, the second the second, and
    after the last it begins again. So every row of the table itself finds its own place.

    >>> table = np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32)
    >>> place_of_rows(table, np.array([[1, 2], [4, 3], [1, 2], [3, 4], [1, 2]], dtype=np.float32))
    array([ 0, -1,  2,  1,  0])
    """
    if same_table(table, rows):  # the usual question, and answered without sorting
        return np.arange(table.shape[0])
    first_in_table, first = _first_equal(table, table), _first_equal(table, rows)
    members = np.argsort(first_in_table, kind="stable")  # equal rows beside each other, in their order
    start = np.searchsorted(first_in_table[members], first)
    size = np.searchsorted(first_in_table[members], first, side="right") - start
    found = members[np.minimum(start + _occurrence(first) % np.maximum(size, 1), len(members) - 1)]
    return np.where(first == NOWHERE, NOWHERE, found)


def same_table(one: Table, other: Table) -> bool:
    """Whether both hold the same numbers in the same places."""
    return one.shape == other.shape and bool(rows_equal(one, other).all())


def rows_equal(one: Table, other: Table) -> Bool[np.ndarray, "rows"]:
    """Row by row, whether both tables hold the same numbers."""
    if sp.issparse(one) or sp.issparse(other):
        differing = sp.csr_array(sp.csr_array(one) != sp.csr_array(other))
        return np.diff(differing.indptr) == 0
    return (one == other).all(axis=1)


def _first_equal(table: Table, rows: Table) -> Int[np.ndarray, "rows"]:
    """For each of `rows`, the first row of `table` with the same numbers; `NOWHERE` if there is none."""
    known, wanted = _fingerprints(table), _fingerprints(rows)
    order = np.argsort(known, kind="stable")  # of equal rows the first comes first
    place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    found = order[place]
    return np.where(rows_equal(table[found], rows), found, NOWHERE)


def _occurrence(values: Int[np.ndarray, "rows"]) -> Int[np.ndarray, "rows"]:
    """How many equal values stand before each.

    >>> _occurrence(np.array([5, 3, 5, 5, 3]))
    array([0, 0, 1, 2, 1])
    """
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    count = np.empty(len(values), dtype=np.int64)
    count[order] = np.arange(len(values)) - np.searchsorted(in_order, in_order)
    return count


def _fingerprints(table: Table) -> UInt64[np.ndarray, "rows"]:
    """A number for each row, the same for equal rows whether they are stored as sparse or dense."""
    rows, columns = table.shape
    factors = np.random.default_rng(0).integers(1, 2**63, columns, dtype=np.uint64) | np.uint64(1)
    if sp.issparse(table):
        sums = np.zeros(table.nnz + 1, dtype=np.uint64)
        np.cumsum(_mixed(table.data, factors[table.indices]), dtype=np.uint64, out=sums[1:])  # modulo 2^64
        return np.subtract(sums[table.indptr[1:]], sums[table.indptr[:-1]])
    result = np.empty(rows, dtype=np.uint64)
    at_once = max(1, NUMBERS_AT_ONCE // columns)
    for start in range(0, rows, at_once):
        some = slice(start, start + at_once)
        _mixed(table[some], factors).sum(axis=1, dtype=np.uint64, out=result[some])
    return result


def _mixed(values: np.ndarray, factors: np.ndarray) -> np.ndarray:
    bits = (values + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 is 0, and 0 adds nothing
    bits *= factors
    return bits ^ (bits >> np.uint64(29))
