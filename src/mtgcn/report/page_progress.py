"""Progress of a page or figure on standard error: a bar where a person is watching, else a line when it takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mtgcn.report.fit_view import Progress as ProgressCallback

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def page_progress(title: str) -> Iterator[ProgressCallback]:
    """What is yielded is called with what is done, and how many steps of how many; 0 if nobody knows."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task(title, total=None)
        started = last_line = monotonic()

        def show(what: str, done: int, total: int) -> None:
            nonlocal last_line
            # rich stops the clock of what is complete, so the last step is never said to be done.
            bar.update(shown, description=f"{title}: {what}", completed=done, total=total + 1 if total else None)
            if not console.is_terminal and monotonic() - last_line > SECONDS_BETWEEN_LINES:
                last_line = monotonic()
                share = f", {100 * done / total:.0f} %" if total else ""
                print(f"{title}: {what}{share}, {last_line - started:.0f} s", file=sys.stderr, flush=True)

        yield show
