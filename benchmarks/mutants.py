"""Mutation testing with cosmic-ray: the share of random mutants of the source that the tests detect.

    python benchmarks/mutants.py --count 200 --seed 0 --json mutants.json

Draws `--count` lines of src/ that cosmic-ray can mutate, and one mutation of each. Every mutant runs the tests of its
package first and, if it survives, all tests that are neither slow nor long. Results are stored after every mutant, and
the same command resumes. `--root` names another checkout, such as one of an earlier version.
"""

from __future__ import annotations

import argparse
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

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("linalg/cuda_kernels.py",)  # runs on GPUs only
SECONDS = 1800  # for one run of the tests; a mutant that takes longer is killed
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


def killed_by(mutation: Mutation, copy: Path) -> str | None:
    """The tests that detect the mutant, None if it survives."""
    name, _, operator, occurrence = mutation
    path = copy / "src" / "mtgcn" / name
    code = path.read_text(encoding="utf-8")
    mutated = mutate_code(code, get_operator(operator)(), occurrence)
    package = copy / "tests" / Path(name).parts[0].removesuffix(".py")
    own = package if package.is_dir() else package.with_name(f"test_{package.name}.py")
    try:
        path.write_text(mutated, encoding="utf-8")
        for tests in ([own] if own.exists() else []), [copy / "tests", copy / "src"]:
            if tests and _fails(tests, copy):
                return " ".join(str(test.relative_to(copy)) for test in tests)
        return None
    finally:
        path.write_text(code, encoding="utf-8")


def _fails(tests: list[Path], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not long"]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *map(str, tests)], cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--json", type=Path, default=Path("build/mutants.json"))
    arguments = parser.parse_args()
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

        def tried(mutation: Mutation) -> tuple[Mutation, str | None]:
            copy = copies.get()
            try:
                return mutation, killed_by(mutation, copy)
            finally:
                copies.put(copy)

        waiting = [mutation for mutation in drawn if " ".join(map(str, mutation)) not in results]
        with ThreadPoolExecutor(arguments.workers) as pool:
            for mutation, tests in pool.map(tried, waiting):
                results[" ".join(map(str, mutation))] = tests
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
                print("killed  " if tests else "SURVIVED", *mutation, flush=True)
    killed = sum(results[" ".join(map(str, mutation))] is not None for mutation in drawn)
    print(f"{killed} of {len(drawn)} mutants killed ({100 * killed / max(1, len(drawn)):.1f} %)")


if __name__ == "__main__":
    main()
