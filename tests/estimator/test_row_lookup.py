"""Rows that stand in another table as well."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.estimator import row_lookup
from mtgcn.estimator.inference import MISSING, positions_of_ids, positions_of_rows, same_table


def as_dense(table):
    return np.asarray(table, dtype=np.float32)


def as_sparse(table):
    return sp.csr_array(as_dense(table))


@pytest.mark.parametrize("form", [as_dense, as_sparse])
@pytest.mark.parametrize("other", [as_dense, as_sparse])
def test_equal_rows_are_found_in_their_order_whatever_their_form(form, other):
    random = np.random.default_rng(0)
    table = random.integers(0, 3, (200, 4))  # 81 different rows, so that most stand there more than once
    rows = np.concatenate([table[::7], random.integers(0, 4, (150, 4))])
    places, seen = [], []
    for row in rows:
        equal = [place for place, one in enumerate(table) if (one == row).all()]
        before = sum((one == row).all() for one in seen)
        places.append(equal[before % len(equal)] if equal else MISSING)
        seen.append(row)
    np.testing.assert_array_equal(positions_of_rows(form(table), other(rows)), places)


@pytest.mark.parametrize("form", [as_dense, as_sparse])
def test_every_row_of_a_table_finds_its_own_place_though_others_be_equal(form):
    table = np.random.default_rng(0).integers(0, 2, (60, 3))
    np.testing.assert_array_equal(positions_of_rows(form(table), as_dense(table)), np.arange(60))
    # And where the rows come one by one, so that no shortcut is taken: the table, and one row that is new.
    longer = np.concatenate([table, [[7, 7, 7]]])
    np.testing.assert_array_equal(positions_of_rows(form(table), as_dense(longer)), [*range(60), MISSING])


def test_zeros_of_either_sign_are_equal():
    assert positions_of_rows(as_dense([[0.0, 1.0]]), as_dense([[-0.0, 1.0]])) == [0]


def test_equal_fingerprints_do_not_make_rows_equal(monkeypatch):
    monkeypatch.setattr(row_lookup, "_fingerprints", lambda table: np.zeros(len(table), dtype=np.uint64))
    assert positions_of_rows(as_dense([[1.0]]), as_dense([[2.0]])) == [MISSING]


def test_rows_are_found_also_where_a_table_is_hashed_in_parts(monkeypatch):
    monkeypatch.setattr(row_lookup, "NUMBERS_AT_ONCE", 3)
    table = as_dense(np.arange(20).reshape(10, 2))
    np.testing.assert_array_equal(positions_of_rows(table, table[::-1]), np.arange(10)[::-1])


def test_same_table():
    table = as_dense([[1, 0], [0, 2]])
    assert same_table(table, as_sparse(table))
    assert not same_table(table, table[::-1])
    assert not same_table(table, table[:1])


@pytest.mark.parametrize(
    ("known", "ids", "places"),
    [
        ([30, 10, 20], [10, 11, 30, 10], [1, MISSING, 0, 1]),
        (["c", "a", "b"], ["a", "d", "c"], [1, MISSING, 0]),
        (["7", "007", "x"], [7, 8], [0, MISSING]),  # a file of nothing but whole numbers
        ([7, 8], ["7", "007", "x"], [0, MISSING, MISSING]),
        (["short"], ["short but longer"], [MISSING]),
        ([0.5, 1.5], [1.5, 2.5], [1, MISSING]),
    ],
)
def test_ids_are_compared_as_they_are_written(known, ids, places):
    np.testing.assert_array_equal(positions_of_ids(np.array(known), np.array(ids)), places)
