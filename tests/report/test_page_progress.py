"""Progress of a page: a line now and then where nobody is watching, nothing where it is quick."""

from mtgcn.report import page_progress
from mtgcn.report.page_progress import page_progress as progress_of


def test_what_is_quick_is_silent(capsys):
    with progress_of("making the page") as show:
        show("placing nodes", 10, 300)
    assert capsys.readouterr() == ("", "")


def test_what_takes_long_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(page_progress, "SECONDS_BETWEEN_LINES", -1.0)
    with progress_of("making the page") as show:
        show("finding nodes that are alike", 0, 0)
        show("placing nodes", 75, 300)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "making the page: finding nodes that are alike, 0 s\nmaking the page: placing nodes, 25 %, 0 s\n"


def test_a_person_sees_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_of("making the page") as show:
        show("placing nodes", 75, 300)
    assert "making the page: placing nodes" in capsys.readouterr().err
