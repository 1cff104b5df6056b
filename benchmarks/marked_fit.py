"""The process that `first_fit.py` measures: a command of mtgcn that notes when it goes from one stage to the next.

    python benchmarks/marked_fit.py MARKS.json fit --nodes …

It imports nothing that the command would not import, so that imports take as long as they do there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from time import process_time, time
from typing import Any

Marks = list[dict[str, float]]


def main() -> None:
    _, marks_file, *typed = sys.argv
    marks: Marks = []
    cli = import_module("mtgcn.cli.app")
    import_module("mtgcn.cli.process").collect_rarely()  # with which a command begins, before it imports
    fitting = import_module("mtgcn.workflows.fit")
    for name, ends in (("read_graph", True), ("measured_accuracy", False), ("save_model", False)):
        setattr(fitting, name, marked(getattr(fitting, name), marks, ends=ends))
    sys.argv = ["mtgcn", *typed]
    try:
        cli.main()
    finally:
        with open(marks_file, "w", encoding="utf-8") as file:
            json.dump(marks, file)


def marked(work: Callable[..., Any], marks: Marks, *, ends: bool) -> Callable[..., Any]:
    """`work`, which notes when it begins and, where another stage follows on it, when it ends."""

    def note() -> None:
        marks.append({"clock": time(), "processor": process_time()})

    def with_marks(*args: Any, **settings: Any) -> Any:
        note()
        result = work(*args, **settings)
        if ends:
            note()
        return result

    return with_marks


if __name__ == "__main__":
    main()
