"""The command `mtgcn report`."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from mtgcn import MutualTeachingClassifier
from mtgcn.cli import app as cli
from mtgcn.estimator.persistence import save_model
from mtgcn.experiments.store import Store


@pytest.fixture
def folder(tmp_path, stored):
    with Store(tmp_path) as store:
        for rows in stored(tables=["digits"], methods=["gcn", "mt-gcn"]).values():
            store.append(rows)
    return tmp_path


def test_report_writes_page_and_tables(folder, capsys):
    before = (folder / "rows.jsonl").read_bytes()
    assert cli.main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n{folder / 'tables.tex'}\n"
    assert "Accuracy on digits" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "rows.jsonl").read_bytes() == before


def test_report_during_a_sweep(folder):
    with Store(folder) as store:
        assert cli.main(["report", str(folder)]) == 0
        assert len(store.units) == 8


def test_compressed_rows_are_read(folder, stored, capsys):
    path = folder / "rows.jsonl"
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert cli.main(["report", str(folder)]) == 0
    alone = (folder / "report.html").read_text(encoding="utf-8")
    assert "Accuracy on digits" in alone
    with Store(folder) as store:
        for rows in stored(tables=["digits"], methods=["lp"]).values():
            store.append(rows)
    assert cli.main(["report", str(folder)]) == 0
    assert "12 shown" in (folder / "report.html").read_text(encoding="utf-8")
    (folder / "rows.jsonl.gz").write_bytes(b"not packed at all")
    assert cli.main(["report", str(folder)]) == cli.BAD_INPUT
    assert "rows.jsonl.gz cannot be unpacked" in capsys.readouterr().err


def test_folder_without_rows_is_refused(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == cli.BAD_INPUT
    assert "holds neither a model (card.json) nor rows (rows.jsonl)" in capsys.readouterr().err


@pytest.fixture
def model_folder(tmp_path, make_graph):
    graph = make_graph()
    fitted = MutualTeachingClassifier("lp").fit_graph(
        replace(graph, labels=np.where(np.arange(40) < 9, graph.labels, -1))
    )
    accuracy = {"accuracy": 0.75, "ci95": [0.6, 0.9], "labels": 20, "folds": 5}
    save_model(fitted, tmp_path / "model", {"expected_accuracy": accuracy, "notes": ["income: standardised"]})
    return tmp_path / "model"


def test_report_of_a_model(model_folder, capsys):
    assert cli.main(["report", str(model_folder)]) == 0
    assert capsys.readouterr() == (f"{model_folder / 'report.html'}\n", "")
    page = (model_folder / "report.html").read_text(encoding="utf-8")
    assert "node classification" in page.lower()
    assert "<strong>75\u00a0%</strong>" in page
    assert "income: standardised" in page
    assert MutualTeachingClassifier.load(model_folder).graph_.num_nodes == 40  # the folder is still a model


def test_out_sets_the_path_of_a_model_page(model_folder, tmp_path, capsys):
    page = tmp_path / "pages" / "mine.html"
    assert cli.main(["report", str(model_folder), "--out", str(page)]) == 0
    assert page.is_file()
    assert not (model_folder / "report.html").exists()
    capsys.readouterr()
    assert cli.main(["report", str(model_folder), "--out", str(model_folder)]) == cli.BAD_INPUT
    assert "is a folder; give a file name" in capsys.readouterr().err


def test_out_is_refused_for_rows(folder, tmp_path, capsys):
    assert cli.main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == cli.BAD_INPUT
    assert "is for the page of a model" in capsys.readouterr().err


def test_damaged_model_is_one_clear_error(model_folder, capsys):
    (model_folder / "card.json").write_text("{")
    assert cli.main(["report", str(model_folder)]) == cli.BAD_INPUT
    assert "card.json is not JSON" in capsys.readouterr().err


def compared_into(folder):
    arguments = ["compare", "--dataset", "digits", "--labels-per-class", "2", "--runs", "2", "--methods", "lp,logistic"]
    assert cli.main([*arguments, "--out", str(folder)]) == 0


COMPARISON_FILES = [
    "summary-comparison.md",
    "summary-comparison.csv",
    "report-comparison.html",
    "tables-comparison.tex",
]


def test_report_of_comparisons(tmp_path, capsys):
    compared_into(tmp_path)
    before = (tmp_path / "rows.jsonl").read_bytes()
    for name in COMPARISON_FILES:
        (tmp_path / name).unlink()
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name) for name in COMPARISON_FILES]
    assert "Comparison of methods on digits" in (tmp_path / "report-comparison.html").read_text(encoding="utf-8")
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_comparisons_and_sweeps_do_not_mix(folder, capsys):
    assert cli.main(["report", str(folder)]) == 0
    alone = (folder / "report.html").read_text(encoding="utf-8")
    compared_into(folder)
    capsys.readouterr()
    assert cli.main(["report", str(folder)]) == 0
    names = [*COMPARISON_FILES, "report.html", "tables.tex"]
    assert capsys.readouterr().out.splitlines() == [str(folder / name) for name in names]
    assert (folder / "report.html").read_text(encoding="utf-8") == alone
