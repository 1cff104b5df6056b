"""Tables for a person: CSV files, whole or not at all, or the same on standard output."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.storage.atomic import write_atomically
from mtgcn.storage.destinations import check_file

STANDARD_OUTPUT = Path("-")


def check_output(path: Path) -> None:
    """Refuse a file that could not be written."""
    if path != STANDARD_OUTPUT:
        check_file(path)


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """UTF-8 with a header; text that was not UTF-8 where it was read is written as it stood there."""
    buffer = io.BytesIO()
    text = io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape", newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    text.flush()
    if path == STANDARD_OUTPUT:
        _print(buffer.getvalue())
        return
    try:
        write_atomically(path, buffer.getvalue())
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; make room or give another file, nothing was changed"
        ) from error


def _print(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough: `… --out - | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
