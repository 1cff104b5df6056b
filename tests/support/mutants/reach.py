"""Which tests run which lines: a mutant is shown to those alone that could notice it."""

import ast
import hashlib
import json
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from mutants.operators import Mutant
from mutants.trials import OF_MUTANTS, Job, in_slots, run_tests

FILES_AT_ONCE = 8
OTHER_FILES, OTHERS_SECONDS = 6, 10.0  # of tests that do not mirror the module but run the line


@dataclass
class Reach:
    """Of every test that passes: how long a processor works on it, and which lines of which files it runs."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # by test and file

    def tests_for(self, mutant: Mutant, root: Path) -> tuple[list[str], list[str]]:
        """Those of its own module that run its statement, the quickest first, and others. Of what runs at import, all
        of its own, and others that run anything of the module or of one that imports it."""
        mine = own_tests(mutant.path)
        if mutant.at_import:
            files = {mutant.path, *_importers(mutant.path, root)}
            found = [test for test, run in self.lines.items() if files & run.keys() or file_of(test) in mine]
        else:
            wanted = range(mutant.lines[0], mutant.lines[1] + 1)
            found = [test for test, run in self.lines.items() if any(n in wanted for n in run.get(mutant.path, []))]
        others = [test for test in found if file_of(test) not in mine]
        return sorted((test for test in found if file_of(test) in mine), key=self.seconds.__getitem__), self._few_of(
            others
        )

    def _few_of(self, tests: list[str]) -> list[str]:
        """First those that run little else, which are likelier about it, as many as time allows; file by file, since
        tests of a file share what takes long to make."""
        tests = sorted(tests, key=lambda test: sum(map(len, self.lines[test].values())))
        files = list(dict.fromkeys(map(file_of, tests)))[:OTHER_FILES]
        tests = [test for test in tests if file_of(test) in files]
        spent = accumulate(map(self.seconds.__getitem__, tests))
        chosen = [test for test, now in zip(tests, spent, strict=True) if now <= OTHERS_SECONDS]
        return sorted(chosen, key=lambda test: files.index(file_of(test)))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def own_tests(path: str) -> tuple[str, str]:
    """The file that mirrors a module, and the module itself, which may hold doctests."""
    module = Path(path)
    mirrored = Path("tests", *module.parts[2:]).with_name(f"test_{module.name}")
    return mirrored.as_posix(), path


@cache
def _importers(path: str, root: Path) -> list[str]:
    name = ".".join(Path(path).with_suffix("").parts[1:])
    return [
        other.relative_to(root).as_posix()
        for other in (root / "src").rglob("*.py")
        if any(
            isinstance(node, ast.ImportFrom) and node.module == name for node in ast.walk(ast.parse(other.read_bytes()))
        )
    ]


class Watcher:
    """A plugin of pytest that finds out which lines each test runs, and whether it passes."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.files = {str(root / path): path for path in files}
        self.inside = {path: _lines_in_functions((root / path).read_bytes()) for path in self.files.values()}
        self.found: dict[str, dict[str, set[int]]] = {}
        self.fixtures: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))  # by file of tests
        self.seconds: dict[str, float] = {}
        self.passed: dict[str, bool] = {}
        self._now: dict[str, set[int]] = defaultdict(set)

    def reach(self) -> Reach:
        good = [test for test, passed in self.passed.items() if passed]
        lines = {}
        for test in good:
            shared = self.fixtures[file_of(test)]
            mine = {path: self.found[test].get(path, set()) | shared.get(path, set()) for path in self.inside}
            lines[test] = {path: sorted(some & self.inside[path]) for path, some in mine.items()}
            lines[test] = {path: some for path, some in lines[test].items() if some}
        return Reach({test: self.seconds[test] for test in good}, lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        with self._watching():
            yield
        # What a fixture of a module or a session did serves tests after this one, too.
        for path, lines in self._now.items():
            self.fixtures[file_of(item.nodeid)][path] |= lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        begun = time.process_time()
        try:
            with self._watching():
                return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begun
            self.found[item.nodeid] = self._now

    def pytest_runtest_logreport(self, report):
        passed = report.passed and self.passed.get(report.nodeid, True)
        self.passed[report.nodeid] = passed

    def _watching(self):
        self._now = defaultdict(set)
        return _Tracing(self._global)

    def _global(self, frame, event, argument):
        path = self.files.get(frame.f_code.co_filename)
        if path is None:
            return None
        lines = self._now[path]
        lines.add(frame.f_lineno)

        def local(frame, event, argument):
            lines.add(frame.f_lineno)
            return local

        return local


class _Tracing:
    def __init__(self, function) -> None:
        self.function = function

    def __enter__(self):
        threading.settrace(self.function)
        sys.settrace(self.function)

    def __exit__(self, *_):
        sys.settrace(None)
        threading.settrace(None)


def _lines_in_functions(source: bytes) -> set[int]:
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return {line for one in functions for line in range(one.body[0].lineno, one.end_lineno + 1)}


def measured_reach(root: Path, slots: list[Path], watched_files: list[str], kept: Path) -> Reach:
    """Of all quick tests; files of tests that are as they were are not run again while the source is as it was."""

    def names(*patterns: str) -> list[str]:
        return [path.relative_to(root).as_posix() for pattern in patterns for path in sorted(root.glob(pattern))]

    common = digest(root, names("src/**/*.py", "tests/**/conftest.py", "tests/support/*.py"))
    digests = {name: digest(root, [name]) + common for name in [*names("tests/**/test_*.py"), *watched_files]}
    del digests[OF_MUTANTS]
    known = json.loads(kept.read_text()) if kept.exists() else {}
    known = {name: one for name, one in known.items() if one["digest"] == digests.get(name)}
    missing = [name for name in digests if name not in known]
    groups = {str(start): missing[start : start + FILES_AT_ONCE] for start in range(0, len(missing), FILES_AT_ONCE)}
    jobs = deque(
        Job(number, lambda files=files: _watched(watched_files, files), limit=1800) for number, files in groups.items()
    )
    for done, ended in enumerate(in_slots(jobs, slots), start=1):
        if ended.answer is None:
            raise RuntimeError(f"tests cannot be watched ({ended.how}):\n{ended.output}")
        if ended.answer["failing"]:
            print("these do not pass without any mutant and are left out:", *ended.answer["failing"])
        for name in groups[ended.name]:
            mine = [test for test in ended.answer["seconds"] if file_of(test) == name]
            known[name] = {part: {test: ended.answer[part][test] for test in mine} for part in ("seconds", "lines")}
            known[name]["digest"] = digests[name]
        kept.write_text(json.dumps(known))
        print(f"watched tests of {min(done * FILES_AT_ONCE, len(missing))} of {len(missing)} files", flush=True)
    found = Reach()
    for one in known.values():
        found.seconds |= one["seconds"]
        found.lines |= one["lines"]
    return found


def _watched(watched_files: list[str], files: list[str]) -> dict[str, Any]:
    watcher = Watcher(Path.cwd(), watched_files)
    run_tests(files, watcher)
    return asdict(watcher.reach()) | {"failing": [test for test, passed in watcher.passed.items() if not passed]}


def digest(root: Path, names: Iterable[str]) -> str:
    """Of what files say."""
    found = hashlib.sha256()
    for name in names:
        found.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return found.hexdigest()
