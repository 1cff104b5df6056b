"""Splits, rows and curves that were changed after they were written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz import malformed
from fuzz.case import Case, require, run_command
from mtgcn import Graph
from mtgcn.splits import read_splits
from stored_rows import compared_row, stored_row

GRAPH = Graph.from_scipy(np.ones((8, 8)), y=[0, 1, 0, 1, 0, 1, -1, -1])
SPLIT = {"train": [0, 1], "validation": [2], "test": [3, 4]}
VERSIONS = {"mtgcn": "0.5.0", "python": "3.12", "torch": "2.6", "numpy": "2.1", "scipy": "1.14"}
BAND = {"mean": [0.5, 0.6], "low": [0.4, 0.5], "high": [0.6, 0.7]}
CURVES = [
    {
        "made": {
            "dataset": "cora",
            "labels_per_class": 2,
            "settings": {"warmup_epochs": 10, "teaching_epochs": 10},
            "runs": 2,
            "seed": 0,
            "device": "cpu",
            "threads": 1,
            "every": 10,
            "versions": VERSIONS,
        },
        "epochs": [10, 20],
        "accuracy": BAND,
        "losses": {"supervised": BAND, "pseudo-label": BAND, "consistency": BAND},
        "class_names": ["a", "b"],
        "precision": [BAND, BAND],
        "format": 3,
    }
]


def random_case(random: Random) -> Case:
    return random.choice((_split, _rows, _rows, _curves))(random)


def _text(random: Random, content: Any) -> bytes:
    for _ in range(random.choice((0, 1, 1, 2))):
        content = malformed.changed_json(random, deepcopy(content))
    text = json.dumps(content).encode()
    return malformed.changed_bytes(random, text) if random.random() < 0.3 else text


def _split(random: Random) -> Case:
    return split_of(_text(random, random.choice((SPLIT, [SPLIT, SPLIT]))))


def split_of(text: bytes) -> Case:
    def attempt(folder: Path) -> None:
        (folder / "split.json").write_bytes(text)
        for split in read_splits(folder / "split.json", GRAPH):
            require(len(split.train), "nothing to learn from")

    return Case(f"split {text[:100]!r}", attempt)


def stored_rows(runs: int = 2) -> list[dict[str, Any]]:
    """Rows of a sweep and of a comparison, by unit and run."""
    rows = []
    for method in ("gcn", "mt-gcn"):
        for run in range(runs):
            named = {"method": method, "settings": {}, "run": run, "runs": runs}
            swept = {"dataset": "cora", "unit": f"{method}1", "validation": 500, "table": "2", "line": method}
            rows += [stored_row(**named, **swept), compared_row(**named, dataset="mine", unit=f"{method}2")]
    return sorted(map(asdict, rows), key=lambda row: (row["unit"], row["run"]))


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


CORA = lines(row for row in stored_rows() if row["dataset"] == "cora")


def _rows(random: Random) -> Case:
    rows: list[Any] = stored_rows()
    for _ in range(random.choice((0, 1, 1, 2))):
        place = random.randrange(len(rows))
        rows[place] = malformed.changed_json(random, rows[place])
    text = lines(rows)
    if random.random() < 0.3:
        text = malformed.changed_bytes(random, text)
    return report_of({"rows.jsonl": text}, packed=random.random() < 0.3)


def _curves(random: Random) -> Case:
    return report_of({"rows.jsonl": CORA, "curves.json": _text(random, CURVES)})


def report_of(files: dict[str, bytes], *, packed: bool = False, command: str = "report") -> Case:
    """The page about a folder with these files."""

    def attempt(folder: Path) -> None:
        home = folder / "rows"
        home.mkdir()
        for name, content in files.items():
            path = home / (f"{name}.gz" if packed and name == "rows.jsonl" else name)
            path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
        run_command([command, str(home)])

    return Case(f"{command} of {sorted(files)}{' packed' if packed else ''}", attempt)


def _row_with(**changed: Any) -> Case:
    return report_of({"rows.jsonl": lines(row | changed for row in stored_rows() if row["unit"] == "gcn2")})


def _changed_row(**changed: Any) -> Case:
    """Rows of a unit, the last of which differs from the first."""
    first, last = (row for row in stored_rows() if row["unit"] == "gcn1")
    return report_of({"rows.jsonl": lines((first, last | changed))})


def _curves_with(path: tuple[str | int, ...], value: Any) -> Case:
    curves = deepcopy(CURVES)
    inner: Any = curves
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return report_of({"rows.jsonl": CORA, "curves.json": json.dumps(curves).encode()})


CURVE_FAULTS: tuple[tuple[tuple[str | int, ...], Any], ...] = (
    ((0, "epochs"), [10]),
    ((0, "epochs"), [[10], 20]),
    ((0, "epochs"), [0, 0]),
    ((0, "class_names"), ["a"]),
    ((0, "class_names"), [1, True]),
    ((0, "accuracy", "mean"), [[], "x"]),
    ((0, "accuracy", "low"), [0.1]),
    ((0, "losses", "supervised"), BAND | {"high": ["x", None]}),
    ((0, "made", "seed"), None),
    ((0, "made"), {}),
    ((0, "made", "settings"), {"warmup_epochs": []}),
    ((0, "format"), "x" * 10_000),
)
DEEP = b"[" * 100_000 + b"]" * 100_000
REGRESSIONS = (
    split_of(DEEP),
    split_of(b'{"train": [' + b"[" * 900 + b"]" * 900 + b"]}"),
    split_of(b'{"train": [0], "train": [1]}'),
    split_of(b'{"train": [' + b"9" * 5000 + b"]}"),
    split_of(b'{"train": ["\\ud800"]}'),
    report_of({"rows.jsonl": DEEP + b"\n"}),
    _row_with(accuracy="good"),
    _row_with(settings=5),
    report_of({"rows.jsonl": bytes(20 << 20)}, packed=True),
    report_of({"rows.jsonl": b"", "curves.json": DEEP}),
    report_of({"rows.jsonl": b"", "curves.json": b"[[]]"}),
    report_of({"rows.jsonl": b"", "curves.json": b'[{"losses": []}]'}),
    _row_with(accuracy=1e300),
    _row_with(format="x" * 10_000),
    _changed_row(split="public"),
    *(_curves_with(path, value) for path, value in CURVE_FAULTS),
)
