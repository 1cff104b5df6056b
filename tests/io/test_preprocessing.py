"""Column types and fitted preprocessing. Any columns give finite features or an error in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from mtgcn.errors import InputError
from mtgcn.io.column_table import LARGEST, ColumnTable, Texts, table_of_array
from mtgcn.io.preprocessing import Preprocessor, Size, are_amounts, fit_columns, infer_types

ROWS = 100


def table_of(**columns):
    """Columns of numbers where they are an array, else of text."""
    names = tuple(columns)
    numbers = [place for place, name in enumerate(names) if isinstance(columns[name], np.ndarray)]
    rows = len(next(iter(columns.values())))
    return ColumnTable(
        names=names,
        numbers=np.column_stack([columns[names[place]] for place in numbers]) if numbers else np.zeros((rows, 0)),
        number_columns=tuple(numbers),
        texts={place: Texts.of(columns[name]) for place, name in enumerate(names) if place not in numbers},
    )


def kind_of(cells, name="column", given=None):
    [found] = infer_types(table_of(**{name: cells}), {} if given is None else {name: given})
    return "text" if found.is_text else found.dropped or found.format or "category"


def cycle(*cells):
    return [cells[row % len(cells)] for row in range(ROWS)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (cycle("1.5", "2", "NA", ""), "number"),
        (cycle("1,5", "2", "?"), "number with decimal comma"),
        (cycle("12 €", "9 €"), "category"),
        (cycle("yes", "no", "-"), "yes or no"),
        (cycle("ja", "nein"), "category"),
        (cycle("2024-01-01", "2023-05-07", None), "date iso"),
        (cycle("1.2.2024", "17.12.2023"), "date %d.%m.%Y"),
        (cycle("Köln", "Ulm", "n/a"), "category"),
        (cycle("01067", "10115", "20095"), "category"),  # zeros in front: a code
        ([f"note {row}" for row in range(ROWS)], "text"),
        ([f"t{row}" for row in range(ROWS)], "100 different values"),
        ([f"a sentence of words {row % 60}" for row in range(ROWS)], "text"),
        ([f"{row:05}" for row in range(ROWS)], "100 different values"),
        (cycle("NA", None, "?"), "empty"),
        (np.arange(ROWS) + 7.0, "ids, all different"),
        ([str(row + 7) for row in range(ROWS)], "ids, all different"),  # as text
        ([f"{row},0" for row in range(ROWS)], "ids, all different"),
        ([str(row) if row else "NA" for row in range(ROWS)], "number"),
        ([f"{row}.5" for row in range(ROWS)], "number"),
        (np.arange(ROWS) / 7, "number"),
        (np.tile([3.0, np.nan], ROWS // 2), "number"),
    ],
)
def test_infer_types(cells, kind):
    assert kind_of(cells) == kind


@pytest.mark.parametrize("name", ["customer_id", "Kundennr", "customerId", "id", "row no"])
def test_ids_are_dropped(name):
    ids = np.random.default_rng(0).permutation(10**5)[:ROWS].astype(float)
    assert kind_of(ids, name) == "ids, all different"
    assert kind_of([str(int(one)) for one in ids], name) == "ids, all different"
    assert kind_of(ids, "paid") == "number"
    assert kind_of(ids, name, given="number") == "number"


def test_arrays_are_numbers():
    [found] = infer_types(table_of(x=np.arange(ROWS) * 1.0), named=False)
    assert found.format == "number"


def test_given_kinds():
    assert kind_of(cycle("1", "2"), given="category") == "category"
    assert kind_of([f"x{row % 90}" for row in range(ROWS)], given="category") == "category"
    assert kind_of(cycle("Köln", "Ulm"), given="text") == "text"
    assert kind_of(cycle("1", "red", "blue"), given="number") == "number"
    assert kind_of(cycle("1,5", "red", "blue"), given="number") == "number with decimal comma"
    assert kind_of(cycle("2024-01-01", "soon", "later"), given="date") == "date iso"
    typed = replace(table_of(column=cycle("1", "red", "blue")), categories=frozenset({0}))
    assert [found.format for found in infer_types(typed, {"column": "number"})] == ["number"]
    with pytest.raises(InputError, match="column 'column': 'soon' is not a known date format"):
        kind_of(cycle("soon", "later"), given="date")


def test_ambiguous_commas():
    thousands = cycle("1,500", "2,250", "900")
    with pytest.raises(InputError, match="'1,500' may have a thousands or a decimal separator; write numbers without"):
        kind_of(thousands)
    assert kind_of(thousands, given="number") == "number with decimal comma"
    beside = table_of(price=cycle("1,5", "2,25"), sales=thousands, size=cycle("1.5", "900"))
    assert [found.format for found in infer_types(beside)] == [*["number with decimal comma"] * 2, "number"]
    with pytest.raises(InputError, match=r"'1\.500' may have a thousands"):
        infer_types(table_of(price=cycle("1,5", "2,25"), size=cycle("1.500", "900")))
    assert kind_of(cycle("1.500", "900")) == "number"


def test_typing_errors():
    def cells(errors):
        return ["odd"] * errors + [str(row) for row in range(ROWS - errors)]

    for errors in (1, 10):
        with pytest.raises(InputError, match=rf"{errors} of 100 values are not numbers \(row 0 'odd'"):
            kind_of(cells(errors))
    assert kind_of(cells(11)) == "90 different values"


def amounts(table):
    return are_amounts([Size.of(np.asarray(column, dtype=np.float64)) for column in np.asarray(table).T])


@pytest.mark.parametrize("load", [load_wine, load_iris, load_breast_cancer])
def test_measurements(load):
    assert not any(amounts(load().data))


@pytest.mark.parametrize("divisor", [1, 16])
@pytest.mark.parametrize("images", [40, 1797])  # in few images some pixels are never white
def test_pixels(divisor, images):
    assert all(amounts(load_digits().data[:images] / divisor))


def test_words_beside_a_measurement():
    random = np.random.default_rng(0)
    words = random.poisson(0.1, (100, 60)).astype(float)
    words[:, 0] = random.poisson(3, 100)  # a frequent word, seldom zero
    words[0, 0] = 0
    income = random.normal(45000, 9000, 100)
    assert amounts(np.column_stack([words, income])) == [True] * 60 + [False]


def test_counts():
    random = np.random.default_rng(0)
    visits = random.poisson([3, 5, 9], (50, 3)).astype(float)
    visits[0] = 0
    assert amounts(visits) == [True] * 3
    assert not any(amounts(visits * [1, 1, 100]))  # one dwarfs the others
    assert not any(amounts(visits + np.array([0, 0, 18])))  # ages do not begin at zero
    assert not any(amounts(visits + 0.5))
    assert not any(amounts(visits[:, :1]))  # there is nothing to compare it with


def test_standardised_numbers():
    table = table_of_array(np.array([[1.5, 10000], [2.5, 30000], [3.5, 20000]]), ["a", "b"])
    preprocessing = fit_columns(table)
    spread = np.sqrt(1.5)
    assert np.allclose(preprocessing.matrix(table), [[-spread, -spread], [0, spread], [spread, 0]])
    assert preprocessing.lines() == ["a: standardised", "b: standardised"]
    assert fit_columns(table, scale=False).matrix(table).tolist() == [[1.5, 10000], [2.5, 30000], [3.5, 20000]]


def test_missing_numbers():
    table = table_of_array(np.array([[1.0], [np.nan], [2.0], [6.0]]), ["a"])
    preprocessing = fit_columns(table)
    assert preprocessing.names == ("a", "a missing")
    filled, marked = preprocessing.matrix(table).T
    assert marked.tolist() == [0, 1, 0, 0]
    assert filled[1] == filled[2]  # 2 is the median
    assert preprocessing.lines() == ["a: standardised, missing values filled and marked"]
    # Without a gap in the fit there is no mark; a later gap is filled.
    whole = fit_columns(table_of_array(np.array([[1.0], [2.0], [6.0]]), ["a"]))
    assert whole.names == ("a",)
    assert np.allclose(whole.matrix(table)[1], (2 - 3) / np.sqrt(14 / 3))


def test_heavy_tail():
    random = np.random.default_rng(0)
    values = np.column_stack([np.exp(1.5 * random.standard_normal(500) + 8), random.standard_normal(500)])
    table = table_of_array(values, ["sales", "height"])
    preprocessing = fit_columns(table)
    assert preprocessing.lines() == ["sales: logarithm, standardised", "height: standardised"]
    sales, height = preprocessing.matrix(table).T
    assert np.array_equal(np.argsort(sales, kind="stable"), np.argsort(values[:, 0], kind="stable"))
    assert np.abs(sales).max() < 3.5
    assert np.allclose(height, (values[:, 1] - values[:, 1].mean()) / values[:, 1].std(), atol=1e-5)


def test_heavy_tail_of_both_signs():
    table = table_of_array(np.array([*np.linspace(-2, 2, 200), -1e6, 1e6])[:, None], ["gain"])
    gain = fit_columns(table).matrix(table)[:, 0]
    assert gain[-2] == gain.min() == pytest.approx(-gain.max())
    assert gain[-1] < 4


def test_category():
    cells = ["Ulm"] * 60 + ["Köln"] * 30 + ["Hof"] * 8 + ["Gera", "Kiel"]
    preprocessing = fit_columns(table_of(city=cells))
    assert preprocessing.names == ("city=Hof", "city=Köln", "city=Ulm", "city=other")
    assert preprocessing.lines() == ["city: 5 values, one-hot, 2 rare ones pooled"]
    new = preprocessing.matrix(table_of(city=["Köln", "Kiel", "Paris", "", "Ulm"]))
    assert new.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_category_limit():
    cells = [f"v{row % 80}" for row in range(800)]
    assert len(fit_columns(table_of(code=cells)).names) == 51


def test_dates_and_booleans():
    table = table_of(joined=["1.1.2024", "3.1.2024", ""], member=["yes", "no", "yes"])
    preprocessing = fit_columns(table)
    assert preprocessing.names == ("member", "joined", "joined missing")  # unchanged columns come first
    assert np.allclose(preprocessing.matrix(table), [[1, -1, 0], [0, 1, 0], [1, 0, 1]])
    assert preprocessing.lines() == [
        "joined: days (written day, month, year), standardised, missing values filled and marked",
        "member: yes or no",
    ]
    assert fit_columns(table, scale=False).matrix(table)[0, 1] == -1  # dates are standardised without scale, too


def test_dropped_columns():
    table = table_of(country=["DE"] * 4, gone=["NA", "", None, "?"], note=["a", "b", "c", "d"], k=["1", "1", "1", "1"])
    preprocessing = fit_columns(table)
    assert preprocessing.names == ()
    assert preprocessing.matrix(table).shape == (4, 0)
    assert preprocessing.lines() == [
        "country: left out, always 'DE'",
        "gone: left out, empty",
        "note: left out, 4 different values",
        "k: left out, always 1",
    ]


def test_constant_with_gaps():
    table = table_of_array(np.array([[7.0], [np.nan], [7.0]]), ["a"])
    assert fit_columns(table).matrix(table).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_words_stay_as_given():
    words = sp.csr_array(sp.random_array((50, 200), density=0.03, rng=np.random.default_rng(0)), dtype=np.float32)
    words.data[:] = np.ceil(words.data * 3)
    preprocessing = fit_columns(table_of_array(words))
    assert preprocessing.changes_nothing
    assert (preprocessing.matrix(table_of_array(words)) != words).nnz == 0
    assert preprocessing.lines() == ["column 1, column 2 and 198 more: as given"]


def test_words_stay_sparse():
    random = np.random.default_rng(0)
    words = (random.random((80, 40)) < 0.02).astype(np.float32)
    table = table_of_array(sp.csr_array(np.column_stack([random.normal(45000, 5000, 80), words])))
    preprocessing = fit_columns(table)
    found = preprocessing.matrix(table)
    assert sp.issparse(found)
    assert preprocessing.names[-1] == "column 1"
    assert np.array_equal(found[:, :-1].toarray(), words[:, words.any(axis=0)])
    assert found[:, [-1]].toarray().std() == pytest.approx(1, abs=1e-5)


def test_array_of_constants():
    ones = np.ones((4, 2), np.float32)
    assert fit_columns(table_of_array(ones), named=False).matrix(table_of_array(ones)).tolist() == ones.tolist()


VALUES = np.array([[0, 1.5, 0], [2, 0, 0], [0, -3, np.nan]], dtype=np.float32)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_table_columns(form):
    table = ColumnTable(("a", "b", "c"), form(VALUES), (2, 0, 1), absent=2)  # c, a, b stand in this order
    for name, place in (("c", 0), ("a", 1), ("b", 2)):
        found = table.number(table.names.index(name))
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [*VALUES[:, place], np.nan, np.nan])


def test_sparse_duplicates():
    twice = sp.csr_array(([1.0, 2.0, 5.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    np.testing.assert_array_equal(table_of_array(twice).number(1), [3, 0])
    assert twice.nnz == 3


LENGTH = 12
words = st.sampled_from(
    ["", "NA", "?", "ja", "1", "2,5", "1.234", "007", "-3e4", "2024-01-01", "31.12.2023", "Köln", "Ulm", "x y", "∞"]
)


def column(cells):
    return st.lists(cells, min_size=LENGTH, max_size=LENGTH)


text_columns = st.one_of(
    *map(column, (words, st.text(max_size=5), st.sampled_from(["1", "2,5", "NA", "3"]))),
    column(st.sampled_from(["1.2.2024", "-", "3.4.2023"])),
)
number_columns = column(
    st.floats(allow_infinity=False, width=32) | st.integers(0, 3).map(float) | st.sampled_from([0.0, 1.0, 1e30, -1e-30])
)
tables = st.lists(st.one_of(text_columns, number_columns), min_size=1, max_size=4)


def any_table(columns, absent=0):
    typed = [column if isinstance(column[0], str) else np.array(column, np.float32) for column in columns]
    return replace(table_of(**{f"c{place}": column for place, column in enumerate(typed)}), absent=absent)


def answer_or_line(ask):
    """The answer; None for an error in one line."""
    try:
        return ask()
    except InputError as error:
        message = str(error)
    assert message.count("\n") == 0
    return None


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@example(columns=[[0.0] * (LENGTH - 1) + [LARGEST]], absent=0, scale=True)  # learned numbers are as large
@example(columns=[[0.0] * (LENGTH // 2) + [LARGEST] * (LENGTH - LENGTH // 2)], absent=1, scale=False)
@given(columns=tables, absent=st.integers(0, 2), scale=st.booleans())
def test_any_table(columns, absent, scale):
    table = any_table(columns, absent)
    preprocessing = answer_or_line(lambda: fit_columns(table, scale=scale))
    if preprocessing is None:
        return
    matrix = preprocessing.matrix(table)
    assert matrix.shape == (LENGTH + absent, len(preprocessing.names))
    assert np.isfinite(matrix).all()
    assert len(preprocessing.lines()) == len(columns)
    kept = Preprocessor.of(json.loads(json.dumps(preprocessing.plain())))
    assert (kept, hash(kept)) == (preprocessing, hash(preprocessing))
    assert np.array_equal(kept.matrix(table), matrix)
    # A single row is transformed as among the others.
    alone = any_table([column[3:4] for column in columns])
    assert np.array_equal(kept.matrix(alone), matrix[3:4])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(columns=tables, others=st.data())
def test_any_other_table(columns, others):
    preprocessing = answer_or_line(lambda: fit_columns(any_table(columns)))
    new = [others.draw(st.one_of(text_columns, number_columns)) for _ in columns]
    matrix = None if preprocessing is None else answer_or_line(lambda: preprocessing.matrix(any_table(new)))
    assert matrix is None or np.isfinite(matrix).all()
