import numpy as np
import pytest

from mtgcn.methods import create
from mtgcn.training.progress import note_divergence, progress_callbacks, report_progress, watching_divergence


def test_values_are_those_of_the_history(two_runs):
    told = []
    method = create("mt-gcn", warmup_epochs=10, teaching_epochs=10, per_class=2)
    with progress_callbacks(lambda done, total: None, values=lambda epoch, values: told.append((epoch, dict(values)))):
        history = method.fit(two_runs).history
    assert [epoch for epoch, _ in told] == [10, 20]
    for epoch, values in told:
        for name, value in values.items():
            assert value == pytest.approx(float(np.mean(history[name][epoch - 1])), rel=1e-5)
    assert "pseudo-label" not in told[0][1]  # nobody teaches yet
    assert "pseudo-label" in told[1][1]


def test_rounds_of_mt_plus_are_told(two_runs):
    told, rounds = [], []
    with progress_callbacks(
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

    with progress_callbacks(lambda epochs, total: done.append((epochs, total))):
        report_progress(3, 10, latest)
    report_progress(4, 10, latest)
    assert done == [(3, 10)]


def test_the_first_moment_of_each_is_remembered():
    with watching_divergence() as found:
        note_divergence("a loss", "epoch", np.ones((4, 2, 2)))
        note_divergence("a loss", "epoch", np.array([[1, 2], [3, np.inf], [np.nan, 1]]), before=10, total=20)
        note_divergence("a table", "batch", [True, True, False])
        note_divergence("nothing", "batch", [])
    assert found == [
        "a loss was not finite from epoch 12 of 20 on",
        "a table was not finite from batch 3 of 3 on",
    ]


def test_nobody_need_watch():
    note_divergence("a loss", "epoch", np.array([np.nan]))
    with watching_divergence() as found:
        pass
    note_divergence("a loss", "epoch", np.array([np.nan]))
    assert found == []


def test_watching_ends_also_by_an_error():
    with pytest.raises(ZeroDivisionError), watching_divergence() as outer:
        raise ZeroDivisionError
    note_divergence("a loss", "epoch", np.array([np.nan]))
    assert outer == []
