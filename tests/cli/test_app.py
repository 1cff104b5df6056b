"""Experiments and lists from the command line: what is printed where, and the exit status."""

import json
import socket
import sys
from dataclasses import replace

import numpy as np
import pytest

import mtgcn
from mtgcn import datasets
from mtgcn.cli import app as cli
from mtgcn.experiments import scoring as run_module
from mtgcn.experiments.store import read_units
from mtgcn.methods import METHODS
from mtgcn.storage.cache import cached_arrays, stored_arrays

QUICK = ["--method", "mt-gcn", "--set", "warmup_epochs=3", "--set", "teaching_epochs=3", "--set", "hidden_channels=4"]
RUN_DIGITS = ["run", "--dataset", "digits", "--labels-per-class", "2", "--runs", "3", "--device", "cpu", *QUICK]


def test_run_json_is_one_object(succeeds):
    result = json.loads(succeeds(*RUN_DIGITS, "--json"))
    assert set(result) == {
        *("dataset", "labels_per_class", "split", "method", "settings", "runs", "seed", "accuracy", "macro_f1"),
        *("calibration_error", "seconds", "device", "threads", "versions", "groups", "notes", "warnings"),
        *("score", "balanced_accuracy", "roc_auc", "average_precision"),
    }
    assert (result["dataset"], result["labels_per_class"], result["method"]) == ("digits", 2, "mt-gcn")
    assert (result["runs"], result["seed"], result["device"]) == (3, 0, "cpu")
    assert result["settings"]["warmup_epochs"] == 3
    assert result["seconds"] > 0
    for measure in ("accuracy", "macro_f1", "calibration_error"):
        sample = result[measure]
        assert set(sample) == {"mean", "std", "ci95", "per_run"}
        assert len(sample["per_run"]) == 3
        assert 0 <= sample["ci95"][0] <= sample["mean"] <= sample["ci95"][1] <= 1


def test_labels_per_class_can_differ(succeeds):
    counts = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    out = succeeds(*RUN_DIGITS, "--labels-per-class", ",".join(map(str, counts)), "--json")
    assert json.loads(out)["labels_per_class"] == counts


def test_split_files(succeeds, tmp_path):
    labels, file = datasets.load("digits").labels, tmp_path / "splits.json"
    run = ["run", "--dataset", "digits", "--split", file, *QUICK, "--json"]
    of_each = [[int((labels == number).nonzero()[0][place]) for number in range(10)] for place in (0, 1)]
    file.write_text(json.dumps([{"train": nodes} for nodes in of_each]))
    result = json.loads(succeeds(*run))
    assert (result["runs"], result["labels_per_class"]) == (2, 1)
    file.write_text(json.dumps({"train": list(range(40))}))
    result = json.loads(succeeds(*run, "--runs", "3"))
    assert len(set(result["accuracy"]["per_run"])) > 1  # runs on one split differ by seed


@pytest.mark.usefixtures("few_epochs")
@pytest.mark.slow
def test_compare_reports_paired_differences(mtgcn_command):
    arguments = ["compare", "--dataset", "digits", "--labels-per-class", "2", "--runs", "3"]
    status, out, err = mtgcn_command(*arguments, "--json")
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert result["reference"] == "mt-plus"
    gcn, mt_gcn, mt_plus = result["cells"]
    assert (gcn["method"], mt_gcn["method"], mt_plus["method"]) == ("gcn", "mt-gcn", "mt-plus")
    difference = mt_gcn["accuracy"]["mean"] - mt_plus["accuracy"]["mean"]
    assert result["differences"]["mt-gcn"]["mean"] == pytest.approx(difference)
    assert list(result["p_values"]) == ["gcn", "mt-gcn"]
    _, table, _ = mtgcn_command(*arguments, "--methods", "gcn,mt-gcn")
    assert "minus mt-gcn" in table
    _, table, _ = mtgcn_command(*arguments, "--methods", "gcn,mt-gcn", "--reference", "gcn")
    assert "minus gcn" in table


@pytest.mark.usefixtures("few_epochs")
@pytest.mark.parametrize(("options", "validation"), [([], 500), (["--validation-per-class", 30], 300)])
def test_validation_nodes_are_never_scored(succeeds, tmp_path, options, validation):
    drawn = ["--dataset", "digits", "--labels-per-class", 2, "--runs", 2, "--out", tmp_path, *options, "-q"]
    succeeds("compare", *drawn, "--methods", "gcn,gcn+v")
    succeeds("run", *drawn, "--method", "gcn+v")  # whose rows are stored: it has the same splits
    rows = [row for rows in read_units(tmp_path).values() for row in rows]
    assert (len(rows), {row.scored_nodes for row in rows}) == (4, {1797 - 20 - validation})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--dataset", "digit", "--labels-per-class", "2"], "unknown dataset 'digit'; did you mean 'digits'?"),
        ([*RUN_DIGITS, "--method", "mtgcn"], "unknown method 'mtgcn'; did you mean 'mt-gcn'?"),
        ([*RUN_DIGITS, "--labels-per-class", "two"], "labels-per-class is 'two'; give a whole number"),
        ([*RUN_DIGITS, "--runs", "many"], "'--runs'"),
        ([*RUN_DIGITS, "--device", "gpu"], "unknown device 'gpu'"),
        ([*RUN_DIGITS, "--split", "nowhere.json"], "split 'nowhere.json' is neither"),
        (["run"], "no graph; give either --dataset or files"),
        ([*RUN_DIGITS, "--edges", "e.csv"], "two graphs; give either --dataset or files"),
        (["fit", "--edges", "e.csv"], "--out is missing; give a folder for the model"),
        (["predict", "model"], "Missing option '--out'"),
        (["runs"], "No such command 'runs'"),
        (["compare", "--dataset", "digits", "--methods", "gcn,gcn"], "methods names 'gcn' twice; name it once"),
    ],
)
def test_bad_input_is_one_line_and_status_2(fails, arguments, message):
    fails(message, *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset", "digits", "--edges", "edges.csv"], "give one of them"),
        (["--host", "0.0.0.0"], "address that others use"),
        (["--host", "no.such.host.invalid"], "give another --host or --port"),
    ],
)
def test_studio_that_cannot_start(fails, tmp_path, options, message):
    fails(message, "studio", "--no-browser", "--project", tmp_path / "project", *options)
    assert not (tmp_path / "project").exists()


