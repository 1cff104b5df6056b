"""Sweeps: executors, kills, interrupts, progress."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import executors, ray_cluster
from mtgcn.experiments.executors import default_workers, in_this_process
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.reproduce import Machines, TimeLeft, carry_out, machines
from mtgcn.experiments.store import Store

SMALL_SWEEP = Path(__file__).with_name("small_sweep.py")
UNITS, RUNS = 12, 3


def started(folder, workers):
    process = subprocess.Popen(
        [sys.executable, str(SMALL_SWEEP), str(folder), str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    while line and line != "started\n":  # before it, a repair may be seen
        line = process.stdout.readline()
    assert line, process.stderr.read()
    return process


def finished(folder, workers):
    process = started(folder, workers)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def rows_without_seconds(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert all(row.pop("seconds") > 0 for row in rows)
    return sorted(rows, key=lambda row: (row["unit"], row["run"]))


def children(process):
    """The ids of the processes that a process started."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(child) for child in listed.read_text().split()]


def is_running(process_id):
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    finished(folder, workers=1)
    rows = rows_without_seconds(folder)
    assert len(rows) == UNITS * RUNS
    return rows


@pytest.mark.slow
def test_rows_do_not_depend_on_the_executor(undisturbed, tmp_path):
    finished(tmp_path, workers=2)
    assert rows_without_seconds(tmp_path) == undisturbed


@pytest.mark.long
def test_killed_sweep_resumes_with_the_same_rows(undisturbed, tmp_path):
    random = np.random.default_rng(0)
    rows = tmp_path / "rows.jsonl"
    for _ in range(3):
        process = started(tmp_path, workers=1)
        before = rows.stat().st_size
        wait_until(lambda before=before: rows.stat().st_size > before)  # so that there is something to go on from
        time.sleep(random.uniform(0, 0.15))  # about as long as a unit takes
        process.kill()
        process.communicate()
    assert 0 < len(rows.read_bytes().splitlines()) < UNITS * RUNS
    finished(tmp_path, workers=1)
    assert rows_without_seconds(tmp_path) == undisturbed


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes where Linux lists them")
def test_workers_do_not_outlive_a_killed_parent(undisturbed, tmp_path):
    process = started(tmp_path, workers=2)
    wait_until(lambda: (tmp_path / "rows.jsonl").stat().st_size)  # so that the workers are at work
    workers = children(process)
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(is_running, workers)), seconds=10)
    with Store(tmp_path) as store:  # the lock is free
        kept = [row for row in undisturbed if row["unit"] in store.units]
    assert kept
    assert rows_without_seconds(tmp_path) == kept


@pytest.mark.long
def test_interrupted_command(tmp_path):
    # lp is stored at once, mt-gcn takes seconds: the interrupt comes in the midst of it.
    command = ["reproduce", "--table", "digits", "--methods", "lp,mt-gcn", "--runs", "10", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mtgcn", *command, "--device", "cpu", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background jobs ignore the signal and hand that on, and the tests may be one of them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    rows = tmp_path / "rows.jsonl"
    wait_until(lambda: rows.exists() and rows.stat().st_size)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    first, second = errors.splitlines()
    assert first.endswith(f"of 8 units are stored in {tmp_path}; the same command goes on from there")
    assert second == "mtgcn: interrupted"


def test_sweep_progress(tmp_path):
    sweep = plan(Selection(tables=["digits"], methods=["lp"], runs=1))
    seen = []

    @contextmanager
    def watched(units, stored, first_guess):
        seen.append((units, stored, first_guess))
        yield lambda title, seconds: seen.append(seconds)

    with Store(tmp_path) as store:
        carry_out(sweep, store, sweep_progress=watched)
    units = len(sweep.units)
    assert seen[0] == (units, 0, None)  # nothing was seen yet
    assert len(seen) == 1 + units
    assert all(seconds > 0 for seconds in seen[1:-1])
    assert seen[-1] == 0
    with Store(tmp_path) as store:
        carry_out(sweep, store, sweep_progress=watched)
    assert seen[units + 1 :] == [(units, units, 0)]


def carried_out(sweep, folder, refused):
    """What comes of a sweep some of whose units cannot be run."""

    def executor(units):
        done = in_this_process([unit for unit in units if unit not in refused])
        yield from ((unit, InputError("it does not fit")) for unit in units if unit in refused)
        yield from done

    with Store(folder) as store:
        return carry_out(sweep, store, Machines("cpu", 1, lambda _: executor))


def test_failed_units_are_reported(tmp_path):
    sweep = plan(Selection(tables=["digits"], methods=["lp"], runs=1))
    first, *others = sweep.units
    found = carried_out(sweep, tmp_path, [first])
    assert found.failures == (f"{first.title}: it does not fit",)
    [table] = found.tables
    assert [line.rows[0].labels_per_class for line in table.lines] == [unit.labels_per_class for unit in others]
    assert found.evidence.units_shown == len(others)


def test_all_units_failed(tmp_path):
    sweep = plan(Selection(tables=["digits"], methods=["lp"], runs=1))
    found = carried_out(sweep, tmp_path, sweep.units)
    assert len(found.failures) == len(sweep.units)
    assert (found.tables, found.evidence) == ((), None)


def test_time_left():
    unit = plan(Selection(tables=["2"], methods=["mt-gcn"])).units[0]

    class Row:
        method, dataset, seconds = "mt-gcn", "cora", 2.0

    assert TimeLeft([]).seconds([unit], workers=1) is None
    guess = TimeLeft([[Row()] * 10])
    cora = 10 * 2708
    assert guess.seconds([unit], workers=1) == pytest.approx(20 * 30 * 2708 / cora)
    assert guess.seconds([unit, unit], workers=2) == pytest.approx(20 * 30 * 2708 / cora)
    # Of a method never seen, what the others took.
    assert guess.seconds([replace(unit, method="gcn")], workers=1) == pytest.approx(60)


def test_worker_exits_when_its_pipe_closes(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(executors, "keep_freed_blocks", lambda: None)
    monkeypatch.setattr(executors, "os", SimpleNamespace(_exit=lambda code: ended.set()))
    watched, held = Pipe(duplex=False)
    executors._start_worker(watched)
    assert not ended.is_set()
    held.close()
    assert ended.wait(timeout=30)


def test_worker_processes():
    with machines("cpu", threads=1, workers=3) as found:
        assert (found.device, found.at_a_time) == ("cpu", 3)
        assert found.executor(1) is in_this_process
        assert found.executor(2) is not in_this_process
    with machines("cpu", threads=1) as found:
        assert found.at_a_time == default_workers("cpu", 1)


def test_workers_and_ray_exclude_each_other():
    with pytest.raises(InputError, match="--workers 2 are processes of this machine, and --ray local takes as many"):
        machines("cpu", threads=1, workers=2, ray="local").__enter__()


def test_missing_ray(monkeypatch):
    monkeypatch.setattr(
        ray_cluster, "find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name)
    )
    with pytest.raises(
        InputError, match=r"--ray needs the package ray, which is not installed; pip install 'mtgcn\[ray\]'"
    ):
        machines("cpu", threads=1, ray="local").__enter__()
