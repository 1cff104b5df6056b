"""Progress that goes to a file is a line now and then."""

from mtgcn.report import progress
from mtgcn.report.progress import fitting_progress
from mtgcn.training.progress import _progress, stage


def tell(epochs):
    for done in epochs:
        _progress.get()(done, 100)


def test_a_fit_that_takes_long_says_where_it_is(capsys, monkeypatch):
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with fitting_progress("fitting mt-gcn"):
        tell([10, 20, 30, 40])
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 1 <= len(lines) < 4
    assert all(line.startswith("fitting mt-gcn: epoch ") and " of 100, " in line for line in lines)


def test_a_quick_fit_says_nothing(capsys):
    with fitting_progress("fitting mt-gcn"):
        tell([50, 100])
    assert capsys.readouterr() == ("", "")


def test_a_stage_is_named_while_it_lasts(capsys, monkeypatch):
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with fitting_progress("fitting mt-plus"):
        with stage("vectors 2 of 2"):
            tell([10])
        tell([20])
    assert [line.split(": ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "fitting mt-plus, vectors 2 of 2",
        "fitting mt-plus",
    ]
