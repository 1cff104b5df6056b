"""Tables for a person: CSV files, whole or not at all, or the same on standard output."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.storage.files import check_file, own_descriptor, write_file

STANDARD_OUTPUT = Path("-")


def is_standard_output(path: Path) -> bool:
    """Whether a person means standard output by it, where nothing else may then be printed."""
    return path == STANDARD_OUTPUT or own_descriptor(path) == 1


def check_output(path: Path) -> None:
    """Refuse a file that could not be written."""
    if not is_standard_output(path):
        check_file(path)
    elif sys.stdout is None:
        raise InputError(f"--out {path} where standard output is closed; give a file")


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as `table_bytes` has it, in a file or on standard output."""
    content = table_bytes(header, rows)
    if is_standard_output(path):
        _print(content)
        return
    write_file(path, content)


def table_bytes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """UTF-8 with a header; text that was not UTF-8 where it was read is written as it stood there."""
    buffer = io.BytesIO()
    text = io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape", newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    text.flush()
    return buffer.getvalue()


def _print(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough: `… --out - | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
