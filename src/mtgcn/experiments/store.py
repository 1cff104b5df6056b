"""Rows in a folder, written so that a sweep killed at any moment loses at most what it was working on.

`rows.jsonl` holds one JSON object per row. The rows of a unit stand together, in order, and are written and forced
to disk in one go. So only the end of the file can ever be incomplete, and whether a unit is whole can be seen from
its rows alone.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.experiments.rows import ROW_FORM, StoredRow, check_format, check_of_one_unit, format_of
from mtgcn.memory import check_fits
from mtgcn.storage.files import parsed_json, read_plain, write_file
from mtgcn.storage.locks import HeldElsewhere, OwnedLock

ROWS_FILE, LOCK_FILE = "rows.jsonl", ".lock"
PACKED_ROWS_FILE = f"{ROWS_FILE}.gz"  # as people keep them; only read

UNPACKED_AT_ONCE = 16 << 20  # bytes
COPIES = 4  # of what is unpacked that reading rows takes: text, lines, rows

Rows = tuple[StoredRow, ...]


def read_units(folder: Path) -> dict[str, Rows]:
    """The rows of every complete unit in a folder, by unit, packed or not. Changes nothing, also while a sweep is
    writing there."""
    path, packed = folder / ROWS_FILE, folder / PACKED_ROWS_FILE
    if not path.exists() and not packed.exists():
        raise InputError(f"{folder} holds no {ROWS_FILE}; run mtgcn reproduce --out {folder} first")
    units = _scan(packed, unpacked(packed)).units if packed.exists() else {}
    return units | (_scan(path, content_of(path)).units if path.exists() else {})


def unpacked(path: Path) -> bytes:
    """What a packed file holds."""
    try:
        packed = read_plain(path)
        check_fits(COPIES * _unpacked_bytes(packed), f"{path}, unpacked,", "is it a file of rows?")
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked: {error}; restore the file from a copy") from error


def _unpacked_bytes(packed: bytes) -> int:
    """How much a packed file holds. Nothing of it is kept: a few bytes can grow without end."""
    with gzip.open(io.BytesIO(packed)) as file:
        return sum(len(part) for part in iter(lambda: file.read(UNPACKED_AT_ONCE), b""))


def content_of(path: Path) -> bytes:
    """What a file holds."""
    try:
        return read_plain(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error


class Store:
    """A folder that one sweep at a time may write to; use it in a `with` statement."""

    def __init__(self, folder: Path, warn: Callable[[str], None] = warnings.warn) -> None:
        self.folder, self.path, self._warn = folder, folder / ROWS_FILE, warn
        self._lock = OwnedLock(folder / LOCK_FILE)
        self._units: dict[str, Rows] = {}

    def __enter__(self) -> Store:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except HeldElsewhere as held:
            raise InputError(
                f"another sweep (process {held.owner}) is writing into {self.folder}; "
                "wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write into {self.folder}: {error.strerror}; choose another --out") from error
        try:
            self._file = self._open()
            self._units = self._read_and_repair()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}; choose another --out") from error

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        self._lock.release()

    @property
    def units(self) -> Mapping[str, Rows]:
        """The rows of every complete unit."""
        return self._units

    def append(self, rows: Sequence[StoredRow]) -> None:
        """Store all rows of one unit, or none of them."""
        text = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)
        size = os.fstat(self._file).st_size
        try:
            _write_all(self._file, text.encode())
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # if not even that works, the next sweep takes the rest out
                os.ftruncate(self._file, size)
            raise InputError(
                f"cannot write to {self.path}: {error.strerror}; make room there and start the same command again, "
                "what it had finished is stored"
            ) from error
        self._units[rows[0].unit] = tuple(rows)

    def _read_and_repair(self) -> dict[str, Rows]:
        found = _scan(self.path, content_of(self.path))
        damaged = found.bytes - found.complete_bytes
        if damaged:
            self._warn(
                f"the end of {self.path} was incomplete, as after a crash; its last {damaged} bytes were taken out "
                "and will be computed anew"
            )
            os.ftruncate(self._file, found.complete_bytes)
            os.fsync(self._file)
        return found.units


def write_text(folder: Path, name: str, text: str) -> Path:
    """A file in a folder: after a crash there is the old one or the new one, never half of it."""
    return write_file(folder / name, text)


def _write_all(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


@dataclass
class _Scan:
    """What a file of rows holds, up to the first thing wrong with it."""

    bytes: int
    complete_bytes: int = 0  # where the last complete unit ends
    units: dict[str, Rows] = field(default_factory=dict)


def _scan(path: Path, content: bytes) -> _Scan:
    found = _Scan(len(content))
    begun: list[StoredRow] = []
    position = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        position += len(line)
        row = _parsed(line, path, number)
        if row is None or row.run != len(begun) or (begun and row.unit != begun[0].unit):
            _check_nothing_follows(content[position:], path, number)
            break
        try:
            check_of_one_unit(row, begun[0] if begun else row)
        except ValueError as error:
            raise _no_row(path, number, error) from error
        begun.append(row)
        if len(begun) == row.runs:
            found.units.setdefault(row.unit, tuple(begun))
            found.complete_bytes = position
            begun = []
    return found


def _check_nothing_follows(rest: bytes, path: Path, number: int) -> None:
    """A crash damages the end. What is damaged further up was damaged by something else, and is not ours to drop."""
    if any(_parsed(line, path, number) for line in rest.splitlines(keepends=True)):
        raise InputError(
            f"line {number} of {path} is damaged or not in its place, and rows follow it; "
            "restore the file from a copy, or choose another --out"
        )


def _parsed(line: bytes, path: Path, number: int) -> StoredRow | None:
    """The row in a line; None if there is none, or if the line is not finished."""
    if not line.endswith(b"\n"):
        return None
    try:
        content = parsed_json(line)
    except ValueError:
        return None
    if not isinstance(content, dict) or not ROW_FORM.keys() <= content.keys():
        return None
    try:
        check_format(format_of(content), path)
        return StoredRow.from_json(content)
    except InputError:
        raise
    except (ValueError, TypeError, KeyError) as error:  # no crash leaves a whole line that says something else
        raise _no_row(path, number, error) from error


def _no_row(path: Path, number: int, error: Exception) -> InputError:
    return InputError(
        f"line {number} of {path} is no row that mtgcn wrote ({error}); restore the file from a copy, or choose "
        "another --out"
    )
