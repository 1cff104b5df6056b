"""Paths that cannot be read or written, pipes, links, names that are not Unicode, and full disks."""

import errno
import json
import os

import pytest

from mtgcn.estimator.persistence import read_card

TOO_LONG = "x" * 300
NOT_UNICODE = os.fsdecode(b"\xff")


# Pipes and links


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_are_not_read(refused, own, model, quick_run):
    pipe, rows = own.folder / "pipe", own.folder / "rows"
    rows.mkdir()
    for path in (pipe, rows / "rows.jsonl"):
        os.mkfifo(path)
    refused("pipe is not a regular file", "fit", "--edges", pipe, "--out", own.folder / "new")
    refused("pipe is not a regular file", "label", model, pipe)
    refused("pipe: it is not a plain file", *quick_run, "--split", pipe)
    refused("rows.jsonl: it is not a plain file", *quick_run, "--out", rows)
    for name in ("graph.safetensors", "card.json"):
        (model / name).unlink()
        os.mkfifo(model / name)
        refused("not a plain file", "predict", model, "--out", own.folder / "p.csv")
        refused("not a plain file", "report", model)


@pytest.mark.parametrize("name", [".replacement", "report.html", ".mtgcn.lock", "notes", "card.json"])
def test_links_inside_a_model(refused, own, model, name):
    (own.folder / "mine").mkdir()
    (own.folder / "mine" / "thesis.tex").write_text("years of work")
    is_folder = name in (".replacement", "notes")
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(own.folder / "mine" / ("" if is_folder else "thesis.tex"))
    for command in (["label", model, own.write_labels([own.ids[30], "ant"])], ["report", model], own.fit):
        refused(f"{name} is a link, and its folder must not contain any; replace it by what it refers to", *command)


# Names and permissions


@pytest.mark.parametrize(
    ("name", "why"),
    [(TOO_LONG, "File name too long"), ("loop", "Too many levels of symbolic"), ("locked", "ermission")],
)
def test_paths_that_cannot_be_used(refused, own, model, quick_run, monkeypatch, name, why):
    path, real = own.folder / name, os.stat
    if name == "loop":
        path.symlink_to(path)
    if name == "locked":  # root has every permission, so `os.stat` is replaced

        def denied(asked, *arguments, **named):
            if str(asked).startswith(str(path)):
                raise PermissionError(13, "Permission denied", str(asked))
            return real(asked, *arguments, **named)

        monkeypatch.setattr(os, "stat", denied)
    outputs = [
        [*own.fit, "--out"],
        [*own.fit, "--report"],
        ["predict", model, "--out"],
        [*quick_run, "--out"],
        [*quick_run, "--report"],
    ]
    for arguments in outputs:
        refused(why, *arguments, path)
    models = [["predict", path, "--out", own.folder / "p.csv"], ["suggest", path], ["label", path, own.labels]]
    for arguments in models:
        refused("is not a model folder" if name == "locked" else why, *arguments)
    for arguments in (["report", path], [*quick_run, "--split", path], ["label", model, path]):
        refused("", *arguments)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_names_that_are_not_unicode(mtgcn_command, succeeds, own, quick_run):
    def renamed(arguments):
        return [edges if part == own.edges else part for part in arguments]

    edges, model = own.folder / f"e{NOT_UNICODE}.csv", own.folder / f"m{NOT_UNICODE}"
    fit = own.fit
    own.edges.rename(edges)
    out = succeeds(*renamed(fit), "--out", model, "--report", own.folder / f"r{NOT_UNICODE}.html")
    assert out.splitlines()[-1].endswith("r\\udcff.html")
    assert read_card(model)["graph"]["name"] == "e\\udcff.csv"
    succeeds("predict", model, "--out", own.folder / f"p{NOT_UNICODE}")
    succeeds("suggest", model, "--count", 2)
    succeeds("report", model)
    status, out, _ = mtgcn_command(*renamed(quick_run), "--out", own.folder / f"rows{NOT_UNICODE}", "--json")
    assert (status, json.loads(out)["dataset"]) == (0, "e\\udcff.csv")


# Destinations are checked first, and nothing is overwritten


def test_destinations_are_checked_before_fitting(refused, own, model, monkeypatch):
    monkeypatch.setattr("mtgcn.estimator.graph_model.fit_in_chunks", lambda *_: pytest.fail("must not be tried"))
    taken = own.folder / "thesis"
    taken.mkdir()
    (taken / "chapter1.tex").write_text("years of work")
    fit, predict = [*own.fit, "--out"], ["predict", model, "--out"]
    refused("edges.csv is a file; give a folder for the model", *fit, own.edges)
    refused("thesis has files and is not a model folder", *fit, taken)
    refused("thesis is a folder; give a file name", *fit, own.out, "--report", taken)
    refused("thesis is a folder; give a file name", "suggest", model, "--out", taken)
    refused("is a file; give another path", *predict, own.edges / "p.csv")
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)  # root may write everywhere
    refused("permission denied", *fit, own.out)
    refused("permission denied", *predict, own.folder / "p.csv")


def test_two_results_in_one_file(refused, own, quick_run):
    (own.folder / "link").symlink_to("same")
    refused("would be written twice", *quick_run, "--latex", own.folder / "same", "--report", own.folder / "link")
    for name in ("", "card.json", "graph.safetensors"):
        refused("would overwrite the model", *own.fit, "--report", own.out / name)


# Failures while writing


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_page_that_cannot_be_made_leaves_no_model(mtgcn_command, own, monkeypatch):
    monkeypatch.setattr("mtgcn.report.fit_page.fit_html", lambda *_: 1 / 0)
    before = own.content()
    with pytest.raises(ZeroDivisionError):
        mtgcn_command(*own.fit, "--report", own.folder / "page.html")
    assert own.content() == before


def test_a_page_that_cannot_be_written_keeps_the_model(mtgcn_command, own, monkeypatch):
    page, real = own.folder / "page.html", os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: no_space() if str(new) == str(page) else real(old, new))
    status, _, err = mtgcn_command(*own.fit, "--report", page)
    assert (status, err.count("\n")) == (2, 1)
    assert f"cannot write {page}: No space left on device" in err
    assert err.endswith(f"The model was saved; mtgcn report {own.out} writes the page\n")
    assert read_card(own.out)["method"]["name"] == "mt-gcn"
    assert not page.exists()


def test_a_fit_that_diverges_writes_nothing(refused, own):
    fit = ["fit", *own.options, "--out", own.out, "--folds", 0, "--device", "cpu"]
    settings = ["--method", "planetoid", "--set", "epochs=3", "--set", "context_learning_rate=50"]
    refused("context_learning_rate is 50 (usually 0.01), bring it nearer", *fit, *settings)
    refused("learning_rate is 1e+38; give at most 100", *fit, "--method", "gcn", "--set", "learning_rate=1e38")
