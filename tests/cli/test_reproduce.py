"""`mtgcn reproduce` as a person meets it; how it survives being killed is in benchmark/test_sweep.py."""

import csv
import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from mtgcn.cli import app as cli
from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.experiments import curves
from mtgcn.experiments import plan as plan_module
from mtgcn.experiments import reproduce as sweep
from mtgcn.experiments.store import Store
from mtgcn.methods import METHODS, create

QUICK = {"epochs": 3, "warmup_epochs": 2, "teaching_epochs": 2, "hidden_channels": 4}


@pytest.fixture
def few_epochs(monkeypatch):
    """All methods with a handful of epochs, or with others if the test changes them."""
    changed = dict(QUICK)

    def quick(name, **settings):
        known = METHODS[name].__dataclass_fields__
        return create(name, **{**{key: value for key, value in changed.items() if key in known}, **settings})

    monkeypatch.setattr(plan_module, "create", quick)
    return changed


@pytest.fixture
def reproduce(capsys, tmp_path, few_epochs):
    """Runs the command on digits, in this process; gives exit status, standard output and standard error."""

    def command(*arguments):
        common = ["--out", str(tmp_path), "--device", "cpu", "--workers", "1"]
        status = cli.main(["reproduce", *common, *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


def rows(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.fixture
def executed(monkeypatch):
    """The titles of the units that were really executed."""
    titles = []

    def watched(unit):
        titles.append(f"{unit.method} {unit.labels_per_class}")
        return execute(unit)

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", watched)
    return titles


SMALL = ["--table", "digits", "--methods", "gcn,mt-gcn", "--runs", "2"]


def test_tables_are_printed_and_written(reproduce, tmp_path):
    status, out, err = reproduce(*SMALL)
    assert status == 0
    files = ["summary.md", "summary.csv", "report.html", "tables.tex"]
    assert err == f"mtgcn: wrote {', '.join(str(tmp_path / name) for name in files)}\n"
    assert (tmp_path / "summary.md").read_text() == out.removesuffix("\n")
    assert "| cell | method | mean | 95 % interval | minus mt-gcn | 95 % interval |" in out  # nothing is printed
    stored = rows(tmp_path)
    assert len(stored) == 4 * 2 * 2
    assert {(row["threads"], row["validation"], row["protocol"]) for row in stored} == {(1, 500, "ours")}
    with (tmp_path / "summary.csv").open() as file:
        [first, second, *rest] = csv.DictReader(file)
    assert len(rest) == 6
    assert (first["method"], first["labels_per_class"], first["runs"]) == ("gcn", "2", "2")
    of_first = [row["accuracy"] for row in stored if row["method"] == "gcn" and row["labels_per_class"] == 2]
    assert float(first["accuracy_mean"]) == pytest.approx(sum(of_first) / 2)
    assert float(first["minus_reference_mean"]) == pytest.approx(
        float(first["accuracy_mean"]) - float(second["accuracy_mean"])
    )
    assert second["minus_reference_mean"] == ""


def test_what_is_stored_is_not_run_again(reproduce, executed, tmp_path):
    reproduce(*SMALL, "--methods", "gcn")
    before = (tmp_path / "rows.jsonl").read_bytes()
    assert len(executed) == 4
    reproduce(*SMALL)
    assert len(executed) == 8
    assert {title.split()[0] for title in executed[4:]} == {"mt-gcn"}
    assert (tmp_path / "rows.jsonl").read_bytes().startswith(before)


def test_a_changed_setting_makes_new_rows_and_mixes_with_no_old_ones(reproduce, executed, few_epochs, tmp_path):
    _, before, _ = reproduce(*SMALL)
    few_epochs["epochs"] = 60
    _, after, _ = reproduce(*SMALL)
    assert len(executed) == 8 + 4  # those of gcn anew
    assert len(rows(tmp_path)) == (8 + 4) * 2
    assert before != after
    few_epochs["epochs"] = QUICK["epochs"]
    assert reproduce(*SMALL)[1] == before


def test_a_damaged_end_is_told_and_mended(reproduce, executed, tmp_path):
    reproduce(*SMALL)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    status, _, err = reproduce(*SMALL)
    assert status == 0
    assert err.startswith(f"mtgcn: warning: the end of {path} was incomplete, as after a crash;")
    assert len(executed) == 8 + 1
    assert len(rows(tmp_path)) == 16


def test_a_second_sweep_into_the_folder_is_refused(reproduce, tmp_path):
    with Store(tmp_path):
        status, out, err = reproduce(*SMALL)
    assert (status, out) == (2, "")
    assert "is writing into" in err
    assert err.count("\n") == 1


def test_a_unit_that_cannot_run_keeps_no_other_from_running(reproduce, monkeypatch, tmp_path):
    def refusing(unit):
        if unit.labels_per_class == 4:
            raise InputError("no such thing")
        return execute(unit)

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", refusing)
    status, out, err = reproduce(*SMALL)
    assert status == 2
    assert "mtgcn: error: gcn on digits, 4 labels per class: no such thing; mt-gcn on digits, 4 labels" in err
    assert "digits 8" in out
    assert "digits 4" not in out
    assert len(rows(tmp_path)) == 12


def test_an_interruption_says_how_to_go_on(reproduce, monkeypatch, tmp_path):
    def interrupted(unit):
        if unit.labels_per_class == 4:
            raise KeyboardInterrupt
        return execute(unit)

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", interrupted)
    status, out, err = reproduce(*SMALL)
    assert (status, out) == (130, "")
    assert err == (
        f"mtgcn: 2 of 8 units are stored in {tmp_path}; the same command goes on from there\nmtgcn: interrupted\n"
    )


def test_the_authors_way_of_reporting_is_called_optimistic_wherever_it_appears(reproduce, tmp_path):
    status, out, _ = reproduce("--table", "digits", "--protocol", "paper", "--runs", "1")
    assert status == 0
    assert "## Accuracy on digits (not in the paper) (optimistic)" in out
    assert "OPTIMISTIC" in out
    assert "largest average (optimistic)" in out
    with (tmp_path / "summary-paper.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["protocol"] for line in lines} == {"paper (optimistic)"}
    stored = [row for row in rows(tmp_path) if row["labels_per_class"] == 2]
    assert len(stored) == 10  # averages of one run each
    assert float(lines[0]["reported_percent"]) == pytest.approx(100 * max(row["accuracy"] for row in stored))


def test_backbones_have_a_summary_of_their_own_and_a_section_on_the_page(reproduce, tmp_path, monkeypatch):
    def hurried(unit):
        quick = replace(unit.settings, warmup_epochs=1, teaching_epochs=min(1, unit.settings.teaching_epochs))
        made = execute(replace(unit, settings=quick))
        return [replace(row, unit=unit.id, settings=asdict(unit.settings)) for row in made]

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", hurried)
    status, out, _ = reproduce("--table", "digits", "--backbones", "--runs", "1")
    assert status == 0
    assert "| minus the network alone |" in out
    assert "gat taught" in out
    assert (tmp_path / "summary-backbones.md").exists()
    assert 'id="backbones"' in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(rows(tmp_path)) == 4 * 8


def test_curves_are_drawn_if_asked_for_and_stay_on_the_page(reproduce, tmp_path, monkeypatch):
    few = {name: value for name, value in QUICK.items() if name != "epochs"}
    monkeypatch.setattr(curves, "create", lambda name: create(name, **few))
    asked = ["--table", "digits", "--datasets", "digits", "--methods", "mt-gcn", "--runs", "1"]
    reproduce(*asked)
    assert 'id="training"' not in (tmp_path / "report.html").read_text(encoding="utf-8")
    status, _, err = reproduce(*asked, "--curves")
    assert status == 0
    assert f"{tmp_path / 'curves.json'}" in err
    reproduce(*asked)
    assert 'id="training"' in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def digits_for_cora(monkeypatch):
    """No data of the suite are needed, but those that scikit-learn brings."""
    monkeypatch.setattr(plan_module, "datasets", SimpleNamespace(load=lambda name: replace(load("digits"), name=name)))


def test_a_suite_has_a_page_and_summaries_of_its_own(reproduce, digits_for_cora, executed, tmp_path):
    reproduce(*SMALL)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    small = ["--suite", "world", "--datasets", "cora", "--methods", "lp,gcn,mt-gcn", "--runs", "2"]
    status, out, err = reproduce(*small, "--final")
    assert status == 0
    names = ["summary-world.md", "summary-world.csv", "report-world.html", "tables-world.tex"]
    assert err == f"mtgcn: wrote {', '.join(str(tmp_path / name) for name in names)}\n"
    assert {name for name, content in before.items() if (tmp_path / name).read_bytes() != content} == {"rows.jsonl"}
    assert "| cora 5 on average, over all | gcn, none |" in out
    assert "printed" not in out
    made = [row for row in rows(tmp_path) if row["seed"] == 1_000_000]
    assert {(row["split"], row["labels_per_class"]) for row in made} == {("random", 3), ("random", 20), ("over-all", 5)}
    assert {row["settings"].get("feature_scaling") for row in made if row["method"] == "gcn"} == {
        *("sum", "length", "none")
    }
    with (tmp_path / "summary-world.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["variant"] for line in lines} == {"lp", "gcn", "gcn, length", "gcn, none", "mt-gcn", "mt-gcn, length"}
    done = len(executed)
    assert reproduce(*small, "--final")[1] == out
    assert len(executed) == done  # nothing again


def test_the_rows_of_a_suite_go_to_a_folder_of_their_own(few_epochs, digits_for_cora, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["--device", "cpu", "--workers", "1", "--runs", "1", "--methods", "lp"]
    assert cli.main(["reproduce", "--suite", "world", "--datasets", "cora", *common]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["reproduction-world"]
    capsys.readouterr()
    assert cli.main(["report", "reproduction-world"]) == 0
    assert capsys.readouterr().out == "reproduction-world/report-world.html\nreproduction-world/tables-world.tex\n"


def test_methods_that_are_missing_are_named_but_an_unknown_one_is_an_error(reproduce, monkeypatch):
    for name in set(METHODS) - {"gcn"}:
        monkeypatch.delitem(METHODS, name)
    status, _, err = reproduce("--table", "digits", "--runs", "1")
    assert status == 0
    assert "mtgcn: leaving out mt-gcn, which this version does not have\n" in err
    status, _, err = reproduce("--table", "digits", "--methods", "lp")
    assert status == 2
    assert "unknown method 'lp'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "6"], "unknown table '6'"),
        (["--table", "2,2"], "table names '2' twice"),
        (["--final", "--seed", "3"], "seed 3 is no final seed; leave --seed out"),
        (["--seed", "1000000"], "seed 1000000 is no development seed; add --final"),
        (["--workers", "0"], "workers is 0; give at least 1"),
        (["--workers", "1000000000"], "workers is 1000000000, which takes about"),
        (["--runs", "0"], "runs is 0; give at least 1"),
        (["--ablation", "--methods", "gcn"], "an ablation is of mt-gcn"),
        (["--protocol", "paper", "--methods", "gcn"], "takes the better of two peers and gcn has none"),
        (["--suite", "wordl"], "unknown suite 'wordl'; did you mean 'world'"),
        (["--suite", "world", "--table", "2"], "--suite world excludes --table, an option of the paper's tables"),
        (["--suite", "world", "--ablation"], "--suite world excludes --ablation"),
        (["--suite", "world", "--backbones"], "--suite world excludes --backbones"),
        (["--suite", "world", "--curves"], "--suite world excludes --curves"),
        (["--suite", "world", "--protocol", "paper"], "--suite world excludes --protocol paper"),
        (["--suite", "world", "--datasets", "digits"], "unknown dataset 'digits'"),
        (["--suite", "world", "--methods", "gcn+v"], "the suite world has none; omit gcn+v"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_rows(reproduce, tmp_path, arguments, message):
    status, out, err = reproduce(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_final_figures_have_seeds_of_their_own(reproduce, tmp_path):
    assert reproduce(*SMALL, "--methods", "gcn", "--final")[0] == 0
    assert {row["seed"] for row in rows(tmp_path)} == {1_000_000}
