"""Sweeps: executors, kills, interrupts, progress."""

import importlib.util
import os
import signal
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import psutil
import pytest

import sweep
from mtgcn.errors import InputError
from mtgcn.experiments import ray_cluster, reproduce
from mtgcn.experiments.plan import Selection, plan, usable_cores
from mtgcn.experiments.store import Store
from mtgcn.report.progress import sweep_progress
from sweep import all_gone, finished, has_rows, rows_without_seconds, started, wait_until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The rows of the sweep in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finished(sweep.__file__, folder) == (0, "", "")
    rows = rows_without_seconds(folder)
    assert len(rows) == len(sweep.units()) * sweep.RUNS
    return rows


@pytest.mark.long
def test_rows_do_not_depend_on_the_executor(undisturbed, tmp_path):
    assert finished(sweep.__file__, tmp_path, "--workers", 2) == (0, "", "")
    assert rows_without_seconds(tmp_path) == undisturbed


@pytest.mark.long
def test_killed_sweep_resumes_with_the_same_rows(undisturbed, tmp_path):
    random = np.random.default_rng(0)
    rows, size = tmp_path / "rows.jsonl", 0
    for _ in range(3):
        with started(sweep.__file__, tmp_path):
            wait_until(lambda size=size: rows.exists() and rows.stat().st_size > size)
            time.sleep(random.uniform(0, 0.15))  # about as long as a unit takes
        size = rows.stat().st_size
    assert 0 < len(rows.read_bytes().splitlines()) < len(undisturbed)
    assert finished(sweep.__file__, tmp_path) == (0, "", "")
    assert rows_without_seconds(tmp_path) == undisturbed


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="lists processes as on Linux")
def test_workers_do_not_outlive_a_killed_parent(undisturbed, tmp_path):
    with started(sweep.__file__, tmp_path, "--workers", 2) as process:
        wait_until(lambda: has_rows(tmp_path))
        workers = psutil.Process(process.pid).children()
    assert len(workers) >= 2
    wait_until(lambda: all_gone(workers))
    with Store(tmp_path) as store:  # the lock is free
        kept = [row for row in undisturbed if row["unit"] in store.units]
    assert kept
    assert rows_without_seconds(tmp_path) == kept


@pytest.mark.long
def test_interrupted_command(tmp_path):
    # lp is stored at once; mt-gcn takes seconds and is interrupted.
    command = ["reproduce", "--table", "digits", "--methods", "lp,mt-gcn", "--runs", "10", "--workers", "2"]
    with started("-m", "mtgcn", *command, "--device", "cpu", "--out", tmp_path) as process:
        wait_until(lambda: has_rows(tmp_path))
        os.killpg(process.pid, signal.SIGINT)  # like a terminal: to the workers too
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    first, second = errors.splitlines()
    assert first.endswith(f"of 8 units are stored in {tmp_path}; the same command resumes")
    assert second == "mtgcn: interrupted"


@pytest.fixture
def digits():
    return plan(Selection(tables=["digits"], methods=["lp"], runs=1))


def test_sweep_progress(digits, tmp_path):
    seen = []

    @contextmanager
    def watched(*counts):
        seen.append(counts)
        yield seen.append

    for _ in range(2):
        with Store(tmp_path) as store:
            reproduce.carry_out(digits, store, reproduce.Machines(), watched, nullcontext)
    count = len(digits.units)
    assert seen == [(count, 0), *(unit.title for unit in digits.units), (count, count)]


@pytest.mark.parametrize("failing", [1, 4])
def test_failed_units_are_reported(digits, tmp_path, failing):
    refused, others = digits.units[:failing], digits.units[failing:]

    def executor(units, _):
        yield from ((unit, InputError("it does not fit")) for unit in refused)
        yield from reproduce.in_processes([unit for unit in units if unit not in refused])

    with Store(tmp_path) as store:
        found = reproduce.carry_out(digits, store, reproduce.Machines("cpu", 1, executor), sweep_progress, nullcontext)
    assert found.failures == tuple(f"{unit.title}: it does not fit" for unit in refused)
    shown = [line.labels_per_class for line in found.lines]
    assert shown == [unit.labels_per_class for unit in others]
    assert (found.evidence.units_shown if found.evidence else 0) == len(others)


def test_worker_processes():
    with reproduce.machines("cpu", threads=1, workers=3) as found:
        assert (found.device, found.at_a_time) == ("cpu", 3)
    with reproduce.machines("cpu", threads=1) as found:
        assert found.at_a_time == min(usable_cores(), reproduce.MAX_DEFAULT_WORKERS)


def test_invalid_machines(monkeypatch):
    with pytest.raises(InputError, match="--workers 2 starts processes on this machine, and --ray local uses all"):
        reproduce.machines("cpu", threads=1, workers=2, ray="local").__enter__()
    monkeypatch.setattr(ray_cluster, "find_spec", lambda it: None if it == "ray" else importlib.util.find_spec(it))
    with pytest.raises(InputError, match=r"--ray needs the package ray, .*; pip install 'mtgcn\[ray\]'"):
        reproduce.machines("cpu", threads=1, ray="local").__enter__()
