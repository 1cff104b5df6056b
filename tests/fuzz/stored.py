"""Splits, rows and curves that were changed after they were written."""

import gzip
import json
from copy import deepcopy
from dataclasses import asdict

import numpy as np

from fuzz import malformed
from fuzz.case import require, run_command
from mtgcn import Graph
from mtgcn.splits import read_splits
from stored_rows import CURVES, compared_row, stored_row

GRAPH = Graph.from_scipy(np.ones((8, 8)), y=[0, 1, 0, 1, 0, 1, -1, -1])
SPLIT = {"train": [0, 1], "validation": [2], "test": [3, 4]}


def random_case(random):
    return random.choice((_split, _rows, _rows, _curves))(random)


def _text(random, content):
    for _ in range(random.choice((0, 1, 1, 2))):
        content = malformed.changed_json(random, deepcopy(content))
    text = json.dumps(content).encode()
    return malformed.changed_bytes(random, text) if random.random() < 0.3 else text


def _split(random):
    return split_of(_text(random, random.choice((SPLIT, [SPLIT, SPLIT]))))


def split_of(text):
    def case(folder):
        (folder / "split.json").write_bytes(text)
        for split in read_splits(folder / "split.json", GRAPH):
            require(len(split.train), "nothing to learn from")

    return case


def stored_rows(runs=2):
    """Rows of a sweep and of a comparison, by unit and run."""
    rows = []
    for method in ("gcn", "mt-gcn"):
        for run in range(runs):
            named = {"method": method, "settings": {}, "run": run, "runs": runs}
            swept = {"dataset": "cora", "unit": f"{method}1", "validation": 500, "table": "2", "line": method}
            rows += [stored_row(**named, **swept), compared_row(**named, dataset="mine", unit=f"{method}2")]
    return sorted(map(asdict, rows), key=lambda row: (row["unit"], row["run"]))


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


CORA = lines(row for row in stored_rows() if row["dataset"] == "cora")


def _rows(random):
    rows = stored_rows()
    for _ in range(random.choice((0, 1, 1, 2))):
        place = random.randrange(len(rows))
        rows[place] = malformed.changed_json(random, rows[place])
    text = lines(rows)
    if random.random() < 0.3:
        text = malformed.changed_bytes(random, text)
    return report_of({"rows.jsonl": text}, packed=random.random() < 0.3)


def _curves(random):
    return report_of({"rows.jsonl": CORA, "curves.json": _text(random, [CURVES])})


def report_of(files, *, packed=False):
    """The page about a folder with these files."""

    def case(folder):
        home = folder / "rows"
        home.mkdir()
        for name, content in files.items():
            path = home / (f"{name}.gz" if packed and name == "rows.jsonl" else name)
            path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
        run_command(["report", str(home)])

    return case


DEEP = b"[" * 100_000 + b"]" * 100_000
# Malformed values of one field are in the tests of splits, of the store and of curves.
REGRESSIONS = {
    "nodes of nested lists": split_of(b'{"train": [' + b"[" * 900 + b"]" * 900 + b"]}"),
    "a node of 5000 digits": split_of(b'{"train": [' + b"9" * 5000 + b"]}"),
    "half a surrogate pair as a node": split_of(b'{"train": ["\\ud800"]}'),
    "rows of nested lists": report_of({"rows.jsonl": DEEP + b"\n"}),
    "20 MiB of zeros, packed": report_of({"rows.jsonl": bytes(20 << 20)}, packed=True),
    "an accuracy of 1e300": report_of({"rows.jsonl": lines(row | {"accuracy": 1e300} for row in stored_rows())}),
    "curves of nested lists": report_of({"rows.jsonl": CORA, "curves.json": DEEP}),
    "curves that are a list": report_of({"rows.jsonl": CORA, "curves.json": b"[[]]"}),
}
