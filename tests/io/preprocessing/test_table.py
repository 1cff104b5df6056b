"""Columns that are numbers already, whatever the matrix they come in."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.io.preprocessing.column_table import ColumnTable, table_of_array

VALUES = np.array([[0, 1.5, 0], [2, 0, 0], [0, -3, np.nan]], dtype=np.float32)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_column_is_what_the_matrix_holds_and_nothing_of_rows_that_are_absent(form):
    table = ColumnTable(("a", "b", "c"), form(VALUES), (2, 0, 1), absent=2)  # c, a, b stand in this order
    for name, place in (("c", 0), ("a", 1), ("b", 2)):
        found = table.number(table.names.index(name))
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [*VALUES[:, place], np.nan, np.nan])


def test_entries_of_a_sparse_matrix_that_stand_twice_are_added_up_and_the_matrix_is_left_as_it_is():
    twice = sp.csr_array(([1.0, 2.0, 5.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    np.testing.assert_array_equal(table_of_array(twice).number(1), [3, 0])
    assert twice.nnz == 3
