"""Rows and the file that stores them, complete or damaged."""

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import store as store_module
from mtgcn.experiments.store import Store, read_units
from stored_rows import COMPARED, compared_row, stored_row


def unit_rows(unit, runs=3):
    row = stored_row(unit=unit, runs=runs, labels_per_class=(2, 1), accuracy=1 / 3, macro_f1=0.1 + 0.2)
    return tuple(replace(row, run=run) for run in range(runs))


@pytest.fixture
def two_units(tmp_path):
    with Store(tmp_path) as store:
        store.append(unit_rows("first"))
        store.append(unit_rows("second"))
    return tmp_path


@pytest.fixture
def path(two_units):
    return two_units / "rows.jsonl"


def repaired(folder):
    """The units after opening the store, and its warnings."""
    warnings = []
    with Store(folder, warn=warnings.append) as store:
        return dict(store.units), warnings


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def test_rows_are_read_bit_for_bit(two_units):
    assert repaired(two_units) == ({"first": unit_rows("first"), "second": unit_rows("second")}, [])
    assert read_units(two_units) == {"first": unit_rows("first"), "second": unit_rows("second")}
    row = compared_row(seed=2**128, group=1)
    with Store(two_units / "compared") as store:
        store.append([row])
    assert read_units(two_units / "compared") == {"unit": (row,)}


def test_truncated_file_keeps_complete_units_and_can_be_continued(two_units, path, monkeypatch):
    monkeypatch.setattr(store_module.os, "fsync", lambda _: None)  # slow
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


@pytest.mark.parametrize("tail", [b"garbage\n", b"\0" * 100, b"{}\n", b"7\n", b'{"unit": "third"', b"\xff\xfe\n\n"])
def test_damaged_end_is_removed_with_a_warning(two_units, path, tail):
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    units, [warning] = repaired(two_units)
    assert set(units) == {"first", "second"}
    assert f"its last {len(tail)} bytes were removed and will be computed again" in warning
    assert path.read_bytes() == whole


def test_damage_before_the_end_is_refused(two_units, path):
    *lines, last = path.read_text().splitlines()
    write_lines(path, [*lines, last[:-5]])
    assert set(repaired(two_units)[0]) == {"first"}  # the unit of the damaged last line is removed
    for damaged in (lines[1][:-5], json.dumps(asdict(unit_rows("third")[1]))):  # or a row of another unit
        write_lines(path, [lines[0], damaged, *lines[2:], last])
        content = path.read_text()
        with pytest.raises(InputError, match=r"line 2 of .* is damaged or misplaced, and rows follow it"):
            repaired(two_units)
        assert path.read_text() == content


@pytest.mark.parametrize(("order", "line"), [([1, 0, 2], 1), ([0, 2, 1], 2), ([0, 0, 1, 2], 2), ([2, 1, 0], 1)])
def test_rows_out_of_order_are_refused(two_units, path, order, line):
    lines = path.read_text().splitlines()
    write_lines(path, [lines[index] for index in order] + lines[3:])
    with pytest.raises(InputError, match=f"line {line} of .* is damaged or misplaced"):
        read_units(two_units)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dataset": "another"}, "its dataset differs from its unit"),
        ({"labels_per_class": [1, 2]}, "its labels_per_class differs from its unit"),
        (COMPARED, "its comparison differs from its unit"),
        ({"run": "1"}, "run is '1': .*"),
        ({"labels_per_class": []}, "labels_per_class.* is .*"),
        ({"seed": 2**128 + 1}, "seed is '34028.*"),
        ({"threads": -1}, "threads is '-1': .*"),
        ({"protocol": "theirs"}, "protocol is 'theirs': .*"),
        ({"versions": {"torch": "2"}}, "it is .*mtgcn is missing in its versions"),
        ({"unheard": 1}, "unheard is '1': .*"),
        (COMPARED | {"graph": {"nodes": 12, "edges": 12, "features": 12}}, "graph.classes is .*"),
    ],
    ids=str,
)
def test_invalid_row_is_refused(two_units, path, changed, message):
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | changed)
    write_lines(path, lines)
    with pytest.raises(InputError, match=rf"line 2 of .* is not a row that mtgcn wrote \({message}\); restore"):
        read_units(two_units)


def test_other_format_is_refused(two_units, path):
    path.write_text(path.read_text().replace('"format": 3', '"format": 2'))
    with pytest.raises(InputError, match="has format 2, and this mtgcn reads format 3; run the experiment again"):
        read_units(two_units)


def test_store_is_locked(tmp_path):
    refusal = r"another process is writing to .*; wait for it"
    with Store(tmp_path), pytest.raises(InputError, match=refusal):
        Store(tmp_path).__enter__()
    with Store(tmp_path):
        pass


def test_closed_or_failed_store_leaves_no_lock_and_no_open_file(two_units, path):
    def open_files():
        return [link for link in Path("/proc/self/fd").iterdir() if str(two_units) in os.path.realpath(link)]

    with Store(two_units):
        assert open_files()
    assert not open_files()
    content = path.read_bytes()
    path.write_bytes(b"?\n" + content)
    with pytest.raises(InputError, match="line 1"):
        repaired(two_units)
    assert not open_files()
    path.write_bytes(content)
    assert repaired(two_units)[1] == []


def test_full_disk_leaves_no_partial_unit(two_units, path, monkeypatch):
    before, os_write, calls = path.read_bytes(), os.write, []

    def short_write(file, content):
        calls.append(content)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os_write(file, content[: len(content) // 2 + 1])

    with Store(two_units) as store:
        monkeypatch.setattr(store_module.os, "write", short_write)
        with pytest.raises(InputError, match="No space left on device; make room there and start the same command"):
            store.append(unit_rows("third"))
        assert set(store.units) == {"first", "second"}
        assert path.read_bytes() == before
        store.append(unit_rows("third"))  # in short writes
    assert set(read_units(two_units)) == {"first", "second", "third"}


def test_folders_without_a_store(tmp_path):
    with pytest.raises(InputError, match=r"holds no rows.jsonl; run mtgcn reproduce --out .* first"):
        read_units(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write into .*file/below: Not a directory; choose another --out"):
        Store(tmp_path / "file" / "below").__enter__()
