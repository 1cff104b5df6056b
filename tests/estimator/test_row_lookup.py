"""Rows that stand in another table as well."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.estimator import row_lookup
from mtgcn.estimator.row_lookup import NOWHERE, first_equal, same_table


def as_dense(table):
    return np.asarray(table, dtype=np.float32)


def as_sparse(table):
    return sp.csr_array(as_dense(table))


@pytest.mark.parametrize("form", [as_dense, as_sparse])
@pytest.mark.parametrize("other", [as_dense, as_sparse])
def test_the_first_equal_row_is_found_whatever_its_form(form, other):
    random = np.random.default_rng(0)
    table = random.integers(0, 3, (200, 4))  # 81 different rows, so that most stand there more than once
    rows = np.concatenate([table[::7], random.integers(0, 4, (50, 4))])
    places = [next((place for place, one in enumerate(table) if (one == row).all()), NOWHERE) for row in rows]
    np.testing.assert_array_equal(first_equal(form(table), other(rows)), places)


def test_zeros_of_either_sign_are_equal():
    assert first_equal(as_dense([[0.0, 1.0]]), as_dense([[-0.0, 1.0]])) == [0]


def test_equal_fingerprints_do_not_make_rows_equal(monkeypatch):
    monkeypatch.setattr(row_lookup, "_fingerprints", lambda table: np.zeros(len(table), dtype=np.uint64))
    assert first_equal(as_dense([[1.0]]), as_dense([[2.0]])) == [NOWHERE]


def test_rows_are_found_also_where_a_table_is_hashed_in_parts(monkeypatch):
    monkeypatch.setattr(row_lookup, "NUMBERS_AT_ONCE", 3)
    table = as_dense(np.arange(20).reshape(10, 2))
    np.testing.assert_array_equal(first_equal(table, table[::-1]), np.arange(10)[::-1])


def test_same_table():
    table = as_dense([[1, 0], [0, 2]])
    assert same_table(table, as_sparse(table))
    assert not same_table(table, table[::-1])
    assert not same_table(table, table[:1])
