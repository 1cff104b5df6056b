"""A progress bar on standard error, and only where a person is watching."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mtgcn.training import reporting_progress


@contextmanager
def fitting_progress(title: str) -> Iterator[None]:
    """Show the epochs of whatever is fitted inside; runs fitted in several chunks start the bar anew."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        shown = bar.add_task(title, total=None)

        def show(epochs_done: int, epochs_total: int) -> None:
            bar.update(shown, completed=epochs_done, total=epochs_total)

        with reporting_progress(show):
            yield
