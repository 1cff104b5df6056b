"""Faults, and values between arrow and NumPy."""

import numpy as np
import pyarrow as pa
import pytest

from mtgcn.errors import InputError
from mtgcn.io.table import Faults, no_value, number_value, number_values, numbers_in, text_values

ODD, EVEN = ("cells are odd", "make them even"), ("cells are even", "make them odd")


def test_no_fault():
    faults = Faults("t.csv")
    assert not faults
    faults.raise_first_kind()


def test_one_fault():
    faults = Faults("t.csv")
    faults.add(*ODD, "t.csv line 3 is odd; make it even", ["line 3"])
    with pytest.raises(InputError, match=r"^t.csv line 3 is odd; make it even$"):
        faults.raise_first_kind()


def test_several_faults():
    faults = Faults("t.csv")
    faults.add(*ODD, "", ["line 3"])
    faults.add(*EVEN, "", ["line 4"])
    faults.add(*ODD, "", ["line 5", "line 7"], count=40)
    faults.add(*ODD, "", ["line 90"])
    with pytest.raises(InputError, match=r"^t.csv: 42 cells are odd \(line 3, line 5, line 7, …\); make them even$"):
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


def test_single_values():
    assert number_value(-1).equals(pa.scalar(-1))
    assert no_value(pa.string()).equals(pa.scalar(None, pa.string()))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nulls_are_nan(kind):
    column = pa.array([7, 1.5, None, -2, None], kind).slice(1, 3)
    np.testing.assert_array_equal(numbers_in(column), np.array([1.5, np.nan, -2]))
    np.testing.assert_array_equal(numbers_in(column), column.to_numpy(zero_copy_only=False))
