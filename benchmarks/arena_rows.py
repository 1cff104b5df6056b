"""Rows of `mtgcn arena` on a machine that has only torch, NumPy and SciPy, such as a GPU server.

    python benchmarks/arena_rows.py --out arena/ --device cuda --workers 8 --most-seconds 500
    python benchmarks/arena_rows.py --out arena/ --graphs cora,dblp --labels 1,20 --methods lp,mt-plus --runs 30

The runs of a unit are stacked, and --workers units run side by side, graph by graph. Each is appended to OUT/rows.jsonl
when it is done; units in that file, or in another named by --done, are skipped, so that the same command goes on where
it stopped. Units share a GPU best under its multi-process service (nvidia-cuda-mps-control -d).
With --most-seconds no unit starts that late. A unit that fails is written to OUT/failures.jsonl with its error, and the
others go on. `mtgcn arena --out OUT` makes the page. MTGCN_DATA names the folder of the datasets. Without threadpoolctl
also set OPENBLAS_NUM_THREADS=1, since the rounding of sums depends on it.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import measuring

from mtgcn.environment import device_title
from mtgcn.errors import InputError
from mtgcn.experiments.arena import arena_units, record_failure
from mtgcn.experiments.plan import execute
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.store import ROWS_FILE


def executor(workers: int) -> Executor:
    """Runs units in processes, or one after the other in this one."""
    if workers == 1:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        out={"type": Path, "required": True, "metavar": "DIR", "help": "folder of rows.jsonl"},
        graphs=("graphs", "datasets, or the groups graphs and tables, with commas between"),
        methods=(None, "with commas between; default: those of the group that need no validation labels"),
        labels=(None, "per class; default: those of the group"),
        runs=(int, "default: those of the group"),
        seed=int,
        final=(False, "use a seed that is kept for final results"),
        validation_per_class=0,
        device="auto",
        workers=(1, "processes; seconds of units that run side by side are longer"),
        most_seconds=(float("inf"), "start no unit after that many"),
        done={"action": "append", "type": Path, "default": [], "metavar": "FILE", "help": "rows of units to skip"},
    )
    started = perf_counter()
    device, facts = measuring.start(arguments)
    units = arena_units(
        arguments.graphs.split(","),
        arguments.methods and arguments.methods.split(","),
        arguments.labels and [int(count) for count in arguments.labels.split(",")],
        runs=arguments.runs,
        seed=checked_seed(arguments.seed, final=arguments.final),
        validation_per_class=arguments.validation_per_class,
        device=device_title(device),
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / ROWS_FILE
    done = {unit for file in (path, *arguments.done) for unit in complete_units(file)}
    missing = [unit for unit in units if unit.id not in done]
    print(f"{len(units) - len(missing)} of {len(units)} units are stored", flush=True)
    waiting, running = iter(enumerate(missing, 1)), {}
    with (
        tempfile.TemporaryDirectory() as folder,  # without results of earlier commands, which would cost no time
        path.open("a", encoding="utf-8") as file,
        executor(arguments.workers) as pool,
    ):
        os.environ.setdefault("MTGCN_CACHE", folder)
        while True:
            if perf_counter() - started < arguments.most_seconds:
                some = itertools.islice(waiting, arguments.workers - len(running))
                running |= {pool.submit(execute, unit): (number, unit) for number, unit in some}
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                number, unit = running.pop(future)
                try:
                    rows = future.result()
                except Exception as error:  # one unit must not cost the others their machine
                    record_failure(arguments.out, unit, error)
                    print(f"{number}/{len(missing)} {unit.title}: {error}", flush=True)
                    continue
                file.write("".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows))
                file.flush()
                mean, seconds = (sum(getattr(row, name) for row in rows) for name in ("accuracy", "seconds"))
                print(
                    f"{number}/{len(missing)} {unit.title}: {100 * mean / len(rows):.1f} %, {seconds:.1f} s", flush=True
                )
    if left := len(list(waiting)):
        print(f"stopped after {arguments.most_seconds:g} s; {left} units are left")
    stored = complete_units(path) | done
    left = [unit.title for unit in units if unit.id not in stored]
    measuring.write_json(arguments.json, {"machine": facts, "units": len(units), "not stored": left})


def complete_units(path: Path) -> set[str]:
    """The units of a file of rows; an incomplete end, as after a kill, is cut off."""
    if not path.exists():
        return set()
    found: dict[str, int] = {}
    position = complete = 0
    with path.open("rb") as file:
        for line in file:
            position += len(line)
            try:
                row = json.loads(line)
            except ValueError:
                break
            found[row["unit"]] = row["runs"] - row["run"] - 1
            if not found[row["unit"]] and line.endswith(b"\n"):
                complete = position
    if complete < path.stat().st_size:
        os.truncate(path, complete)
    return {unit for unit, left in found.items() if not left}


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
