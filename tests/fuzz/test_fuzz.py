"""Regression cases and random cases of every kind of input."""

import os
import signal
import sys
import warnings
from importlib import import_module
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.case import Unsound, require, succeeds
from mtgcn.errors import InputError

# Examples that take about as long for each kind; make fuzz multiplies them.
EXAMPLES = {"readers": 250, "arrays": 250, "stored": 30, "options": 25, "models": 25, "caches": 75, "estimators": 40}
FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
SURFACES = {name: import_module(f"fuzz.{name}") for name in EXAMPLES}
REGRESSIONS = [
    pytest.param(case, id=f"{name}: {description[:80]}")
    for name, module in SURFACES.items()
    for description, case in module.REGRESSIONS.items()
]


pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.mark.slow
@pytest.mark.parametrize("case", REGRESSIONS)
def test_regressions(case, tmp_path):
    succeeds(case, tmp_path / "case")


@pytest.mark.slow
@pytest.mark.parametrize("surface", EXAMPLES)
def test_random_cases(surface, tmp_path):
    numbers, successes = count(), []

    @settings(
        max_examples=FACTOR * EXAMPLES[surface],
        deadline=None,
        database=None,
        derandomize=FACTOR == 1,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def attempt(random):
        successes.append(succeeds(SURFACES[surface].random_case(random), tmp_path / str(next(numbers))))

    attempt()
    assert sum(successes) > len(successes) / 20  # a surface that refuses everything tests nothing


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("case", "raised"),
    [
        (lambda folder: _raise(KeyError("x")), KeyError),
        (lambda folder: _raise(InputError("")), Unsound),
        (lambda folder: _raise(InputError("x" * 10_000)), Unsound),
        (lambda folder: warnings.warn("overflow", RuntimeWarning, stacklevel=1), RuntimeWarning),
        (lambda folder: require(False, "NaN"), Unsound),
        (lambda folder: sys.exit(0), SystemExit),
        (lambda folder: np.ones(2**30), MemoryError),
        (lambda folder: signal.raise_signal(signal.SIGPROF), BaseException),
    ],
)
def test_failures_are_detected(case, raised, tmp_path):
    with pytest.raises(raised):
        succeeds(case, tmp_path / "case")
