"""Several methods on the same splits, as a program asks for it."""

from contextlib import contextmanager

import numpy as np
import pytest

from mtgcn.benchmark.compare import compare_methods
from mtgcn.errors import InputError


def test_methods_are_compared_split_by_split(ring, constant):
    methods = {"zero": constant(favourite=0), "one": constant(favourite=1)}
    comparison = compare_methods(ring, methods, labels_per_class=1, runs=3)
    assert (comparison.reference, [cell.method for cell in comparison.cells]) == ("zero", ["zero", "one"])
    zero, one = (np.array(cell.accuracy.per_run) for cell in comparison.cells)
    np.testing.assert_allclose(comparison.differences["one"].per_run, one - zero)
    assert compare_methods(ring, methods, labels_per_class=1, runs=3, reference="one").reference == "one"


def test_mt_gcn_is_the_reference_where_it_takes_part(ring, constant):
    methods = {"zero": constant(favourite=0), "mt-gcn": constant(favourite=1)}
    assert compare_methods(ring, methods, labels_per_class=1, runs=1).reference == "mt-gcn"


def test_progress_is_entered_around_every_fit(ring, constant):
    seen = []

    @contextmanager
    def progress(title):
        seen.append(f"begin {title}")
        yield
        seen.append(f"end {title}")

    compare_methods(
        ring, {"zero": constant(), "one": constant(favourite=1)}, labels_per_class=1, runs=1, progress=progress
    )
    assert seen == ["begin zero on ring", "end zero on ring", "begin one on ring", "end one on ring"]


def test_nothing_to_compare_is_said(ring):
    with pytest.raises(InputError, match="0 methods to compare"):
        compare_methods(ring, {}, labels_per_class=1)
