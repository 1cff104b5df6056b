"""Put faults into a copy of the source, one at a time, and say which ones no test notices.

What was tried is kept, so that the same command goes on where it was stopped: a mutant that was killed is not tried
again, one that survived is once the tests that it is shown have changed.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutants.named import NAMED, named_mutants
from mutants.operators import Mutant, mutants_of
from mutants.reach import Reach, digest, file_of, measured_reach
from mutants.trials import Ended, Job, copy_project, first_failure, in_slots, load_libraries

ROOT = Path(__file__).parents[3]
PLACES = ("linalg/*.py", "training/*.py", "benchmark/*.py", "trust/*.py", "methods/mt_*.py")
LEFT_OUT = {"cuda_kernels.py"}  # runs on a GPU alone
SLOWEST, GRACE = 3.0, 20.0  # times what the tests take when nothing is wrong, and seconds: whoever takes longer hangs


def all_mutants() -> list[Mutant]:
    paths = sorted(path for place in PLACES for path in (ROOT / "src/mtgcn").glob(place) if path.name not in LEFT_OUT)
    return [one for path in paths for one in mutants_of(path.relative_to(ROOT).as_posix(), path.read_bytes())]


def main() -> None:
    options = _options()
    begun = time.monotonic()
    everything, named = all_mutants(), named_mutants(ROOT)
    chosen = [one for one in everything if options.only in str(one)]
    sample = random.Random(options.seed).sample(chosen, min(options.count, len(chosen)))
    options.out.mkdir(parents=True, exist_ok=True)
    load_libraries()
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        slots = [Path(temporary).resolve() / str(number) for number in range(options.workers)]
        for slot in slots:
            copy_project(ROOT, slot)
        files = sorted({one.path for one in everything} | {path for _, path, _, _ in NAMED})
        copied = slots[0]  # the project as it is tried, whatever is written in the meantime
        reach = measured_reach(copied, slots, files, options.out / "reach.json")
        print(f"{len(reach.lines)} tests pass; {len(sample)} of {len(chosen)} mutants drawn by seed {options.seed}")
        results = _tried([*named.values(), *sample], reach, slots, options.out / "tried.jsonl")
    report = {
        "seed": options.seed,
        "only": options.only,
        "of": len(chosen),
        "drawn": [_entry(one, results[one.id]) for one in sample],
        "named": [{"name": name, **_entry(one, results[one.id])} for name, one in named.items()],
        "seconds": round(time.monotonic() - begun),
    }
    (options.out / f"seed-{options.seed}.json").write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(_summary(report)))
    if any(one["verdict"] == "survived" for one in report["named"]):
        sys.exit("a named mutant lives")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many are drawn; those with a name come on top")
    parser.add_argument("--seed", type=int, default=0, help="which are drawn")
    parser.add_argument("--only", default="", help="draw only among mutants whose line in the output has this in it")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants", help="what was tried is kept there")
    return parser.parse_args()


def _tried(mutants: list[Mutant], reach: Reach, slots: list[Path], kept: Path) -> dict[str, dict[str, Any]]:
    """The verdict on each."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    results = {one["id"]: one for one in map(json.loads, lines)}
    copied = slots[0]
    tests_of = {one.id: reach.tests_for(one, copied) for one in mutants}
    files_of = {name: sorted({file_of(test) for some in tests for test in some}) for name, tests in tests_of.items()}
    shown = {name: digest(copied, files) for name, files in files_of.items()}

    sources = {one.path: (copied / one.path).read_bytes() for one in mutants}

    def is_known(mutant: Mutant) -> bool:
        before = results.get(mutant.id)
        return before is not None and (before["verdict"] == "killed" or before["shown"] == shown[mutant.id])

    def job(name: str, tests: list[str]) -> Job:
        mutant = to_try[name]
        changed = {mutant.path: mutant.applied(sources[mutant.path])}
        limit = GRACE + SLOWEST * sum(reach.seconds[test] for test in tests)
        return Job(name, lambda: first_failure(tests, set(reach.lines)), limit, changed)

    to_try = {one.id: one for one in mutants if not is_known(one)}
    # First the tests of its own module, which most mutants do not outlive; reading in others takes a while.
    jobs = deque(job(name, tests_of[name][0]) for name in to_try)
    begun: dict[str, Ended] = {}
    with kept.open("a") as file:
        for ended in in_slots(jobs, slots):
            mutant, (_, others) = to_try[ended.name], tests_of[ended.name]
            result = _verdict(ended, begun.get(ended.name))
            if result["verdict"] == "survived" and others and ended.name not in begun:
                begun[ended.name] = ended
                jobs.appendleft(job(ended.name, others))
                continue
            result |= {"id": mutant.id, "mutant": str(mutant), "shown": shown[mutant.id]}
            results[mutant.id] = result
            file.write(json.dumps(result) + "\n")
            file.flush()
            seen = f"{result['by']}, {result['seconds']} s"
            print(f"{result['verdict']}: {mutant} ({seen})", flush=True)
    return results


def _verdict(ended: Ended, before: Ended | None) -> dict[str, Any]:
    """What came of tests, the first of which may have been run before."""
    seconds = round(ended.seconds + (before.seconds if before else 0), 1)
    if ended.answer is None:
        return {"verdict": "killed", "by": ended.how, "seconds": seconds}
    if ended.answer["failed"] or ended.answer["code"]:
        by = ended.answer["failed"] or f"pytest's exit code {ended.answer['code']}"
        return {"verdict": "killed", "by": by, "seconds": seconds}
    ran = ended.answer["ran"] + (before.answer["ran"] if before else 0)
    return {"verdict": "survived", "by": f"{ran} tests run it", "seconds": seconds}


def _entry(mutant: Mutant, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "file": mutant.path,
        "line": mutant.line,
        "operator": mutant.operator,
        "before": mutant.before,
        "after": mutant.after,
        **{name: result[name] for name in ("verdict", "by", "seconds")},
    }


def _summary(report: dict[str, Any]) -> Iterator[str]:
    for kind in ("named", "drawn"):
        mutants = report[kind]
        survivors = [one for one in mutants if one["verdict"] == "survived"]
        share = f" ({1 - len(survivors) / len(mutants):.1%})" if mutants else ""
        yield f"\n{kind}: {len(mutants) - len(survivors)} of {len(mutants)} killed{share}"
        for group in ("operator", "file") if kind == "drawn" else ():
            tried, lived = (Counter(_group(one[group]) for one in some) for some in (mutants, survivors))
            yield "  " + ", ".join(f"{name} {count - lived[name]}/{count}" for name, count in sorted(tried.items()))
        for one in survivors:
            yield f"  survived: {one['file']}:{one['line']}: {one['operator']}: {one['before']!r} -> {one['after']!r}"
    yield f"{report['seconds']} seconds"


def _group(name: str) -> str:
    """The room of a file; an operator as it is."""
    return name.split("/")[2] if "/" in name else name


if __name__ == "__main__":
    main()
