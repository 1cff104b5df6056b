"""Progress on standard error: a bar where a person is watching, now and then a line where it goes to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from mtgcn.training.progress import current_stage, progress_callbacks

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def fitting_progress(title: str, *, every_stage: bool = False) -> Iterator[None]:
    """Show the epochs of whatever is fitted inside, and in which stage it is; every stage, and every chunk of runs,
    starts the bar anew, while the clock runs on. Where nobody is watching there is a line every half minute and, with
    `every_stage`, one whenever a stage begins and one at the end."""
    console = Console(stderr=True)
    started = last_line = monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), _Epochs(), _Clock(started))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task(title, total=None)

        def what() -> str:
            return ", ".join(filter(None, (title, current_stage())))

        def line(text: str) -> None:
            nonlocal last_line
            last_line = monotonic()
            print(f"{text}, {last_line - started:.0f} s", file=sys.stderr, flush=True)

        def show_epochs(epochs_done: int, epochs_total: int) -> None:
            bar.update(shown, description=what(), completed=epochs_done, total=epochs_total)
            if not console.is_terminal and monotonic() - last_line > SECONDS_BETWEEN_LINES:
                line(f"{what()}: epoch {epochs_done} of {epochs_total}")

        def show_stage(stage: str) -> None:
            nonlocal shown
            bar.remove_task(shown)
            shown = bar.add_task(what(), total=None)  # what is counted next, if anything, is not known yet
            late = monotonic() - last_line > SECONDS_BETWEEN_LINES
            if not console.is_terminal and stage and (every_stage or late):
                line(what())

        with progress_callbacks(show_epochs, show_stage):
            yield
        if every_stage:
            line(f"{title}: done")


class _Epochs(ProgressColumn):
    """How many epochs are done, while they are counted."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{int(task.completed)}/{int(task.total)} epochs")


class _Clock(ProgressColumn):
    """The time since the fit began. rich's own stops whenever all epochs of a stage are done."""

    def __init__(self, started: float) -> None:
        super().__init__()
        self._started = started

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(monotonic() - self._started))))


@contextmanager
def sweep_progress(total: int, done: int, seconds_left: float | None) -> Iterator[Callable[[str, float | None], None]]:
    """Show how many of a sweep's units are done and how long the others will take.

    What is yielded is called after each unit, with its title and the seconds that those after it are guessed to take.
    """
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("units"), TimeElapsedColumn(), _Countdown())
    with Progress(
        *columns, TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        shown = bar.add_task("", total=total, completed=done, expected_end=_from_now(seconds_left))

        def advance(title: str, seconds_left: float | None) -> None:
            bar.update(shown, advance=1, description=f"last: {title}", expected_end=_from_now(seconds_left))

        yield advance


def _from_now(seconds: float | None) -> float | None:
    return None if seconds is None else monotonic() + seconds


class _Countdown(ProgressColumn):
    """The time left, which runs down between two units too."""

    def render(self, task: Task) -> Text:
        end = task.fields["expected_end"]
        if end is None:
            return Text("time left not known yet")
        return Text(f"about {timedelta(seconds=max(0, round(end - monotonic())))} left")
