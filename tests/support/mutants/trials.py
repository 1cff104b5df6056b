"""Trials: tests run in a copy of the project, in a process of their own that may hang, crash or fill the memory."""

import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 10  # times the limit
MEMORY = 12 * 2**30  # a mutant may ask for any amount
LIBRARIES = (
    *("torch", "pandas", "pyarrow", "scipy.optimize", "scipy.sparse.linalg", "sklearn.metrics", "typer.testing"),
    *("beartype.door", "matplotlib.figure", "networkx"),
)
COPIED = ("src", "tests", "docs", "benchmarks", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
          "Makefile", "pyproject.toml", "requirements.lock", "conftest.py")  # fmt: skip
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-m", "not slow and not long")
# It reads the source, which is what a mutant changes, and says nothing of what the program does.
OF_MUTANTS = "tests/test_mutants.py"


def load_libraries() -> None:
    """Once, so that every trial begins with them; nothing of the package itself, which is what changes, and no plugin
    of pytest, which loads those by itself."""
    for name in LIBRARIES:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    assert not any(name.partition(".")[0] == "mtgcn" for name in sys.modules)


def copy_project(root: Path, folder: Path) -> None:
    folder.mkdir()
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            shutil.copy2(root / name, folder / name)


@dataclass(frozen=True)
class Job:
    """What is done in a copy of the project."""

    name: str
    work: Callable[[], Any]  # its answer comes back as JSON
    limit: float  # of seconds that a processor works, since others may be using it; who sleeps is waited for longer
    changed: Mapping[str, bytes] = field(default_factory=dict)  # what files say instead, while it is done


@dataclass(frozen=True)
class Ended:
    name: str
    how: str  # "done", "crashed" or "timed out"
    answer: Any  # None unless it is done
    output: str
    seconds: float


def in_slots(jobs: deque[Job], slots: list[Path]) -> Iterator[Ended]:
    """Do all jobs, one at a time in each copy of the project, in the order in which they end; whoever is told of that
    may add others."""
    running: dict[Path, _Trial] = {}
    while True:
        for slot in slots:
            if slot not in running and jobs:
                running[slot] = _Trial(jobs.popleft(), slot)
        if not running:
            return
        for slot, trial in list(running.items()):
            if ended := trial.poll():
                del running[slot]
                yield ended
        time.sleep(0.02)


class _Trial:
    """A process that does a job."""

    def __init__(self, job: Job, slot: Path) -> None:
        self.job, self.slot = job, slot
        shutil.rmtree(_scratch(slot), ignore_errors=True)
        _scratch(slot).mkdir()
        self.original = {path: (slot / path).read_bytes() for path in job.changed}
        for path, content in job.changed.items():
            (slot / path).write_bytes(content)
        self.begun = time.monotonic()
        self.process = os.fork()
        if self.process == 0:
            _become(job, slot)

    def poll(self) -> Ended | None:
        ended, status = os.waitpid(self.process, os.WNOHANG)
        seconds = time.monotonic() - self.begun
        if not ended and seconds < PATIENCE * self.job.limit:
            return None
        with suppress(ProcessLookupError):  # also what it may have left running
            os.killpg(self.process, signal.SIGKILL)
        if not ended:
            os.waitpid(self.process, 0)
        for path, content in self.original.items():
            (self.slot / path).write_bytes(content)
        how = "done" if ended and status == 0 else "crashed"
        if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
            how = "timed out"
        answer = json.loads((_scratch(self.slot) / "answer.json").read_text()) if how == "done" else None
        output = (_scratch(self.slot) / "output").read_text(errors="replace")
        return Ended(self.job.name, how, answer, output, seconds)


def _scratch(folder: Path) -> Path:
    return folder / "scratch"


def _become(job: Job, folder: Path) -> None:
    """The forked process, which never returns."""
    code = 1
    try:
        os.setsid()
        scratch = _scratch(folder)
        output = os.open(scratch / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(job.limit), ceil(job.limit) + 10))
        os.chdir(folder)
        for name in ("temporary", "cache"):
            (scratch / name).mkdir()
        os.environ |= {
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",  # two mutants of a file within a second would share one
            "TMPDIR": str(scratch / "temporary"),
            "MTGCN_CACHE": str(scratch / "cache"),
        }
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(folder / "src"))
        (scratch / "answer.json").write_text(json.dumps(job.work()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Chosen:
    """A plugin of pytest that runs some tests in an order, and remembers the first that failed."""

    def __init__(self, tests: list[str], known: set[str]) -> None:
        self.place = {test: number for number, test in enumerate(tests)}
        self.functions = {test.partition("[")[0]: number for number, test in reversed(list(enumerate(tests)))}
        self.known = known
        self.failed: str | None = None
        self.ran = 0

    def pytest_collection_modifyitems(self, items):
        items[:] = sorted(
            (item for item in items if self._where(item.nodeid) is not None), key=lambda item: self._where(item.nodeid)
        )

    def _where(self, test: str) -> int | None:
        if test in self.known:
            return self.place.get(test)
        return self.functions.get(test.partition("[")[0])  # a case that only the mutant has

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_runtest_logreport(self, report):
        self.ran += report.when == "call"
        if report.failed:
            self.failed = self.failed or report.nodeid


def first_failure(tests: list[str], known: set[str]) -> dict[str, Any]:
    """Run tests until one fails."""
    if not tests:
        return {"failed": None, "code": 0, "ran": 0}
    chosen = Chosen(tests, known)
    code = run_tests(dict.fromkeys(test.partition("::")[0] for test in tests), chosen, "-x")
    return {"failed": chosen.failed, "code": code, "ran": chosen.ran}


def run_tests(files: Iterable[str], plugin: object, *options: str) -> int:
    """The exit code of pytest."""
    return int(pytest.main([*OPTIONS, *options, f"--ignore={OF_MUTANTS}", *files], plugins=[plugin]))
