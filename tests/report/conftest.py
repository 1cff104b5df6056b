"""Rows that no method made: accuracies chosen so that means can be told beforehand."""

from dataclasses import asdict

import pytest

from mtgcn import environment
from mtgcn.benchmark import statistics
from mtgcn.benchmark.plan import Selection, plan
from mtgcn.benchmark.rows import StoredRow


def rows_of(unit, accuracy, scale):
    """Runs about the accuracy asked for; they part with the square of their number, so no two differences tie."""
    mean_square = (unit.runs - 1) * (2 * unit.runs - 1) / 6
    return tuple(
        StoredRow(
            dataset=unit.dataset,
            labels_per_class=unit.labels_per_class,
            method=unit.method,
            settings=asdict(unit.settings),
            run=run,
            seed=unit.seed,
            accuracy=accuracy + scale * (run**2 - mean_square),
            macro_f1=accuracy,
            calibration_error=0.125,
            seconds=1.5,
            device=unit.device,
            threads=unit.threads,
            versions=environment.versions(),
            unit=unit.id,
            protocol=unit.protocol,
            split=unit.split,
            validation=unit.validation,
            runs=unit.runs,
            averages=unit.averages,
        )
        for run in range(unit.runs)
    )


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Intervals need not be exact here, and hundreds of them are made."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


@pytest.fixture
def stored():
    """The units of a selection as a store would hold them; each place has an accuracy of its own."""

    def units(**selection):
        planned = plan(Selection(**{"runs": 4, **selection})).units
        return {
            one.unit.id: rows_of(one.unit, accuracy=0.4 + 0.001 * number, scale=1e-6 * (number + 1))
            for number, one in enumerate(planned)
        }

    return units
