"""Progress: lines where standard error is a file, a bar with the time remaining in a terminal."""

import pytest

from mtgcn.report import progress
from mtgcn.report.progress import fitting_progress
from mtgcn.training.progress import _progress, stage


def report(epochs):
    for done in epochs:
        _progress.get()(done, 100)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_only_long_fits_print_lines(capsys, clock):
    with fitting_progress("fitting mt-gcn"):
        report([50, 100])
    assert capsys.readouterr() == ("", "")
    with fitting_progress("fitting mt-gcn"):
        for done in range(10, 50, 10):
            clock[0] += 20
            report([done])
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "fitting mt-gcn: epoch 20 of 100, 40 s\nfitting mt-gcn: epoch 40 of 100, 80 s\n"


def test_lines_name_the_stage(capsys, clock):
    with fitting_progress("fitting mt-plus"):
        clock[0] = 40
        with stage("vectors 2 of 2"):
            clock[0] = 80
            report([10])
        clock[0] = 120
        report([20])
    assert capsys.readouterr().err.splitlines() == [
        "fitting mt-plus, vectors 2 of 2, 40 s",
        "fitting mt-plus, vectors 2 of 2: epoch 10 of 100, 80 s",
        "fitting mt-plus: epoch 20 of 100, 120 s",
    ]


def test_every_stage_prints_its_line(capsys, clock):
    with fitting_progress("fitting mt-plus", every_stage=True):
        with stage("embeddings 1 of 2"):
            report([10, 100])
        with stage("weights"):
            pass
    assert capsys.readouterr().err.splitlines() == [
        "fitting mt-plus, embeddings 1 of 2, 0 s",
        "fitting mt-plus, weights, 0 s",
        "fitting mt-plus: done, 0 s",
    ]


def test_bar_shows_stage_epochs_clock_and_time_remaining(clock, monkeypatch):
    bars = []

    class Watched(progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options | {"auto_refresh": False}, get_time=lambda: clock[0])
            bars.append(self)

    monkeypatch.setattr(progress, "Progress", Watched)

    def shown():
        (task,) = bars[0].tasks
        return [str(column.render(task)) for column in bars[0].columns if not isinstance(column, progress.BarColumn)]

    with fitting_progress("fitting mt-plus"):
        with stage("embeddings 1 of 2"):
            assert shown() == ["fitting mt-plus, embeddings 1 of 2", "", "0:00:00", ""]
            for done in (10, 20, 30):
                clock[0] += 5
                report([done])
            assert shown()[1:] == ["30/100 epochs", "0:00:15", "0:00:35 left"]  # 2 epochs per second
            report([100])
            assert shown()[1:] == ["100/100 epochs", "0:00:15", ""]
        clock[0] += 60
        assert shown() == ["fitting mt-plus", "", "0:01:15", ""]  # the clock continues between stages
