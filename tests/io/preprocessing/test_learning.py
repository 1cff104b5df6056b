"""What is learned of columns: sizes, tails, gaps, values; worked out by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.io.preprocessing.column_table import ColumnTable, Texts, table_of_array
from mtgcn.io.preprocessing.fit import fit_columns
from mtgcn.io.preprocessing.preprocessor import Preprocessor


def text_table(**columns):
    names = tuple(columns)
    return ColumnTable(
        names=names,
        numbers=np.zeros((len(columns[names[0]]), 0), np.float32),
        number_columns=(),
        texts={place: Texts.of(cells) for place, cells in enumerate(columns.values())},
    )


def test_numbers_of_unlike_size_are_standardised():
    table = table_of_array(np.array([[1.5, 10000], [2.5, 30000], [3.5, 20000]]), ["a", "b"])
    preprocessing = fit_columns(table)
    spread = np.sqrt(1.5)
    assert np.allclose(preprocessing.matrix(table), [[-spread, -spread], [0, spread], [spread, 0]])
    assert preprocessing.lines() == ["a: standardised", "b: standardised"]
    assert fit_columns(table, scale=False).matrix(table).tolist() == [[1.5, 10000], [2.5, 30000], [3.5, 20000]]


def test_gaps_are_filled_with_the_median_and_marked():
    table = table_of_array(np.array([[1.0], [np.nan], [2.0], [6.0]]), ["a"])
    preprocessing = fit_columns(table)
    assert preprocessing.names == ("a", "a missing")
    filled, marked = preprocessing.matrix(table).T
    assert marked.tolist() == [0, 1, 0, 0]
    assert filled[1] == filled[2]  # 2 is the median
    assert preprocessing.lines() == ["a: standardised, missing values filled and marked"]
    # Where the fit had no gap there is no mark, and a gap is filled all the same.
    whole = fit_columns(table_of_array(np.array([[1.0], [2.0], [6.0]]), ["a"]))
    assert whole.names == ("a",)
    assert np.allclose(whole.matrix(table)[1], (2 - 3) / np.sqrt(14 / 3))


def test_a_heavy_tail_is_tamed_and_others_are_not():
    random = np.random.default_rng(0)
    values = np.column_stack([np.exp(1.5 * random.standard_normal(500) + 8), random.standard_normal(500)])
    table = table_of_array(values, ["sales", "height"])
    preprocessing = fit_columns(table)
    assert preprocessing.lines() == ["sales: logarithm, standardised", "height: standardised"]
    sales, height = preprocessing.matrix(table).T
    assert np.array_equal(np.argsort(sales, kind="stable"), np.argsort(values[:, 0], kind="stable"))
    assert np.abs(sales).max() < 3.5
    assert np.allclose(height, (values[:, 1] - values[:, 1].mean()) / values[:, 1].std(), atol=1e-5)


def test_both_signs_of_a_heavy_tail_stay_apart():
    values = np.array([*np.linspace(-2, 2, 200), -1e6, 1e6])
    tamed = fit_columns(table_of_array(values[:, None], ["gain"])).matrix(table_of_array(values[:, None], ["gain"]))[
        :, 0
    ]
    assert tamed[-2] == tamed.min() == pytest.approx(-tamed.max())
    assert tamed[-1] < 4


def test_values_of_a_category_and_what_becomes_of_rare_and_new_ones():
    cells = ["Ulm"] * 60 + ["Köln"] * 30 + ["Hof"] * 8 + ["Gera", "Kiel"]
    preprocessing = fit_columns(text_table(city=cells))
    assert preprocessing.names == ("city=Hof", "city=Köln", "city=Ulm", "city=other")
    assert preprocessing.lines() == ["city: 5 values, one-hot, 2 rare ones pooled"]
    new = preprocessing.matrix(text_table(city=["Köln", "Kiel", "Paris", "", "Ulm"]))
    assert new.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_many_values_get_no_more_than_fifty_columns():
    cells = [f"v{row % 80}" for row in range(800)]
    assert len(fit_columns(text_table(code=cells)).names) == 51


def test_dates_are_days_and_yes_is_one():
    table = text_table(joined=["1.1.2024", "3.1.2024", ""], member=["yes", "no", "yes"])
    preprocessing = fit_columns(table)
    assert preprocessing.names == ("member", "joined", "joined missing")  # what stays as it is comes first
    assert np.allclose(preprocessing.matrix(table), [[1, -1, 0], [0, 1, 0], [1, 0, 1]])
    assert preprocessing.lines() == [
        "joined: days (written day, month, year), standardised, missing values filled and marked",
        "member: yes or no",
    ]
    assert fit_columns(table, scale=False).matrix(table)[0, 1] == -1  # days are days, whatever stays as it is


def test_columns_that_tell_nothing_are_left_out():
    table = text_table(
        country=["DE"] * 4, gone=["NA", "", None, "?"], note=["a", "b", "c", "d"], k=["1", "1", "1", "1"]
    )
    preprocessing = fit_columns(table)
    assert preprocessing.names == ()
    assert preprocessing.matrix(table).shape == (4, 0)
    assert preprocessing.lines() == [
        "country: left out, always 'DE'",
        "gone: left out, empty",
        "note: left out, 4 different values",
        "k: left out, always 1",
    ]


def test_a_constant_with_gaps_tells_where_the_gaps_are():
    table = table_of_array(np.array([[7.0], [np.nan], [7.0]]), ["a"])
    assert fit_columns(table).matrix(table).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_tables_of_words_come_out_as_they_go_in():
    words = sp.csr_array(sp.random_array((50, 200), density=0.03, rng=np.random.default_rng(0)), dtype=np.float32)
    words.data[:] = np.ceil(words.data * 3)
    preprocessing = fit_columns(table_of_array(words))
    assert preprocessing.changes_nothing
    assert (preprocessing.matrix(table_of_array(words)) != words).nnz == 0
    assert preprocessing.lines() == ["column 1, column 2 and 198 more: as given"]


def test_a_measurement_beside_words_is_standardised_and_the_words_stay_sparse():
    random = np.random.default_rng(0)
    words = (random.random((80, 40)) < 0.02).astype(np.float32)
    table = table_of_array(sp.csr_array(np.column_stack([random.normal(45000, 5000, 80), words])))
    preprocessing = fit_columns(table)
    found = preprocessing.matrix(table)
    assert sp.issparse(found)
    assert preprocessing.names[-1] == "column 1"
    assert np.array_equal(found[:, :-1].toarray(), words[:, words.any(axis=0)])
    assert found[:, [-1]].toarray().std() == pytest.approx(1, abs=1e-5)


def test_an_array_of_constants_is_better_than_nothing():
    ones = np.ones((4, 2), np.float32)
    assert fit_columns(table_of_array(ones), named=False).matrix(table_of_array(ones)).tolist() == ones.tolist()


def test_what_was_learned_comes_back_from_json():
    import json

    table = text_table(
        city=["Ulm", "Hof", "Ulm", None], size=["1,5", "2", "1e4", "3"], when=["2024-01-01", "", "2", "2024-01-03"]
    )
    preprocessing = fit_columns(table, {"when": "date"})
    back = Preprocessor.of(json.loads(json.dumps(preprocessing.plain())))
    assert back == preprocessing
    assert np.array_equal(back.matrix(table), preprocessing.matrix(table))
    assert hash(back) == hash(preprocessing)
