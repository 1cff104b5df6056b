"""Mutation testing with cosmic-ray: the share of random mutants of the source that the tests detect.

    python benchmarks/mutants.py --count 200 --seed 0 --json mutants.json

Draws `--count` lines of src/ that cosmic-ray can mutate, and one mutation of each; annotations, which are not executed,
are left out. All tests that are neither slow nor long run once to record which of them execute which line; those that
fail there are left out. Every mutant then runs the tests that execute its line, the fastest first. A line that is
executed on import runs the tests that execute any line of its file, and a line that no test executes those of its
package. Results are stored after every mutant and the recorded tests beside them (`mutants.tests.json`), and the same
command resumes. `--root` names another checkout, such as one of an earlier version; both use the packages of this
environment.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("linalg/cuda_kernels.py",)  # runs on GPUs only
SECONDS, TIMES = 60, 5  # a mutant is killed if its tests take this much longer, and this many times as long
UNCHANGED = 50  # one in so many tests must pass again without a mutation
OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "not slow and not long")
ON_IMPORT = ""  # coverage's context of lines that run before any test
PROCESSES = multiprocessing.get_context("forkserver")  # with the packages that take seconds to import
PROCESSES.set_forkserver_preload(["matplotlib", "pyarrow", "sklearn", "torch"])
Mutation = tuple[str, int, str, int]  # file below src/mtgcn, line, operator, occurrence


def mutations(path: Path, source: Path) -> Iterator[Mutation]:
    """All mutations of a file outside of annotations."""
    code = path.read_text(encoding="utf-8")
    tree, annotated = get_ast(code), annotations(code)
    for name in operator_names():
        if get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(positions):
            if not any(first <= start < last for first, last in annotated):
                yield path.relative_to(source).as_posix(), start[0], name, occurrence


def annotations(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Start and end of the annotations of parameters, variables and return values."""
    found = []
    for node in ast.walk(ast.parse(code)):
        one = getattr(node, "returns", None) or getattr(node, "annotation", None)
        if one is not None:
            found.append(((one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)))
    return found


def sample(root: Path, count: int, seed: int) -> list[Mutation]:
    """Random lines, each with one of its mutations; lines that cannot be mutated are drawn again."""
    source, generator = root / "src" / "mtgcn", random.Random(seed)
    paths = [path for path in sorted(source.rglob("*.py")) if path.relative_to(source).as_posix() not in LEFT_OUT]
    places = [(path, line) for path in paths for line in range(1, path.read_text(encoding="utf-8").count("\n") + 1)]
    known: dict[Path, list[Mutation]] = {}
    drawn: list[Mutation] = []
    for path, line in generator.sample(places, len(places)):
        if len(drawn) == count:
            break
        if path not in known:
            known[path] = list(mutations(path, source))
        here = [mutation for mutation in known[path] if mutation[1] == line]
        with suppress(AttributeError):  # cosmic-ray cannot replace exceptions with dots in their names
            if here:
                _, _, operator, occurrence = mutation = generator.choice(here)
                mutate_code(path.read_text(encoding="utf-8"), get_operator(operator)(), occurrence)
                drawn.append(mutation)
    return drawn


class Recorder:
    """A pytest plugin that records which tests execute which lines, how long they take, and which fail."""

    def __init__(self, source: Path) -> None:
        self.coverage = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
        self.failed: set[str] = set()
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


def record(root: Path, file: Path) -> None:
    """Runs all tests of a checkout and writes to `file` which fail and which execute each line of each source file."""
    os.chdir(root)
    source = root / "src" / "mtgcn"
    recorder = Recorder(source)
    recorder.coverage.start()
    status = pytest.main([*OPTIONS, "tests", "src"], plugins=[recorder])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"pytest ended with {status!r}; the tests must be collected without errors")
    recorder.coverage.stop()
    data = recorder.coverage.get_data()
    executed = {
        Path(name).relative_to(source).as_posix(): data.contexts_by_lineno(name) for name in data.measured_files()
    }
    file.write_text(json.dumps({"failed": sorted(recorder.failed), "seconds": recorder.seconds, "executed": executed}))


