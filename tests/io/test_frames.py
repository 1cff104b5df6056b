"""Data frames and arrays of objects as columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mtgcn.errors import InputError
from mtgcn.io.frames import is_frame, is_mixed, split_target, table_of_frame, without_column

COLUMNS = {
    "size": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "member": [True, False, True],
    "city": ["Köln", None, " Ulm "],
    "joined": [datetime.date(1970, 1, 2), datetime.date(1970, 1, 3), None],
}


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pd.DataFrame(COLUMNS).convert_dtypes(), pa.table(COLUMNS)]
)
def test_frames(frame):
    assert is_frame(frame)
    table = table_of_frame(frame)
    assert table.names == tuple(COLUMNS)
    assert np.array_equal(table.number(0), [1.5, np.nan, 3], equal_nan=True)
    assert table.number(1).tolist() == [1, 2, 3]
    assert table.number(2).tolist() == [1, 0, 1]
    assert (table.text(3).codes.tolist(), list(table.text(3).values)) == ([0, -1, 1], ["Köln", "Ulm"])
    assert np.array_equal(table.number(4), [1, 2, np.nan], equal_nan=True)
    assert table.days == {4}


def test_categories_of_numbers():
    for frame in (
        pd.DataFrame({"code": pd.Categorical([7, 8, 7])}),
        pl.DataFrame({"code": pl.Series(["7", "8", "7"], dtype=pl.Categorical)}),
    ):
        table = table_of_frame(frame)
        assert table.categories == {0}
        assert list(table.text(0).values) == ["7", "8"]


def test_object_columns():
    frame = pd.DataFrame({"numbers": np.array([1, 2.5, None], object), "mixed": np.array(["a", 2, np.nan], object)})
    table = table_of_frame(frame)
    assert np.array_equal(table.number(0), [1, 2.5, np.nan], equal_nan=True)
    assert list(table.text(1).values) == ["a", "2"]
    objects = np.array([["Ulm", 1], ["Hof", None]], dtype=object)
    assert is_mixed(objects)
    assert table_of_frame(objects).names == ("column 1", "column 2")
    assert not is_mixed(np.array([["1", "2.5"]], dtype=object))  # numbers, as scikit-learn reads them
    assert not is_mixed(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique column names, got: - 'a' 2 times"),
        (pl.DataFrame({"a": [[1], [2]]}), "column 'a' is of type large_list"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "row 2, column 'a' is 'inf', not a finite number"),
    ],
)
def test_bad_frames(frame, message):
    with pytest.raises(InputError, match=message):
        table_of_frame(frame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_split_target(kind):
    frame, target = split_target(kind({"size": [1, 2, 3], "colour": ["a", None, "b"]}), "colour")
    assert table_of_frame(frame).names == ("size",)
    assert target.tolist() == ["a", None, "b"]
    assert without_column(frame, "colour") is frame
    with pytest.raises(InputError, match="unknown column 'size2'; did you mean 'size'"):
        split_target(frame, "size2")


def test_target_of_an_array():
    with pytest.raises(InputError, match="names a column of a data frame, but X is a ndarray; give y"):
        split_target(np.ones((2, 2)), "y")
