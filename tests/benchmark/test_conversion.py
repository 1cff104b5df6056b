"""Rows and curves of an older format: refused with the command that converts them, and converted without loss."""

import gzip
import json
from pathlib import Path

import pytest

from mtgcn import cli
from mtgcn.benchmark import conversion
from mtgcn.benchmark.conversion import convert_folder
from mtgcn.benchmark.curves import CURVES_FILE, read_curves
from mtgcn.benchmark.store import Store, read_units
from mtgcn.errors import InputError

NETWORK = {"hidden_channels": 16, "decay": "all", "bias": True, "initial": "uniform"}
RENAMED_NETWORK = {"hidden_channels": 16, "decay_on": "all", "bias": True, "init": "uniform"}
SETTINGS = {  # by method, in format 1 and in format 2
    "gcn": (NETWORK, RENAMED_NETWORK),
    "mt-gcn": (
        {**NETWORK, "mutual": True, "answer": "mean", "reading": "last"},
        {**RENAMED_NETWORK, "mutual": True, "output": "mean", "checkpoint": "last"},
    ),
    "mt-plus": (
        {"embeddings": 5, "scaling": "length", "gathered": "along-walk"},
        {"embeddings": 5, "feature_scaling": "length", "propagated": "along-walk"},
    ),
    "nothing but the network's": (
        {"decay": "all", "initial": "uniform"},
        {"decay_on": "all", "init": "uniform"},
    ),
    "lp": ({"alpha": 1e-06}, {"alpha": 1e-06}),
    "somebody's own": ({"decay": 0.5, "answer": 42}, {"decay": 0.5, "answer": 42}),
}
BAND = {"mean": [0.1, None], "low": [0.05, None], "high": [1 / 3, None]}
CURVES = {
    "made": {
        "dataset": "cora",
        "labels_per_class": 2,
        "runs": 10,
        "seed": 0,
        "device": "cpu",
        "settings": {"warmup_epochs": 200, **SETTINGS["mt-gcn"][0]},
        "versions": {"mtgcn": "0.2.0"},
    },
    "epochs": [10, 20],
    "accuracy": BAND,
    "losses": {"supervised": BAND},
    "class_names": ["a", "b"],
    "precision": [BAND, BAND],
}


def old_rows(method):
    return [
        {
            "dataset": "cora",
            "labels_per_class": 2,
            "method": method,
            "settings": SETTINGS[method][0],
            "run": run,
            "seed": 1_000_002,
            "accuracy": 1 / 3 + run,
            "macro_f1": 0.1 + 0.2,
            "calibration_error": 0.0,
            "seconds": 1e-9,
            "device": "cpu",
            "threads": 1,
            "versions": {"mtgcn": "0.2.0", "torch": "2"},
            "unit": f"unit of {method}",
            "protocol": "ours",
            "split": "random",
            "validation": 500,
            "runs": 2,
            "averages": 1,
        }
        for run in range(2)
    ]


OLD = "".join(json.dumps(row) + "\n" for method in SETTINGS for row in old_rows(method)).encode()


@pytest.fixture
def folder(tmp_path):
    """A folder of format 1: rows, the same packed under another name, and curves."""
    (tmp_path / "rows.jsonl").write_bytes(OLD)
    (tmp_path / "earlier.jsonl.gz").write_bytes(gzip.compress(OLD, mtime=0))
    (tmp_path / CURVES_FILE).write_text(json.dumps([CURVES]))
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_settings_are_renamed_and_all_else_stays(folder):
    assert [path.name for path in convert_folder(folder)] == ["rows.jsonl", "earlier.jsonl.gz", CURVES_FILE]
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for before, after in zip(map(json.loads, OLD.splitlines()), rows, strict=True):
        renamed = SETTINGS[before["method"]][1]
        assert after == {**before, "settings": renamed, "format": 2}
        assert list(after["settings"]) == list(renamed)  # in their order
    assert gzip.decompress((folder / "earlier.jsonl.gz").read_bytes()) == (folder / "rows.jsonl").read_bytes()
    assert list(read_units(folder)) == [f"unit of {method}" for method in SETTINGS]
    [curves] = json.loads((folder / CURVES_FILE).read_text())
    assert curves == {
        **CURVES,
        "made": {**CURVES["made"], "settings": {"warmup_epochs": 200, **SETTINGS["mt-gcn"][1]}},
        "format": 2,
    }
    assert read_curves(folder)[0].accuracy.high == (1 / 3, None)


