"""Shapes in signatures are checked in tests only."""

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
from jaxtyping import TypeCheckError

from mtgcn import shapes
from mtgcn.linalg.random_walks import random_walks
from shape_checks import SWITCH, check_module

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
PAIR, RANDOM = sp.csr_array(np.array([[0, 1], [1, 0]])), np.random.default_rng(0)


@pytest.fixture
def program(monkeypatch):
    if not hasattr(shapes.Float, "dtypes"):
        pytest.skip(f"{SWITCH} is 0")
    module = ModuleType("program")
    monkeypatch.setitem(sys.modules, "program", module)
    exec(PROGRAM, vars(module))  # noqa: S102
    check_module(module)
    return module


def test_right_shapes_are_accepted(program):
    assert random_walks(PAIR, np.array([0, 1]), 3, RANDOM).shape == (2, 3)
    for nodes in (4, 5):  # lengths may differ between calls
        assert program.scaled(np.ones((nodes, 3)), np.ones(3)).shape == (nodes, 3)
    assert program.parts("anything", {"a": [np.ones(2), np.ones(2)]}) == ("anything", 1)
    assert program.Labelled([1, 2], np.array([0, 1])).index.shape == (2,)  # a list, until `__post_init__`


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: random_walks(PAIR, np.array([[0, 1]]), 3, RANDOM), "parameter 'starts'"),
        (lambda _: random_walks(PAIR, np.array([0.0, 1.0]), 3, RANDOM), "parameter 'starts'"),
        (lambda it: it.scaled(np.ones((4, 3)), by=np.ones(2)), "parameter 'by'"),
        (lambda it: it.scaled(np.ones((4, 3)), np.ones(3), wrong=True), "return value of program.scaled"),
        (lambda it: it.parts(None, {"a": [np.ones((2, 2))]}), "parameter 'many'"),
        (lambda it: it.Labelled([1, 2], np.array([0, 1, 2])), "parameter 'classes'"),
        (lambda it: it.Labelled.made(np.ones((2, 2), int)), r"parameters of program.Labelled\.made"),
        (lambda it: it.Labelled.again(np.ones((2, 2), int)), r"parameters of program.Labelled\.again"),
        (lambda it: it.Labelled.made(np.arange(2)).table, r"return value of program.Labelled\.table"),
        (lambda it: it.Labelled.made(np.arange(2)).kept, r"return value of program.Labelled\.kept"),
    ],
)
def test_wrong_shapes_are_refused(program, call, message):
    with pytest.raises(TypeCheckError, match=message):
        call(program)


def test_unchecked_shapes_import_nothing():
    report = (
        "import sys; from mtgcn.shapes import __all__; import mtgcn.shapes as shapes;"
        "assert all(getattr(shapes, name)[list, 'nodes'] is list for name in __all__);"
        "print([name for name in ('jaxtyping', 'beartype', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"  # the environment of the tests is not that of their subprocesses
