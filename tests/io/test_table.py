"""Faults, and values between arrow and NumPy."""

import numpy as np
import pyarrow as pa
import pytest

from mtgcn.errors import InputError
from mtgcn.io.table import Faults, number_values, numbers_in, text_values


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], r"^line 3 is odd; make it even$"),
        ([["line 4", "line 5"]], r"^line 3 is odd \(3 in all: line 3, line 4, line 5\); make it even$"),
        ([["line 4", "line 5"], ["line 9"]], r"^line 3 is odd \(4 in all: line 3, line 4, line 5, …\); make it even$"),
    ],
)
def test_faults(more, message):
    faults = Faults()
    faults.raise_first_kind()
    faults.add("line 3 is odd", "make it even", ["line 3"])
    faults.add("line 4 is even", "make it odd", ["line 4"])
    for places in more:
        faults.add("another is odd", "make it even", places)
    with pytest.raises(InputError, match=message):
        faults.raise_first_kind()


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "Wörter", "\U0001f408", "tab\there", "a"]])
def test_text_values(texts):
    found = text_values(texts)
    found.validate(full=True)
    assert found.equals(pa.array(texts, pa.string()))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32, np.float64])
def test_number_values(kind):
    for numbers in (np.arange(5, dtype=kind), np.zeros(0, kind), np.arange(9, dtype=kind)[::2]):
        found = number_values(numbers)
        found.validate(full=True)
        assert found.equals(pa.array(numbers))
        np.testing.assert_array_equal(numbers_in(found), numbers)
        assert numbers_in(found).dtype == kind


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nulls_are_nan(kind):
    column = pa.array([7, 1.5, None, -2, None], kind).slice(1, 3)
    np.testing.assert_array_equal(numbers_in(column), np.array([1.5, np.nan, -2]))
    np.testing.assert_array_equal(numbers_in(column), column.to_numpy(zero_copy_only=False))
