"""Mutation testing with cosmic-ray: the share of random mutants of the source that the tests detect.

    python benchmarks/mutants.py --count 200 --seed 0 --json mutants.json

Draws `--count` lines of src/ that cosmic-ray can mutate, and one mutation of each. All tests that are neither slow nor
long run once to record which of them execute which line; those that fail there are left out. Every mutant then runs the
tests that execute its line, those of its package first, and if it survives, the other tests of its package too. A line
that is executed on import runs all tests. Results are stored after every mutant and the recorded tests beside them
(`mutants.tests.json`), and the same command resumes. `--root` names another checkout, such as one of an earlier
version; both use the packages of this environment.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
SECONDS = 1800  # for one run of the tests; a mutant that takes longer is killed
OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "not slow and not long")
Mutation = tuple[str, int, str, int]  # file below src/mtgcn, line, operator, occurrence


def mutations(path: Path, source: Path) -> Iterator[Mutation]:
    """All mutations of a file."""
    tree = get_ast(path.read_text(encoding="utf-8"))
    for name in operator_names():
        if get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, (line, _) in enumerate(positions):
            yield path.relative_to(source).as_posix(), line, name, occurrence


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
        if here:
            drawn.append(generator.choice(here))
    return drawn


class Recorder:
    """A pytest plugin that records which tests execute which lines, and which tests fail."""

    def __init__(self, source: Path) -> None:
        self.coverage = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
        self.failed: set[str] = set()

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
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
    file.write_text(json.dumps({"failed": sorted(recorder.failed), "executed": executed}))


def killed_by(mutation: Mutation, copy: Path, recorded: dict[str, Any]) -> str | None:
    """How the tests detect the mutant, None if it survives."""
    name, line, operator, occurrence = mutation
    path = copy / "src" / "mtgcn" / name
    code = path.read_text(encoding="utf-8")
    statement = statement_lines(code, line)
    lines = recorded["executed"].get(name, {})
    found = {test for number in statement for test in lines.get(str(number), [])}
    own = own_tests(name)
    failed = recorded["failed"]
    first = sorted(found - {"", *failed}, key=lambda test: (not Path(test).is_relative_to(own), test))
    runs = {"tests of the line": first, "tests of the package": [str(own)] if (copy / own).exists() else []}
    if "" in found:
        runs["all tests"] = ["tests", "src"]
    try:
        path.write_text(mutate_code(code, get_operator(operator)(), occurrence), encoding="utf-8")
        return next((how for how, tests in runs.items() if tests and _fails(tests, failed, copy)), None)
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
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    inner = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    body = getattr(inner, "body", None)
    return range(inner.lineno, max(line, body[0].lineno - 1 if body else inner.end_lineno or line) + 1)


def _fails(tests: list[str], failed: list[str], copy: Path) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:  # more names than a command line holds
        names.write("\n".join([*tests, *(f"--deselect={test}" for test in failed)]))
        names.flush()
        command = [sys.executable, "-m", "pytest", "-x", *OPTIONS, f"@{names.name}"]
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment(copy), capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True
    return done.returncode != 0


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
