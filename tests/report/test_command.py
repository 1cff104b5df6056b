"""The command `mtgcn report`."""

import gzip
from functools import partial

import numpy as np
import pytest

from fitted_models import with_labels
from mtgcn import MutualTeachingClassifier
from mtgcn.cli import app as cli
from mtgcn.estimator.persistence import save_model
from mtgcn.experiments.store import Store

COMPARISON_FILES = [f"{name}-comparison.{end}" for name, end in (("summary", "md"), ("summary", "csv"))]
COMPARISON_FILES += ["report-comparison.html", "tables-comparison.tex"]


@pytest.fixture
def folder(tmp_path, stored):
    with Store(tmp_path) as store:
        for rows in stored(tables=["digits"], methods=["gcn", "mt-gcn"]).values():
            store.append(rows)
    return tmp_path


@pytest.fixture
def model_folder(tmp_path, make_graph):
    fitted = MutualTeachingClassifier("lp").fit_graph(with_labels(make_graph(), np.arange(9)))
    accuracy = {"accuracy": 0.75, "ci90": [0.62, 0.88], "ci95": [0.6, 0.9], "labels": 20, "folds": 5}
    save_model(fitted, tmp_path / "model", {"expected_accuracy": accuracy, "notes": ["income: standardised"]})
    return tmp_path / "model"


@pytest.fixture
def report(capsys):
    """Runs the command; returns the printed lines, or with `refused` its error."""

    def run(*arguments, refused=False):
        capsys.readouterr()
        assert cli.main(["report", *map(str, arguments)]) == (cli.BAD_INPUT if refused else 0)
        out, err = capsys.readouterr()
        return err if refused else out.splitlines()

    return run


def test_report_writes_page_and_tables(folder, report):
    before = (folder / "rows.jsonl").read_bytes()
    assert report(folder) == [str(folder / "report.html"), str(folder / "tables.tex")]
    assert "Accuracy on digits" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "rows.jsonl").read_bytes() == before
    with Store(folder) as store:  # a sweep that still runs
        report(folder)
        assert len(store.units) == 8


def test_compressed_rows_are_read(folder, stored, report):
    path = folder / "rows.jsonl"
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    report(folder)
    assert "Accuracy on digits" in (folder / "report.html").read_text(encoding="utf-8")
    with Store(folder) as store:
        for rows in stored(tables=["digits"], methods=["lp"]).values():
            store.append(rows)
    report(folder)
    assert "12 shown" in (folder / "report.html").read_text(encoding="utf-8")
    (folder / "rows.jsonl.gz").write_bytes(b"not packed at all")
    assert "rows.jsonl.gz cannot be unpacked" in report(folder, refused=True)


@pytest.mark.slow
def test_report_of_a_model(model_folder, tmp_path, report):
    assert report(model_folder) == [str(model_folder / "report.html")]
    page = (model_folder / "report.html").read_text(encoding="utf-8")
    assert "node classification" in page.lower()
    assert "<strong>75\u00a0%</strong>" in page
    assert "income: standardised" in page
    assert MutualTeachingClassifier.load(model_folder).graph_.num_nodes == 40  # the folder is still a model
    (model_folder / "report.html").unlink()
    report(model_folder, "--out", tmp_path / "pages" / "mine.html")
    assert (tmp_path / "pages" / "mine.html").is_file()
    assert not (model_folder / "report.html").exists()


def test_refusals(folder, model_folder, tmp_path, report):
    refusal = partial(report, refused=True)
    assert "is a folder; give a file name" in refusal(model_folder, "--out", model_folder)
    assert "requires a model, which" in refusal(folder, "--out", tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    assert "holds neither a model (card.json) nor rows (rows.jsonl)" in refusal(tmp_path / "empty")
    (model_folder / "card.json").write_text("{")
    assert "card.json is not JSON" in refusal(model_folder)


def test_comparisons_and_sweeps_do_not_mix(folder, report):
    report(folder)
    alone = (folder / "report.html").read_text(encoding="utf-8")
    compare = ["compare", "--dataset", "digits", "--labels-per-class", "2", "--runs", "2", "--methods", "lp,logistic"]
    assert cli.main([*compare, "--out", str(folder)]) == 0
    rows = (folder / "rows.jsonl").read_bytes()
    for name in COMPARISON_FILES:
        (folder / name).unlink()
    assert report(folder) == [str(folder / name) for name in [*COMPARISON_FILES, "report.html", "tables.tex"]]
    assert "Comparison of methods on digits" in (folder / "report-comparison.html").read_text(encoding="utf-8")
    assert (folder / "report.html").read_text(encoding="utf-8") == alone
    assert (folder / "rows.jsonl").read_bytes() == rows
