"""Output of commands: notes collected while they run, and CSV tables to a file or standard output."""

from __future__ import annotations

import csv
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mtgcn.errors import LOGGER, InputError, printable
from mtgcn.storage.files import check_file, write_file


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """A list that contains, after the block, each warning raised in it once and on one line. A `FitWarning` is
    omitted, since summaries list these separately."""
    from mtgcn.uncertainty.warnings import FitWarning  # imports torch

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", FitWarning)
        yield notes
    notes.extend(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))


@contextmanager
def collected_files() -> Iterator[list[str]]:
    """A list of the files read in the block with their detected types, one line each."""
    lines: list[str] = []
    handler, level = logging.Handler(), LOGGER.level
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def is_standard_output(path: Path) -> bool:
    """Whether the path means standard output."""
    return str(path) in ("-", "/dev/stdout", "/dev/fd/1")


def check_output(path: Path) -> None:
    """Raise if an output cannot be written."""
    if not is_standard_output(path):
        check_file(path)
    elif sys.stdout is None:
        raise InputError(f"--out {path} requires standard output, which is closed; give a file")


def write_output(path: Path, content: bytes) -> None:
    """Write to a file, all or nothing, or to standard output."""
    if not is_standard_output(path):
        write_file(path, content)
        return
    try:
        if sys.stdout.isatty():  # ids and names may contain control characters
            lines = content.decode("utf-8", "surrogateescape").split("\n")
            content = "\n".join(map(printable, lines)).encode("utf-8", "surrogateescape")
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as `… --out - | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python reports it again at exit


def table_bytes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A CSV table in UTF-8 with a header. Bytes of the input that are not UTF-8 are written back unchanged."""
    buffer = io.BytesIO()
    text = io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape", newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    text.flush()
    return buffer.getvalue()
