"""A file of rows, whole or damaged."""

import errno
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import store as store_module
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.store import Store, read_units, write_text


def unit_rows(unit, runs=3):
    row = StoredRow(
        dataset="ring",
        labels_per_class=(2, 1),
        method="constant",
        settings={"favourite": 1},
        run=0,
        seed=0,
        accuracy=1 / 3,
        macro_f1=0.1 + 0.2,
        calibration_error=0.0,
        seconds=0.5,
        device="cpu",
        threads=1,
        versions={"mtgcn": "0"},
        unit=unit,
        protocol="ours",
        split="random",
        validation=0,
        runs=runs,
        averages=1,
    )
    return tuple(replace(row, run=run) for run in range(runs))


@pytest.fixture
def two_units(tmp_path):
    with Store(tmp_path) as store:
        store.append(unit_rows("first"))
        store.append(unit_rows("second"))
    return tmp_path


def repaired(folder):
    """The store's units after opening it, and what it warned of."""
    warnings = []
    with Store(folder, warn=warnings.append) as store:
        return dict(store.units), warnings


def test_what_was_stored_is_read_bit_for_bit(two_units):
    assert repaired(two_units) == ({"first": unit_rows("first"), "second": unit_rows("second")}, [])
    assert read_units(two_units) == {"first": unit_rows("first"), "second": unit_rows("second")}


def test_a_file_cut_anywhere_keeps_its_complete_units_and_can_be_continued(two_units, monkeypatch):
    monkeypatch.setattr(store_module.os, "fsync", lambda _: None)  # thousands of times would take a while
    path = two_units / "rows.jsonl"
    whole = path.read_bytes()
    end_of_first = whole.index(b'{"dataset"', whole.rindex(b'"first"'))
    borders = [0, end_of_first, len(whole)]
    near = {border + shift for border in borders for shift in (-1, 0, 1)} & set(range(len(whole) + 1))
    for length in sorted({*range(0, len(whole), 17), *near}):
        path.write_bytes(whole[:length])
        readable = read_units(two_units)
        units, warnings = repaired(two_units)
        assert list(units) == ["first", "second"][: sum(length >= border for border in borders[1:])]
        assert readable == units
        assert len(warnings) == (length not in borders)
        with Store(two_units) as store:
            for unit in ("first", "second"):
                if unit not in store.units:
                    store.append(unit_rows(unit))
        assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"garbage\n", b"\0" * 100, b"{}\n", b'{"unit": "third"', b"\xff\xfe\n\n"])
def test_a_damaged_end_is_taken_out_with_a_warning(two_units, tail):
    path = two_units / "rows.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    units, [warning] = repaired(two_units)
    assert set(units) == {"first", "second"}
    assert f"its last {len(tail)} bytes were taken out" in warning
    assert path.read_bytes() == whole


def test_a_damaged_last_line_takes_the_rows_of_its_unit_with_it(two_units):
    path = two_units / "rows.jsonl"
    *lines, last = path.read_text().splitlines()
    path.write_text("\n".join([*lines, last[:-5]]) + "\n")
    units, [warning] = repaired(two_units)
    assert set(units) == {"first"}
    assert "will be computed anew" in warning


def test_damage_further_up_is_not_ours_to_repair(two_units):
    path = two_units / "rows.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:-5]
    damaged = "\n".join(lines) + "\n"
    path.write_text(damaged)
    with pytest.raises(InputError, match=r"line 2 of .* is damaged or not in its place, and rows follow it; restore"):
        repaired(two_units)
    assert path.read_text() == damaged
    lines[1] = json.dumps(asdict(unit_rows("third")[1]))  # a row of another unit
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_units(two_units)