def test_what_is_converted_is_not_touched_again(folder):
    convert_folder(folder)
    before = contents(folder)
    assert convert_folder(folder) == []
    assert contents(folder) == before


def test_old_and_new_rows_may_lie_in_one_file(folder):
    path = folder / "rows.jsonl"
    convert_folder(folder)
    new = path.read_bytes()
    path.write_bytes(new + OLD)
    convert_folder(folder)
    assert path.read_bytes() == new + new


def test_old_and_new_curves_may_lie_in_one_file(folder):
    # Of today's format, what was another setting's name may be anybody's.
    new = {**CURVES, "format": 2}
    (folder / CURVES_FILE).write_text(json.dumps([CURVES, new]))
    convert_folder(folder)
    first, second = json.loads((folder / CURVES_FILE).read_text())
    assert first["made"]["settings"] == {"warmup_epochs": 200, **SETTINGS["mt-gcn"][1]}
    assert second == new


def test_packed_rows_do_not_tell_when_they_were_packed(folder):
    # RFC 1952: a time of 0 is none. So the same rows are the same bytes, whenever they are converted.
    convert_folder(folder)
    assert (folder / "earlier.jsonl.gz").read_bytes()[4:8] == bytes(4)


def test_the_end_that_a_crash_left_is_kept_for_the_store_to_mend(folder):
    path = folder / "rows.jsonl"
    torn = OLD.splitlines()[0][:-20]
    path.write_bytes(OLD + torn)
    convert_folder(folder)
    assert path.read_bytes().endswith(b"}\n" + torn)
    warnings = []
    with Store(folder, warn=warnings.append) as store:
        assert len(store.units) == len(SETTINGS)
    assert f"its last {len(torn)} bytes were taken out" in warnings[0]


def test_a_file_is_replaced_whole_or_not_at_all(folder, monkeypatch):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    before = contents(folder)
    monkeypatch.setattr("mtgcn.storage.atomic.os.replace", no_room)
    with pytest.raises(InputError, match=r"cannot write .*rows.jsonl: No space left on device"):
        convert_folder(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_old_rows_are_refused_with_the_command_that_converts_them(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(OLD) if name.endswith(".gz") else OLD)
    refusal = rf"{name} is of format 1, as mtgcn before 0.3.0 wrote it.*; run mtgcn convert {tmp_path} once"
    with pytest.raises(InputError, match=refusal):
        read_units(tmp_path)
    convert_folder(tmp_path)
    assert len(read_units(tmp_path)) == len(SETTINGS)


def test_a_sweep_does_not_go_on_from_old_rows(folder):
    with pytest.raises(InputError, match="run mtgcn convert"):
        Store(folder).__enter__()
    assert (folder / "rows.jsonl").read_bytes() == OLD


def test_old_curves_are_refused_likewise(folder):
    with pytest.raises(InputError, match=rf"{CURVES_FILE} is of format 1.*; run mtgcn convert {folder} once"):
        read_curves(folder)


def test_rows_of_a_later_format_are_refused(folder):
    convert_folder(folder)
    path = folder / "rows.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 3'))
    with pytest.raises(InputError, match="is of format 3 and this mtgcn reads format 2; take a newer mtgcn"):
        read_units(folder)


def test_damaged_curves_are_said(folder):
    (folder / CURVES_FILE).write_text('{"made"')
    with pytest.raises(InputError, match="is no file of curves"):
        convert_folder(folder)


def test_the_command_names_what_it_converted(folder, capsys):
    assert cli.main(["convert", str(folder)]) == 0
    assert capsys.readouterr().out.split() == [
        str(folder / name) for name in ("rows.jsonl", "earlier.jsonl.gz", CURVES_FILE)
    ]
    assert cli.main(["convert", str(folder)]) == 0
    assert capsys.readouterr() == ("", f"mtgcn: everything in {folder} is of today's format already\n")


def test_nothing_to_convert_is_bad_input(tmp_path, capsys):
    assert cli.main(["convert", str(tmp_path / "nowhere")]) == cli.BAD_INPUT
    assert "holds no rows.jsonl to convert" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["", "final"])
def test_the_rows_that_the_project_keeps_are_of_todays_format(folder):
    kept = Path(__file__).parents[2] / "docs" / "reproduction" / folder
    old_names = {name for together in conversion.RENAMED_SETTINGS for name in together}
    for rows in read_units(kept).values():
        assert old_names.isdisjoint(rows[0].settings)
    assert len(read_curves(kept)) == (0 if folder else 4)
