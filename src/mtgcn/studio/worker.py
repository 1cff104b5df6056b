"""The process that teaches: one JSON object a line in, a recipe; many out, how far it is and what came of it.

It ends when its input does, in the midst of whatever it is doing, so that it never outlives the page. What it prints
goes to standard error; standard output is for these lines alone.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from dataclasses import asdict
from typing import Any, TextIO

from mtgcn.errors import InputError


def main() -> None:
    """Teach whenever asked to, until the input ends."""
    said = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    from mtgcn.memory import keep_freed_blocks

    keep_freed_blocks()
    projects: dict[str, Any] = {}  # which keep the graph that was read, and what was made of it
    while True:
        _carry_out(orders.get(), projects, said)


def _listen(orders: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def _carry_out(order: dict[str, Any], projects: dict[str, Any], said: TextIO) -> None:
    from mtgcn.studio.lesson import Recipe, teach
    from mtgcn.studio.project import Project
    from mtgcn.training.progress import current_stage, progress_callbacks

    def tell(**what: Any) -> None:
        print(json.dumps(what), file=said, flush=True)

    try:
        with progress_callbacks(
            lambda done, total: tell(epochs=done, total=total),
            lambda title: tell(stage=title, epochs=0, total=0),
            lambda epoch, values: tell(curve=current_stage(), epoch=epoch, values=dict(values)),
        ):
            project = projects.setdefault(order["folder"], Project.open(order["folder"]))
            result = teach(project, Recipe(**order["recipe"]))
        tell(done=asdict(result))
    except InputError as error:
        tell(failed=" ".join(str(error).split()))
    except Exception as error:
        traceback.print_exc()
        tell(failed=f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
