"""Any columns give finite features or an error in one line; new rows are transformed like those of the fit."""

import json

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mtgcn.errors import InputError
from mtgcn.io.preprocessing.column_table import ColumnTable, Texts
from mtgcn.io.preprocessing.fit import fit_columns
from mtgcn.io.preprocessing.preprocessor import Preprocessor
from mtgcn.io.preprocessing.values import LARGEST

ROWS = 12
words = st.sampled_from(
    ["", "NA", "?", "ja", "1", "2,5", "1.234", "007", "-3e4", "2024-01-01", "31.12.2023", "Köln", "Ulm", "x y", "∞"]
)


def column(cells):
    return st.lists(cells, min_size=ROWS, max_size=ROWS)


text_columns = st.one_of(
    *map(column, (words, st.text(max_size=5), st.sampled_from(["1", "2,5", "NA", "3"]))),
    column(st.sampled_from(["1.2.2024", "-", "3.4.2023"])),
)
number_columns = column(
    st.one_of(
        st.floats(allow_infinity=False, width=32),
        st.integers(0, 3).map(float),
        st.sampled_from([0.0, 1.0, 1e30, -1e-30]),
    )
)
tables = st.lists(st.one_of(text_columns, number_columns), min_size=1, max_size=4)


def table_of(columns, absent=0):
    numbers = [place for place, column in enumerate(columns) if not isinstance(column[0], str)]
    dense = np.array([columns[place] for place in numbers], np.float32).reshape(len(numbers), len(columns[0])).T
    return ColumnTable(
        names=tuple(f"c{place}" for place in range(len(columns))),
        numbers=dense,
        number_columns=tuple(numbers),
        texts={place: Texts.of(column) for place, column in enumerate(columns) if place not in numbers},
        absent=absent,
    )


def answer_or_line(ask):
    """The answer; None for an error in one line."""
    try:
        return ask()
    except InputError as error:
        message = str(error)
    assert message.count("\n") == 0
    return None


@settings(max_examples=150, deadline=None)
@example(columns=[[0.0] * (ROWS - 1) + [LARGEST]], absent=0, scale=True)  # learned numbers are as large
@example(columns=[[0.0] * (ROWS // 2) + [LARGEST] * (ROWS - ROWS // 2)], absent=1, scale=False)
@given(columns=tables, absent=st.integers(0, 2), scale=st.booleans())
def test_any_table(columns, absent, scale):
    table = table_of(columns, absent)
    preprocessing = answer_or_line(lambda: fit_columns(table, scale=scale))
    if preprocessing is None:
        return
    matrix = preprocessing.matrix(table)
    assert matrix.shape == (ROWS + absent, len(preprocessing.names))
    assert np.isfinite(matrix).all()
    assert len(preprocessing.lines()) == len(columns)
    kept = Preprocessor.of(json.loads(json.dumps(preprocessing.plain())))
    assert np.array_equal(kept.matrix(table), matrix)
    # A single row is transformed as among the others.
    alone = table_of([column[3:4] for column in columns])
    assert np.array_equal(kept.matrix(alone), matrix[3:4])


@settings(max_examples=100, deadline=None)
@given(columns=tables, others=st.data())
def test_any_other_table(columns, others):
    preprocessing = answer_or_line(lambda: fit_columns(table_of(columns)))
    new = [others.draw(st.one_of(text_columns, number_columns)) for _ in columns]
    matrix = None if preprocessing is None else answer_or_line(lambda: preprocessing.matrix(table_of(new)))
    assert matrix is None or np.isfinite(matrix).all()