def test_studio_without_port_or_package(fails, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        fails("give another --host or --port", "studio", "--port", taken.getsockname()[1])
    monkeypatch.setitem(sys.modules, "nicegui", None)
    fails("NiceGUI, which is not installed; pip install 'mtgcn[studio]'", "studio")


def test_interruption(mtgcn_command, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "load", interrupted)
    assert mtgcn_command(*RUN_DIGITS) == (130, "", "mtgcn: interrupted\n")


def test_internal_errors_keep_their_traceback(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(RUN_DIGITS)


def test_datasets_lists_what_is_cached_and_what_is_not(mtgcn_command, monkeypatch, tmp_path):
    monkeypatch.delenv("MTGCN_DATA", raising=False)
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    status, out, err = mtgcn_command("datasets", "--json")
    assert (status, err) == (0, "")
    listed = json.loads(out)
    digits, *tables = listed["datasets"]
    assert [table["name"] for table in tables] == ["wine", "breast_cancer"]
    assert (digits["name"], digits["nodes"], digits["classes"], digits["features"]) == ("digits", 1797, 10, 64)
    assert digits["repeated_nodes"] == 0
    found = {"digits", "wine", "breast_cancer"}
    assert listed["absent"] == [name for name in datasets.NAMES if name not in found]
    _, table, _ = mtgcn_command("datasets")
    assert "1797" in table
    assert f"{', '.join(listed['absent'])}: not here; fetched when first used" in table
    assert not (tmp_path / "cache").exists()  # nothing was fetched


@pytest.mark.usefixtures("few_epochs")
@pytest.mark.parametrize(("reachable", "dataset"), [(True, "cora"), (False, "digits")])
@pytest.mark.slow
def test_demo_falls_back_to_digits(mtgcn_command, monkeypatch, reachable, dataset):
    digits = datasets.load("digits")

    def load(name):
        if name != "digits" and not reachable:
            raise datasets.SourceUnreachable(f"{name} cannot be fetched; connect to a network")
        return replace(digits, name=name)

    monkeypatch.setattr(datasets, "load", load)
    monkeypatch.setattr(run_module, "DEFAULT_RUNS", 2)
    status, out, err = mtgcn_command("demo")
    assert status == 0
    assert f"mtgcn compare --dataset {dataset} --labels-per-class 2" in out
    assert f"Accuracy % on {dataset}, 2 labels per class, 2 runs" in out
    lines = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert lines[-4:-1] == ["gcn", "mt-gcn", "mt-plus"]
    assert ("cora cannot be fetched" in err) is not reachable


def test_version_and_help(mtgcn_command):
    assert mtgcn_command("--version") == (0, f"mtgcn {mtgcn.__version__}\n", "")
    status, out, _ = mtgcn_command()
    assert status == 0
    assert all(command in out for command in ("datasets", "run", "compare", "demo"))


@pytest.mark.slow
def test_methods_lists_settings(succeeds, fails):
    out = succeeds("methods")
    assert all(name in out for name in METHODS)
    out = succeeds("methods", "mt-gcn")
    assert "MT-GCN (Zhan and Niu, 2021)" in out
    assert "number, at least 0, below 1" in out  # the limits of dropout
    [described] = json.loads(succeeds("methods", "lp", "--json"))["methods"]
    assert (described["name"], [setting["name"] for setting in described["settings"]]) == ("lp", ["alpha"])
    for method in json.loads(succeeds("methods", "--json"))["methods"]:
        assert method["title"]
        assert all(setting["meaning"] for setting in method["settings"]), method["name"]
    fails("did you mean 'mt-gcn'", "methods", "mt-gnc")


def test_cache_removes_the_least_recently_used(succeeds, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    monkeypatch.setattr("mtgcn.storage.cache.MAX_CACHE_BYTES", 4000)
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "amazon.npz").write_bytes(bytes(5000))  # a dataset
    names = ["a" * 64, "b" * 64, "c" * 64]

    def stored(name):
        made = []
        cached_arrays("infomax", name, {"x": (100,)}, lambda: made.append(name) or {"x": np.zeros(100)})
        return not made

    assert [stored(name) for name in (*names[:2], names[0], names[2])] == [False, False, True, False]
    assert {path.stem for path in stored_arrays()} == {names[0], names[2]}
    found = json.loads(succeeds("cache", "--json"))
    assert (found["files"], found["folder"], found["removed"]) == (2, str(tmp_path), 0)
    assert f"{tmp_path}: 2 stored encoders, 1 MiB of at most" in succeeds("cache")
    assert succeeds("cache", "--clear").startswith("removed 2 stored encoders\n")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["amazon.npz"]
