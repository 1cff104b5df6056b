import numpy as np
import pytest

from mtgcn.methods import create
from mtgcn.training.progress import note_divergence, progress_callbacks, report_progress, watching_divergence


def test_values_are_those_of_the_history(two_runs):
    reports = []
    method = create("mt-gcn", warmup_epochs=10, teaching_epochs=10, per_class=2)
    with progress_callbacks(lambda *_: None, values=lambda epoch, values: reports.append((epoch, dict(values)))):
        history = method.fit(two_runs).history
    assert [epoch for epoch, _ in reports] == [10, 20]
    for epoch, values in reports:
        for name, value in values.items():
            assert value == pytest.approx(float(np.mean(history[name][epoch - 1])), rel=1e-5)
    assert ["pseudo-label" in values for _, values in reports] == [False, True]  # no teaching in the warm-up


def test_rounds_of_mt_plus_are_reported(two_runs):
    names, rounds = set(), []
    with progress_callbacks(lambda *counts: rounds.append(counts), values=lambda _, values: names.update(values)):
        history = create("mt-plus", infomax_epochs=0, rounds=3).fit(two_runs).history
    assert rounds[-3:] == [(1, 3), (2, 3), (3, 3)]
    assert len(history["pseudo labels"]) == 3
    assert names == {"pseudo labels"}


def test_progress_of_epochs_is_reported_within_the_context(two_runs):
    calls, method = [], create("gcn", epochs=23)
    with progress_callbacks(lambda *counts: calls.append(counts)):
        method.fit(two_runs)
    method.fit(two_runs)
    assert calls == [(10, 23), (20, 23), (23, 23)]


def test_values_are_computed_only_for_a_callback():
    calls = []

    def latest():
        raise AssertionError("not needed")

    with progress_callbacks(lambda *counts: calls.append(counts)):
        report_progress(3, 10, latest)
    report_progress(4, 10, latest)
    assert calls == [(3, 10)]


def test_first_divergence_of_each_value_is_noted():
    with watching_divergence() as found:
        note_divergence("a loss", "epoch", np.ones((4, 2, 2)))
        note_divergence("a loss", "epoch", np.array([[1, 2], [3, np.inf], [np.nan, 1]]), before=10, total=20)
        note_divergence("a table", "batch", [True, True, False])
        note_divergence("nothing", "batch", [])
    assert found == ["a loss was not finite from epoch 12 of 20 on", "a table was not finite from batch 3 of 3 on"]


def test_watching_ends_with_the_context():
    with pytest.raises(ZeroDivisionError), watching_divergence() as found:
        raise ZeroDivisionError
    note_divergence("a loss", "epoch", np.array([np.nan]))
    assert found == []
