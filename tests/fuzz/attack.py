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
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import torch

from fuzz.trial import ANSWERED, REFUSED, Trial, outcome_of

SURFACES = ("readers", "arrays", "stored", "options", "models", "caches", "estimators")
MEMORY = 3 << 30  # bytes that a case may take beyond what the process has
CPU_SECONDS = 60  # of a case, on however busy a machine; the slowest that are meant to end take a few
SILENCE = 600.0  # seconds without a word after which a process hangs in what no timer reaches


@dataclass
class Outcome:
    """What became of the cases of a surface."""

    surface: str
    tried: int = 0
    kept: int = 0  # of them, those that broke once
    answered: int = 0  # of them, those that the program did not refuse
    breaks: list[tuple[str, str]] = field(default_factory=list)  # how to try it again, and what happened


@dataclass(frozen=True)
class Task:
    """Which cases to try: those that are kept and then `cases` drawn ones, or as many as `seconds` are enough for."""

    surface: str
    seed: int
    cases: int | None = None
    seconds: float | None = None
    only: int | None = None  # this one alone; below 0 one of those that are kept


def attacked(task: Task) -> Outcome:
    """Try the cases. A process that dies is followed by another, which goes on behind the case that was fatal."""
    outcome = Outcome(task.surface)
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    first: int | None = None
    ended = False
    while not ended:
        left = None if task.seconds is None else task.seconds - (time.monotonic() - began)
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(task, first, left, theirs))
        process.start()
        theirs.close()
        first, ended = _followed(process, ours, outcome)
    return outcome


def _followed(process: Any, connection: Connection, outcome: Outcome) -> tuple[int, bool]:
    """Listen to a process until it ends; where to go on, and whether all is done."""
    number, title = 0, f"{outcome.surface}, before the first case"
    try:
        while True:
            if not connection.poll(SILENCE):
                process.kill()
                outcome.breaks.append((title, f"no end after {SILENCE:.0f} s"))
                return number + 1, False
            kind, *content = connection.recv()
            if kind == "begins":
                number, title = content
                outcome.tried += 1
                outcome.kept += number < 0
            elif kind == "broken":
                outcome.breaks.append((title, content[0]))
            elif kind == "held":
                outcome.answered += content[0]
            else:
                return number, True
    except EOFError:
        process.join()
        outcome.breaks.append((title, f"the process ended with {process.exitcode}"))
        return number + 1, "before the first case" in title
    finally:
        process.join()


def _module(surface: str) -> ModuleType:
    return import_module(f"fuzz.{surface}")


def _work(task: Task, first: int | None, seconds: float | None, connection: Connection) -> None:
    """What the process does: the kept cases have the numbers below 0, the drawn ones follow."""
    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp(prefix="mtgcn-fuzz-"))
    tempfile.tempdir = str(home)  # so that whatever a surface needs for all its cases goes with it
    os.environ["MTGCN_CACHE"] = str(home / "cache")
    _quiet()
    try:
        module = _module(task.surface)
        kept = list(module.KEPT)
        _limit_memory()
        signal.signal(signal.SIGPROF, _too_long)
        began = time.monotonic()
        for number in _numbers(task, -len(kept) if first is None else first):
            if number >= 0 and seconds is not None and time.monotonic() - began > seconds:
                break
            again = f"--surface {task.surface} --seed {task.seed} --case {number}"
            trial = kept[number] if number < 0 else module.drawn(Random(again))
            connection.send(("begins", number, f"{again}: {trial.told[:300]}"))
            found = _tried(trial, home / "case")
            connection.send(("held", found == ANSWERED) if found in (ANSWERED, REFUSED) else ("broken", found))
        connection.send(("ends",))
    except BaseException:
        connection.send(("broken", f"outside of any case: {traceback.format_exc()}"))
        raise
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _numbers(task: Task, first: int) -> Iterator[int]:
    if task.only is not None:
        yield from [task.only] * (first <= task.only)
    elif task.cases is not None:
        yield from range(first, task.cases)
    else:
        yield from count(first)


def _tried(trial: Trial, folder: Path) -> str:
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        return outcome_of(trial, folder)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


class TooLong(BaseException):
    """A case that took more than its time; no `except Exception` should take it for something else."""


def _too_long(*_: object) -> None:
    raise TooLong(f"more than {CPU_SECONDS} s of one core")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _quiet() -> None:
    """What C libraries print about broken files is not the reader's to see."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