def killed_by(mutation: Mutation, copy: Path, recorded: dict[str, Any]) -> str | None:
    """How the tests detect the mutant, None if it survives."""
    name, line, operator, occurrence = mutation
    path = copy / "src" / "mtgcn" / name
    code = path.read_text(encoding="utf-8")
    lines = recorded["executed"].get(name, {})
    tests = {test for number in statement_lines(code, line) for test in lines.get(str(number), [])}
    how = "tests of the line"
    if ON_IMPORT in tests:
        tests, how = {test for of_line in lines.values() for test in of_line}, "tests of the file"
    ordered = sorted(tests - {ON_IMPORT, *recorded["failed"]}, key=lambda test: (recorded["seconds"][test], test))
    if not ordered:
        ordered, how = [str(own_tests(name))], "tests of the package"
        if not (copy / ordered[0]).exists():
            return None
    try:
        path.write_text(mutate_code(code, get_operator(operator)(), occurrence), encoding="utf-8")
        return how if _fails(ordered, recorded, copy) else None
    finally:
        path.write_text(code, encoding="utf-8")


def own_tests(name: str) -> Path:
    """The tests of the package or module of a file."""
    package = Path(name).parts[0]
    return Path("tests") / (f"test_{package}" if package.endswith(".py") else package)


def statement_lines(code: str, line: int) -> range:
    """The lines of the innermost statement around a line, since coverage records where a statement starts."""
    around = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.stmt) and first_line(node) <= line <= (node.end_lineno or node.lineno)
    ]
    inner = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    body = getattr(inner, "body", None)
    return range(first_line(inner), max(line, body[0].lineno - 1 if body else inner.end_lineno or line) + 1)


def first_line(statement: ast.stmt) -> int:
    """Where a statement starts, with its decorators."""
    return min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])


def _fails(tests: list[str], recorded: dict[str, Any], copy: Path) -> bool:
    usual = recorded["seconds"]
    process = PROCESSES.Process(target=_run, args=(tests, recorded["failed"], copy))
    process.start()
    process.join(SECONDS + TIMES * sum(seconds for test, seconds in usual.items() if test.startswith(tuple(tests))))
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode != 0


def _run(tests: list[str], failed: list[str], copy: Path) -> None:
    os.setsid()
    os.chdir(copy)
    os.environ.update(environment(copy))
    sys.path.insert(0, str(copy / "src"))
    sys.dont_write_bytecode = True
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.exit(pytest.main(["-x", *OPTIONS, *tests, *(f"--deselect={test}" for test in failed)]))


def environment(root: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **own}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--json", type=Path, default=Path("build/mutants.json"))
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.root, arguments.record)
        return
    drawn = sample(arguments.root.resolve(), arguments.count, arguments.seed)
    results: dict[str, Any] = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    copies: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory(prefix="mtgcn-mutants-") as home:
        for number in range(arguments.workers):
            copy = Path(home) / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv", "site", "build", "__pycache__", ".*_cache")
            shutil.copytree(arguments.root, copy, ignore=ignored)
            copies.put(copy)

        waiting = [mutation for mutation in drawn if " ".join(map(str, mutation)) not in results]
        recorded: dict[str, Any] = {}
        if waiting:
            copy, file = Path(home) / "0", arguments.json.resolve().with_suffix(".tests.json")
            if not file.exists():
                command = [sys.executable, __file__, "--record", str(file), "--root", str(copy)]
                subprocess.run(command, env=environment(copy), stdout=subprocess.DEVNULL, check=True)
            recorded = json.loads(file.read_text())
            print(f"tests that fail without a mutation and are left out: {recorded['failed']}", flush=True)
            passing = sorted(recorded["seconds"].keys() - set(recorded["failed"]), key=recorded["seconds"].get)
            if _fails(passing[::UNCHANGED], recorded, Path(home) / "0"):
                raise SystemExit("tests that passed fail without a mutation; no mutant can be judged")

        def tried(mutation: Mutation) -> tuple[Mutation, str | None]:
            copy = copies.get()
            try:
                return mutation, killed_by(mutation, copy, recorded)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(arguments.workers) as pool:
            for mutation, tests in pool.map(tried, waiting):
                results[" ".join(map(str, mutation))] = tests
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
                print("killed  " if tests else "SURVIVED", *mutation, flush=True)
    killed = sum(results[" ".join(map(str, mutation))] is not None for mutation in drawn)
    print(f"{killed} of {len(drawn)} mutants killed ({100 * killed / max(1, len(drawn)):.1f} %)")


if __name__ == "__main__":
    main()
