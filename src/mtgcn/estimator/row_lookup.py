"""Which rows of a table stand in another table as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, UInt64

Table = Any  # sp.csr_array | np.ndarray of 32-bit floats; scipy's arrays are untyped

NOWHERE = -1
NUMBERS_AT_ONCE = 2**22  # hashed together, so that little memory is taken beside the table


def same_table(one: Table, other: Table) -> bool:
    """Whether both hold the same numbers in the same places."""
    return one.shape == other.shape and bool(_rows_equal(one, other).all())


def first_equal(table: Table, rows: Table) -> Int[np.ndarray, "rows"]:
    """For each of `rows`, the first row of `table` with the same numbers; `NOWHERE` if there is none.

    >>> table = np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32)
    >>> first_equal(table, np.array([[3, 4], [4, 3], [1, 2]], dtype=np.float32))
    array([ 1, -1,  0])
    """
    known, wanted = _fingerprints(table), _fingerprints(rows)
    order = np.argsort(known, kind="stable")  # of equal rows the first comes first
    place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    found = order[place]
    return np.where(_rows_equal(table[found], rows), found, NOWHERE)


def _rows_equal(one: Table, other: Table) -> Bool[np.ndarray, "rows"]:
    if sp.issparse(one) or sp.issparse(other):
        differing = sp.csr_array(sp.csr_array(one) != sp.csr_array(other))
        return np.diff(differing.indptr) == 0
    return (one == other).all(axis=1)


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
