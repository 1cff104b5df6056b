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
        "fitting mt-plus, vectors 2 of 2, 80 s",  # when the stage begins
        "fitting mt-plus, vectors 2 of 2",
        "fitting mt-plus",
    ]


def test_the_clock_runs_on_between_stages_and_when_one_is_done(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    bars = []

    class Watched(progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options | {"auto_refresh": False, "disable": True})
            bars.append(self)

    monkeypatch.setattr(progress, "Progress", Watched)

    def shown():
        (task,) = bars[0].tasks
        return [str(column.render(task)) for column in bars[0].columns if not isinstance(column, progress.BarColumn)]

    with fitting_progress("fitting mt-plus"):
        with stage("embeddings 1 of 2"):
            assert shown() == ["fitting mt-plus, embeddings 1 of 2", "", "0:00:00"]
            tell([100])
            now[0] += 7
            assert shown() == ["fitting mt-plus, embeddings 1 of 2", "100/100 epochs", "0:00:07"]
        now[0] += 60
        assert shown() == ["fitting mt-plus", "", "0:01:07"]
        with stage("embeddings 2 of 2"):  # as many epochs as before
            tell([100])
            now[0] += 3
            assert shown()[1:] == ["100/100 epochs", "0:01:10"]


def test_every_stage_has_its_line_where_that_is_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(progress, "monotonic", lambda: 5.0)
    with fitting_progress("fitting mt-plus", every_stage=True):
        with stage("embeddings 1 of 2"):
            tell([10, 100])
        with stage("votes"):
            pass
    assert capsys.readouterr().err.splitlines() == [
        "fitting mt-plus, embeddings 1 of 2, 0 s",
        "fitting mt-plus, votes, 0 s",
        "fitting mt-plus: done, 0 s",
    ]


def test_a_stage_in_which_nobody_counts_is_shown_too(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with fitting_progress("fitting mt-plus"):
        now[0] = 31
        with stage("votes"):
            now[0] = 32
    assert capsys.readouterr().err == "fitting mt-plus, votes, 31 s\n"
