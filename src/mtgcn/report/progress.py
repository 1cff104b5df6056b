"""Progress on standard error: a bar with the remaining time in a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from mtgcn.errors import printable
from mtgcn.training.progress import current_stage, current_unit, progress_callbacks

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def fitting_progress(title: str, *, every_stage: bool = False) -> Iterator[None]:
    """Show stage, epochs and remaining time of a fit or of its page. Every stage and every chunk of runs restarts the
    bar, not the clock. Without a terminal, a line is printed every half minute or, with
    `every_stage`, for every stage."""
    started = last_printed = monotonic()

    def clock(_task: Task) -> str:
        return _duration(monotonic() - started)  # the clock of rich stops at the end of every stage

    def print_line(text: str) -> None:
        nonlocal last_printed
        last_printed = monotonic()
        print(f"{printable(text)}, {last_printed - started:.0f} s", file=sys.stderr, flush=True)

    def is_due() -> bool:
        return bar.disable and monotonic() - last_printed > SECONDS_BETWEEN_LINES

    columns = (TextColumn("{task.description}"), BarColumn(), _Text(_epochs), _Text(clock), _Text(_remaining))
    with _bar(*columns) as bar:
        shown = bar.add_task(title, total=None)

        def what() -> str:
            return ", ".join(filter(None, (title, current_stage())))

        def show_epochs(epochs_done: int, epochs_total: int) -> None:
            bar.update(shown, description=what(), completed=epochs_done, total=epochs_total, unit=current_unit())
            if is_due():
                print_line(f"{what()}: {current_unit()} {epochs_done} of {epochs_total}")

        def show_stage(stage: str) -> None:
            nonlocal shown
            bar.remove_task(shown)
            shown = bar.add_task(what(), total=None)
            if stage and (is_due() or (bar.disable and every_stage)):
                print_line(what())

        with progress_callbacks(show_epochs, show_stage):
            yield
        if every_stage:
            print_line(f"{title}: done")


@contextmanager
def sweep_progress(total: int, done: int) -> Iterator[Callable[[str], None]]:
    """Show the finished units of a sweep and the remaining time. Yields a function to call with the title of each
    finished unit."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("units"), TimeElapsedColumn(), _Text(_remaining))
    with _bar(*columns, TextColumn("{task.description}")) as bar:
        shown = bar.add_task("", total=total, completed=done)
        yield lambda title: bar.update(shown, advance=1, description=f"last: {title}")


def _bar(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class _Text(ProgressColumn):
    """Text that is computed whenever the bar is drawn."""

    def __init__(self, text: Callable[[Task], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text(task))


def _epochs(task: Task) -> str:
    return "" if task.total is None else f"{int(task.completed)}/{int(task.total)} {task.fields['unit']}s"


def _remaining(task: Task) -> str:
    return f"{_duration(task.time_remaining)} left" if task.time_remaining else ""


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
