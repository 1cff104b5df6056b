"""Faults of one kind are told together."""

import pytest

from mtgcn.errors import InputError
from mtgcn.io.table import FaultKind, Faults

ODD, EVEN = FaultKind("cells are odd", "make them even"), FaultKind("cells are even", "make them odd")


def test_no_fault_is_no_complaint():
    faults = Faults("t.csv")
    assert not faults
    faults.raise_first_kind()


def test_one_is_told_at_length():
    faults = Faults("t.csv")
    faults.add(ODD, "t.csv line 3 is odd; make it even", ["line 3"])
    with pytest.raises(InputError, match=r"^t.csv line 3 is odd; make it even$"):
        faults.raise_first_kind()


def test_of_several_the_first_three_places_and_how_many_there_are():
    faults = Faults("t.csv")
    faults.add(ODD, "", ["line 3"])
    faults.add(EVEN, "", ["line 4"])
    faults.add(ODD, "", ["line 5", "line 7"], count=40)
    faults.add(ODD, "", ["line 90"])
    with pytest.raises(InputError, match=r"^t.csv: 42 cells are odd \(line 3, line 5, line 7, …\); make them even$"):
        faults.raise_first_kind()
