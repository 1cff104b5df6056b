"""Rows and curves of an older format, brought to today's: fields and settings are renamed, and nothing is computed.

Seeds, ids of units and the versions that made the numbers stay what they were, so that rows of different releases are
still never mixed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtgcn.benchmark.curves import CURVES_FILE
from mtgcn.benchmark.rows import FORMAT, format_of
from mtgcn.benchmark.store import ROWS_FILE, content_of, unpacked
from mtgcn.errors import InputError
from mtgcn.files.json_text import parsed_json
from mtgcn.storage.atomic import write_file

# The settings that format 1 called otherwise. Those of a line belonged together: a method had all of them or none.
RENAMED_SETTINGS = (
    {"initial": "init", "decay": "decay_on"},
    {"answer": "output", "reading": "checkpoint"},
    {"scaling": "feature_scaling", "gathered": "propagated"},
)


def convert_folder(folder: Path) -> list[Path]:
    """Convert every file of rows in a folder, packed or not, and its curves; gives the files that were changed.

    Each is replaced whole or not at all. What is of today's format already stays as it is, and with it whatever a
    sweep is writing there.
    """
    kept = [*sorted(folder.glob("*.jsonl")), *sorted(folder.glob("*.jsonl.gz")), *folder.glob(CURVES_FILE)]
    if not kept:
        raise InputError(f"{folder} holds no {ROWS_FILE} to convert; give the folder that mtgcn reproduce wrote into")
    return [path for path in kept if _convert(path)]


def _convert(path: Path) -> bool:
    """Whether there was something to convert."""
    packed = path.suffix == ".gz"
    content = unpacked(path) if packed else content_of(path)
    converted = _curves(content, path) if path.name == CURVES_FILE else _rows(content)
    if converted == content:
        return False
    write_file(path, gzip.compress(converted, mtime=0) if packed else converted)
    return True


def _rows(content: bytes) -> bytes:
    return b"".join(_row(line) for line in content.splitlines(keepends=True))


def _row(line: bytes) -> bytes:
    """A line of a file of rows. What is no row, as after a crash, is left for the store to deal with."""
    try:
        row = parsed_json(line)
    except ValueError:
        return line
    if not isinstance(row, dict) or "settings" not in row or not line.endswith(b"\n") or format_of(row) >= FORMAT:
        return line
    return json.dumps({**row, "settings": _renamed(row["settings"]), "format": FORMAT}).encode() + b"\n"


def _curves(content: bytes, path: Path) -> bytes:
    try:
        curves = parsed_json(content)
        if all(format_of(one) >= FORMAT for one in curves):
            return content
        converted = [
            one
            if format_of(one) >= FORMAT
            else {**one, "made": {**one["made"], "settings": _renamed(one["made"]["settings"])}, "format": FORMAT}
            for one in curves
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no file of curves ({error}); take it away and draw them anew") from error
    return json.dumps(converted).encode() + b"\n"


def _renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in their order, under today's names."""
    names: dict[str, str] = {}
    for together in RENAMED_SETTINGS:
        if settings.keys() >= together.keys():
            names |= together
    return {names.get(name, name): value for name, value in settings.items()}
