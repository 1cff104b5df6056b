"""Shapes in signatures are checked in tests only."""

import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import shapes
from mtgcn.linalg.random_walks import random_walks
from shape_checks import SWITCH, ShapeError, check_module

PROGRAM = """
from __future__ import annotations
from dataclasses import dataclass
from functools import cached_property
import numpy as np
from mtgcn.shapes import Float, Int

def scaled(values: Float[np.ndarray, "nodes classes"], by: Float[np.ndarray, "classes"], wrong: bool = False) -> Float[
    np.ndarray, "nodes classes"
]:
    return (values * by).T if wrong else values * by

def parts(of: Elsewhere | None, many: Mapping[str, list[Float[np.ndarray, "nodes"]]]) -> tuple[Elsewhere, int]:
    return of, len(many)

def plain(values: list[int]) -> int:
    return len(values)

@dataclass(frozen=True)
class Labelled:
    index: Int[np.ndarray, "nodes"]
    classes: Int[np.ndarray, "nodes"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", np.asarray(self.index))

    @staticmethod
    def made(index: Int[np.ndarray, "nodes"]) -> Labelled:
        return Labelled(index, index)

    @classmethod
    def again(cls, index: Int[np.ndarray, "nodes"]) -> Labelled:
        return cls(index, index)

    @property
    def table(self) -> Int[np.ndarray, "nodes 2"]:
        return self.index

    @cached_property
    def kept(self) -> Int[np.ndarray, "nodes 2"]:
        return self.index
"""


@pytest.fixture
def program(monkeypatch):
    if not hasattr(shapes.Float, "dtypes"):
        pytest.skip(f"{SWITCH} is 0")
    module = ModuleType("program")
    monkeypatch.setitem(sys.modules, "program", module)
    exec(PROGRAM, vars(module))  # noqa: S102
    check_module(module)
    return module


def test_package_is_checked(program):
    pair = sp.csr_array(np.array([[0, 1], [1, 0]]))
    assert random_walks(pair, np.array([0, 1]), 3, np.random.default_rng(0)).shape == (2, 3)
    with pytest.raises(
        ShapeError, match=r"random_walks: starts is ndarray int64 \(1, 2\), not Int\[ndarray, 'walks'\]"
    ):
        random_walks(pair, np.array([[0, 1]]), 3, np.random.default_rng(0))
    with pytest.raises(ShapeError, match="starts is ndarray float64"):
        random_walks(pair, np.array([0.0, 1.0]), 3, np.random.default_rng(0))


def test_axis_has_one_length_per_call(program):
    for nodes in (4, 5):  # lengths may differ between calls
        assert program.scaled(np.ones((nodes, 3)), np.ones(3)).shape == (nodes, 3)
    with pytest.raises(
        ShapeError, match=r"scaled: by is ndarray float64 \(1,\), not .*'classes'.*; values is .*\(4, 3\)"
    ):
        program.scaled(np.ones((4, 3)), np.ones(1))
    with pytest.raises(ShapeError, match=r"by is ndarray float64 \(2,\)"):
        program.scaled(values=np.ones((4, 3)), by=np.ones(2))
    with pytest.raises(ShapeError, match=r"return is ndarray float64 \(3, 4\), not Float\[ndarray, 'nodes classes'\]"):
        program.scaled(np.ones((4, 3)), np.ones(3), wrong=True)


def test_nested_shapes_and_unknown_names(program):
    assert program.parts("anything", {"a": [np.ones(2), np.ones(2)]}) == ("anything", 1)
    with pytest.raises(ShapeError, match=r"many is dict \(list \(ndarray float64 \(2, 2\)\)\)"):
        program.parts(None, {"a": [np.ones((2, 2))]})


def test_dataclass_is_checked_after_init(program):
    assert program.Labelled([1, 2], np.array([0, 1])).index.shape == (2,)  # a list, until `__post_init__`
    with pytest.raises(ShapeError, match=r"Labelled: classes is ndarray int64 \(3,\)"):
        program.Labelled([1, 2], np.array([0, 1, 2]))


@pytest.mark.parametrize("call", ["made", "again", "table", "kept"])
def test_methods_and_properties_are_checked(program, call):
    one = program.Labelled.made(np.arange(2))
    with pytest.raises(ShapeError, match=rf"Labelled\.{call}"):
        getattr(one, call)(np.ones((2, 2), int))


def test_functions_without_shapes_are_not_wrapped(program):
    assert not hasattr(program.plain, "__wrapped__")
    assert hasattr(program.scaled, "__wrapped__")


def test_unchecked_shapes_import_nothing():
    report = (
        "import sys; from mtgcn.shapes import __all__; import mtgcn.shapes as shapes;"
        "assert all(getattr(shapes, name)[list, 'nodes'] is list for name in __all__);"
        "print([name for name in ('jaxtyping', 'beartype', 'numpy') if name in sys.modules])"
    )
    environment = {name: value for name, value in os.environ.items() if name != SWITCH}
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_subprocesses_are_not_checked():
    assert os.environ.get(SWITCH) in (None, "0")
