"""What whoever shows a training is told while it runs."""

import numpy as np
import pytest

from mtgcn.methods import create
from mtgcn.training.progress import reporting_progress, tell_epochs


def test_values_are_those_of_the_history(two_runs):
    told = []
    method = create("mt-gcn", warmup_epochs=10, teaching_epochs=10, per_class=2)
    with reporting_progress(lambda done, total: None, values=lambda epoch, values: told.append((epoch, dict(values)))):
        history = method.fit(two_runs).history
    assert [epoch for epoch, _ in told] == [10, 20]
    for epoch, values in told:
        for name, value in values.items():
            assert value == pytest.approx(float(np.mean(history[name][epoch - 1])), rel=1e-5)
    assert "pseudo-label" not in told[0][1]  # nobody teaches yet
    assert "pseudo-label" in told[1][1]


def test_rounds_of_mt_plus_are_told(two_runs):
    told, rounds = [], []
    with reporting_progress(
        lambda done, total: rounds.append((done, total)),
        values=lambda epoch, values: told.append((epoch, dict(values))),
    ):
        history = create("mt-plus", infomax_epochs=0, rounds=3).fit(two_runs).history
    assert rounds[-3:] == [(1, 3), (2, 3), (3, 3)]
    assert len(history["pseudo labels"]) == 3
    assert {name for _, values in told for name in values} == {"pseudo labels"}


def test_nobody_is_asked_how_it_went_where_nobody_wants_to_know():
    done = []

    def latest():
        raise AssertionError("it takes time to find out")

    with reporting_progress(lambda epochs, total: done.append((epochs, total))):
        tell_epochs(3, 10, latest)
    tell_epochs(4, 10, latest)
    assert done == [(3, 10)]
