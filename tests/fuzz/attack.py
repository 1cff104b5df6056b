"""Cases one after the other, in a process of their own: one that ends it, or never ends itself, is found out too."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import torch

from fuzz.trial import ANSWERED, REFUSED, Trial, outcome_of

SURFACES = ("readers", "arrays", "stored", "options", "models", "caches", "estimators")
MEMORY = 3 << 30  # bytes that a case may take beyond what the process has
SILENCE = 600.0  # seconds without a word after which a process hangs in what no timer reaches


@dataclass(frozen=True)
class Task:
    """Which cases of a surface to try: those that are kept, then `cases` drawn ones or as many as `seconds` allow."""

    surface: str
    seed: int
    cases: int | None = None
    seconds: float | None = None
    only: int | None = None  # this one alone; below 0 one of those that are kept
    cpu_seconds: float = 60  # of a case, on however busy a machine; the slowest that are meant to end take a few


@dataclass
class Outcome:
    """What became of the cases of a surface."""

    surface: str
    tried: int = 0
    kept: int = 0  # of them, those that broke once
    answered: int = 0  # of them, those that the program did not refuse
    breaks: list[tuple[str, str]] = field(default_factory=list)  # how to try it again, and what happened


@dataclass(frozen=True)
class _Place:
    """Where to begin: at a case of one of the tasks; None: at its first."""

    task: int = 0
    case: int | None = None


def attacked(tasks: Sequence[Task]) -> list[Outcome]:
    """Try the cases. A process that dies is followed by another, which goes on behind the case that was fatal."""
    outcomes = [Outcome(task.surface) for task in tasks]
    context = multiprocessing.get_context("spawn")
    place: _Place | None = _Place()
    while place is not None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(tasks, place, theirs))
        process.start()
        theirs.close()
        place = _followed(process, ours, outcomes)
    return outcomes


def _followed(process: Any, connection: Connection, outcomes: list[Outcome]) -> _Place | None:
    """Listen to a process until it ends; where to go on if it was not done."""
    task, number, title = 0, None, "before the first case"
    try:
        while True:
            if not connection.poll(SILENCE):
                process.kill()
                outcomes[task].breaks.append((title, f"no end after {SILENCE:.0f} s"))
                break
            kind, *content = connection.recv()
            if kind == "begins":
                task, number, title = content
                outcomes[task].tried += 1
                outcomes[task].kept += number < 0
            elif kind == "broken":
                outcomes[task].breaks.append((title, content[0]))
            elif kind == "held":
                outcomes[task].answered += content[0]
            else:
                return None
    except EOFError:
        process.join()
        outcomes[task].breaks.append((title, f"the process ended with {process.exitcode}"))
    finally:
        process.join()
    return None if number is None else _Place(task, number + 1)


def _work(tasks: Sequence[Task], place: _Place, connection: Connection) -> None:
    """What the process does: the kept cases have the numbers below 0, the drawn ones follow."""
    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp(prefix="mtgcn-fuzz-"))
    tempfile.tempdir = str(home)  # so that whatever a surface needs for all its cases goes with it
    os.environ["MTGCN_CACHE"] = str(home / "cache")
    signal.signal(signal.SIGPROF, _too_long)
    _quiet()
    try:
        for number, task in enumerate(tasks[place.task :], place.task):
            first = place.case if number == place.task else None
            for case, title, trial in _cases(task, first):
                connection.send(("begins", number, case, title))
                found = _tried(trial, home / "case", task.cpu_seconds)
                connection.send(("held", found == ANSWERED) if found in (ANSWERED, REFUSED) else ("broken", found))
        connection.send(("ends",))
    except BaseException:
        connection.send(("broken", f"outside of any case: {traceback.format_exc()}"))
        raise
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _cases(task: Task, first: int | None) -> Iterator[tuple[int, str, Trial]]:
    module = import_module(f"fuzz.{task.surface}")
    kept = list(module.KEPT)
    began = time.monotonic()
    for case in _numbers(task, -len(kept) if first is None else first):
        if task.seconds is not None and case >= 0 and time.monotonic() - began > task.seconds:
            return
        again = f"--surface {task.surface} --seed {task.seed} --case {case}"
        trial = kept[case] if case < 0 else module.drawn(Random(again))
        yield case, f"{again}: {trial.told[:300]}", trial


def _numbers(task: Task, first: int) -> Iterator[int]:
    if task.only is not None:
        yield from [task.only] * (first <= task.only)
    elif task.cases is not None:
        yield from range(first, task.cases)
    else:
        yield from count(first)


def _tried(trial: Trial, folder: Path, cpu_seconds: float) -> str:
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    _limit_memory(MEMORY)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        return outcome_of(trial, folder)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limit_memory(None)
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


class TooLong(BaseException):
    """A case that took more than its time; no `except Exception` should take it for something else."""


def _too_long(*_: object) -> None:
    raise TooLong


def _limit_memory(more: int | None) -> None:
    """So much beyond what the process has now; None: no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (hard if more is None else pages * resource.getpagesize() + more, hard))


def _quiet() -> None:
    """What C libraries print about broken files is not the reader's to see."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
