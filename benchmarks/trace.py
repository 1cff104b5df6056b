"""Count the functions and files of mtgcn that a command runs through.

    python benchmarks/trace.py                                # fit, predict and a small reproduce
    python benchmarks/trace.py fit --json trace.json --list   # and the files of one command
    PYTHONPATH=OTHER/src python benchmarks/trace.py           # the same for another version

Each command runs in a fresh process on Zachary's karate club (34 nodes, 20 labels) with an empty cache, traced with
`sys.setprofile` in all threads. A function counts once. Module and class bodies do not count, so a file that is only
imported does not count.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
from importlib import import_module, util
from pathlib import Path
from typing import Any

COMMANDS = ("fit", "predict", "reproduce")
FRIENDS = (
    "1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-11 1-12 1-13 1-14 1-18 1-20 1-22 1-32 2-3 2-4 2-8 2-14 2-18 2-20 2-22 2-31 3-4 "
    "3-8 3-9 3-10 3-14 3-28 3-29 3-33 4-8 4-13 4-14 5-7 5-11 6-7 6-11 6-17 7-17 9-31 9-33 9-34 10-34 14-34 15-33 15-34 "
    "16-33 16-34 19-33 19-34 20-34 21-33 21-34 23-33 23-34 24-26 24-28 24-30 24-33 24-34 25-26 25-28 25-32 26-32 27-30 "
    "27-34 28-34 29-32 29-34 30-33 30-34 31-33 31-34 32-33 32-34 33-34"
)
LABELS = {"instructor": (*range(1, 9), 11, 12), "administrator": (*range(27, 35), 21, 23)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="fit, predict or reproduce; default: all")
    parser.add_argument("--json", metavar="FILE", help="also write the counts, files and functions")
    parser.add_argument("--list", action="store_true", help="print the functions of each file")
    arguments = parser.parse_args()
    if unknown := set(arguments.commands) - set(COMMANDS):
        parser.error(f"unknown commands {sorted(unknown)}; choose from {', '.join(COMMANDS)}")
    chosen = arguments.commands or COMMANDS
    with tempfile.TemporaryDirectory() as folder:
        traces = _traces(Path(folder), chosen)
    print(f"{'command':<12}{'functions':>10}{'files':>7}")
    for command, functions in traces.items():
        print(f"{command:<12}{sum(map(len, functions.values())):>10}{len(functions):>7}")
        if arguments.list:
            for file, names in functions.items():
                print(f"  {file:<45} {' '.join(names)}")
    if arguments.json:
        counts = {
            command: {"functions": sum(map(len, found.values())), "files": len(found), "by_file": found}
            for command, found in traces.items()
        }
        Path(arguments.json).write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


def _traces(folder: Path, chosen: tuple[str, ...]) -> dict[str, dict[str, list[str]]]:
    edges, labels, model = folder / "edges.csv", folder / "labels.csv", folder / "model"
    _write_table(edges, ["source", "target"], (pair.split("-") for pair in FRIENDS.split()))
    _write_table(labels, ["id", "label"], ((node, name) for name, nodes in LABELS.items() for node in nodes))
    typed = {
        "fit": ["fit", "--edges", edges, "--labels", labels, "--out", model],
        "predict": ["predict", model, "--out", folder / "predictions.csv"],
        "reproduce": ["reproduce", "--table", "digits", "--methods", "lp", "--runs", "1", "--workers", "1"],
    }
    typed["reproduce"] += ["--out", folder / "rows"]
    needed = dict.fromkeys(("fit", *chosen)) if "predict" in chosen else dict.fromkeys(chosen)
    traces = {}
    for command in needed:
        result = folder / f"{command}.json"
        process = [sys.executable, __file__, "--traced", str(result), *map(str, typed[command])]
        environment = {**os.environ, "MTGCN_CACHE": str(folder / "cache")}
        subprocess.run(process, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        if command in chosen:
            traces[command] = json.loads(result.read_text(encoding="utf-8"))
    return traces


def _write_table(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def trace_command(result: Path, typed: list[str]) -> None:
    """Run one command in this process and write the functions it passed, by file."""
    spec = util.find_spec("mtgcn")
    assert spec is not None
    assert spec.origin is not None
    package = str(Path(spec.origin).parent)
    run = import_module("mtgcn.__main__").main
    seen: set[tuple[str, str, int]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    classes = _class_bodies(Path(package))
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        status = run(typed)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if status:
        raise SystemExit(status)
    by_file: dict[str, list[str]] = {}
    for file, name, line in sorted(seen):
        if (file, line) not in classes:
            by_file.setdefault(str(Path(file).relative_to(package)), []).append(name)
    result.write_text(json.dumps(by_file), encoding="utf-8")


def _class_bodies(package: Path) -> set[tuple[str, int]]:
    """File and first line of each class, whose body runs as a frame of its own when the file is imported."""
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.add((str(path), min([node.lineno, *(one.lineno for one in node.decorator_list)])))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--traced"]:
        trace_command(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