@pytest.mark.parametrize(("order", "line"), [([1, 0, 2], 1), ([0, 2, 1], 2), ([0, 0, 1, 2], 2), ([2, 1, 0], 1)])
def test_rows_of_a_unit_that_are_not_in_order_are_refused(two_units, order, line):
    # Who pairs runs of two methods takes the n-th row for the n-th run.
    path = two_units / "rows.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[place] for place in order] + lines[3:]) + "\n")
    with pytest.raises(InputError, match=f"line {line} of .* is damaged or not in its place"):
        read_units(two_units)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dataset": "another"}, "its dataset is not that of its unit"),
        ({"seed": 1}, "its seed is not that of its unit"),
        ({"settings": {}}, "its settings is not that of its unit"),
        ({"labels_per_class": [1, 2]}, "its labels_per_class is not that of its unit"),
        ({"group": "x"}, "group is 'x'"),
        ({"versions": {"torch": "2"}}, "mtgcn is missing"),
        (
            {
                "comparison": "c",
                "scored_nodes": 1,
                "graph": dict.fromkeys(("nodes", "edges", "features", "classes"), 1),
            },
            "a row of a sweep among those of a comparison",
        ),
    ],
)
def test_a_row_that_does_not_belong_to_its_unit_is_refused(two_units, changed, message):
    path = two_units / "rows.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | changed)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=rf"line 2 of .* is no row that mtgcn wrote \({message}\); restore"):
        read_units(two_units)


def test_one_store_at_a_time(tmp_path):
    refusal = rf"another sweep \(process {os.getpid()}\) is writing into .*; wait for it"
    with Store(tmp_path), pytest.raises(InputError, match=refusal):
        Store(tmp_path).__enter__()
    with Store(tmp_path):
        pass


def test_a_store_that_is_closed_leaves_no_file_open(two_units):
    def of_the_folder():
        return [link for link in Path("/proc/self/fd").iterdir() if str(two_units) in os.path.realpath(link)]

    with Store(two_units):
        assert of_the_folder()
    assert not of_the_folder()


def test_a_store_that_failed_to_open_is_not_locked(two_units):
    path = two_units / "rows.jsonl"
    content = path.read_bytes()
    path.write_bytes(b"?\n" + content)
    with pytest.raises(InputError, match="line 1"):
        repaired(two_units)
    path.write_bytes(content)
    assert repaired(two_units)[1] == []


def test_on_a_full_disk_nothing_half_written_counts(two_units, monkeypatch):
    before = (two_units / "rows.jsonl").read_bytes()

    def half_a_write(file, content):
        os_write(file, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os_write = os.write
    with Store(two_units) as store:
        monkeypatch.setattr(store_module.os, "write", half_a_write)
        with pytest.raises(InputError, match="No space left on device; make room there and start the same command"):
            store.append(unit_rows("third"))
        monkeypatch.undo()
        assert set(store.units) == {"first", "second"}
        assert (two_units / "rows.jsonl").read_bytes() == before
        store.append(unit_rows("third"))
    assert set(read_units(two_units)) == {"first", "second", "third"}


def test_a_file_that_may_not_grow_is_like_a_full_disk(two_units):
    # The kernel itself cuts the write short here.
    path = two_units / "rows.jsonl"
    before = path.read_bytes()
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from mtgcn.experiments.store import Store\n"
        "from dataclasses import replace\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 100}, {resource.RLIM_INFINITY}))\n"
        "with Store(Path(sys.argv[1])) as store:\n"
        "    store.append([replace(row, unit='third') for row in store.units['first']])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(two_units)], capture_output=True, text=True, check=False)
    assert "InputError: cannot write to" in done.stderr
    assert path.read_bytes() == before


def test_a_summary_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    def no_space(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Store(tmp_path):
        write_text(tmp_path, "summary.md", "old")
        monkeypatch.setattr(store_module.os, "fsync", no_space)
        with pytest.raises(InputError, match=r"cannot write .*summary.md: No space left on device; make room there"):
            write_text(tmp_path, "summary.md", "new")
    assert (tmp_path / "summary.md").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "rows.jsonl", "summary.md"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write into .*file/below: Not a directory; choose another --out"):
        Store(tmp_path / "file" / "below").__enter__()


def test_nothing_to_read(tmp_path):
    with pytest.raises(InputError, match=r"holds no rows.jsonl; run mtgcn reproduce --out .* first"):
        read_units(tmp_path)
