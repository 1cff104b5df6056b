"""Sweeps on a real Ray cluster: one that the command starts, and one that was there before. Workers are lost, drivers
interrupted and killed; rows are the same as ever. What is ours of it is also tried with a stand-in for Ray."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import ray_cluster as module
from mtgcn.experiments.executors import in_this_process, usable_cores
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.ray_cluster import RayCluster, check_reachable, check_versions, ray_cluster, run_unit

RAY_SWEEP = Path(__file__).with_name("ray_sweep.py")
UNITS = 4  # of that program
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
SWEEP = ["reproduce", "--table", "digits", "--methods", "lp,gcn", "--runs", "2"]
needs_processes = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes as on Linux")


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def rows_without_seconds(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert all(row.pop("seconds") > 0 for row in rows)
    return sorted(rows, key=lambda row: (row["unit"], row["run"]))


def kept_together(process):
    """All processes that a process started, and those these started."""
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes):
    return all(not one.is_running() or one.status() == psutil.STATUS_ZOMBIE for one in processes)


@pytest.fixture
def short_folder():
    """For what sockets lie in, whose paths may not be long."""
    folder = Path("/tmp") / f"ray-test-{secrets.token_hex(3)}"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def clean_home(tmp_path, short_folder, monkeypatch):
    """A home and a folder for temporary files in which nothing lies, and nothing may be left."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(short_folder))
    yield home
    assert [path for path in short_folder.iterdir() if path.name.startswith("mtgcn-ray-")] == []
    assert not (home / ".ray").exists()


@contextmanager
def started(*command, **changes):
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **changes,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def finished(*command, **changes):
    with started(*command, **changes) as process:
        out, errors = process.communicate(timeout=240)
        return process.returncode, out, errors


@pytest.fixture
def signs(tmp_path):
    folder = tmp_path / "signs"
    folder.mkdir()
    return folder


def waiting_processes(signs):
    path = signs / "processes"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.long
@needs_processes
def test_killed_worker_loses_nothing(tmp_path, signs, clean_home):
    with started(RAY_SWEEP, tmp_path / "ray", signs, "local") as process:
        wait_until(lambda: waiting_processes(signs))
        cluster = kept_together(process)
        listened = [at for one in cluster for at in one.net_connections("tcp") if at.status == psutil.CONN_LISTEN]
        assert listened
        assert {at.laddr.ip for at in listened} <= LOOPBACK
        [worker] = waiting_processes(signs)
        assert worker in [one.pid for one in cluster]
        os.kill(worker, signal.SIGKILL)
        (signs / "go").touch()
        out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, ""), errors
    assert "worker died" in errors  # Ray's own words: a person may want to know
    first, second = waiting_processes(signs)
    assert first == worker != second
    wait_until(lambda: all_gone(cluster))

    assert finished(RAY_SWEEP, tmp_path / "serial", signs) == (0, "", "")
    rows = rows_without_seconds(tmp_path / "ray")
    assert len({row["unit"] for row in rows}) == UNITS
    assert rows == rows_without_seconds(tmp_path / "serial")


@pytest.mark.long
@needs_processes
def test_killed_driver_leaves_no_task(tmp_path, signs, short_folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(short_folder))
    folder = tmp_path / "rows"
    with started(RAY_SWEEP, folder, signs, "local") as process:
        rows = folder / "rows.jsonl"
        wait_until(lambda: waiting_processes(signs))
        if usable_cores() > 1:  # then the other units are finished beside the one that waits
            wait_until(lambda: rows.exists() and rows.stat().st_size)
        # Ray's agents, which run no task, look for their cluster for a minute or two before they end.
        at_work = [one for one in kept_together(process) if not one.cmdline()[0].strip().endswith("Agent")]
        assert len(at_work) < len(kept_together(process))
        process.kill()
        process.communicate()
    wait_until(lambda: all_gone(at_work))
    before = rows.read_bytes()
    (signs / "go").touch()
    assert finished(RAY_SWEEP, folder, signs) == (0, "", "")
    assert rows.read_bytes().startswith(before)
    assert len({row["unit"] for row in rows_without_seconds(folder)}) == UNITS


@pytest.mark.long
@needs_processes
def test_interrupt_ends_the_cluster(tmp_path, clean_home):
    # lp is stored at once, mt-gcn takes long: the interrupt comes in the midst of it.
    command = ["reproduce", "--table", "digits", "--methods", "lp,mt-gcn", "--runs", "30", "--ray", "local"]
    with started("-m", "mtgcn", *command, "--out", tmp_path / "rows") as process:
        rows = tmp_path / "rows" / "rows.jsonl"
        wait_until(lambda: rows.exists() and rows.stat().st_size)
        cluster = kept_together(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    first, second = errors.splitlines()
    assert first.endswith(f"of 8 units are stored in {tmp_path / 'rows'}; the same command goes on from there")
    assert second == "mtgcn: interrupted"
    wait_until(lambda: all_gone(cluster))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def cluster_of_others(folder, version=None):
    """A cluster that was there before, started as its administrator does, and what lets one into it."""
    admitted = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on the loopback address
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    port = free_port()
    program = f"import ray, sys; ray.__version__ = {version!r} or ray.__version__; from ray.scripts.scripts import main"
    options = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    ports = ["--min-worker-port=0", "--max-worker-port=0", f"--temp-dir={folder}"]
    with started("-c", f"{program}; main()", *options, *ports, env=admitted) as head:
        try:
            wait_until(lambda: head.poll() is not None or "Ray runtime started" in head.stdout.readline())
            assert head.poll() is None, head.stderr.read()
            yield f"127.0.0.1:{port}", admitted
        finally:
            members = kept_together(head)
            head.terminate()
            head.communicate(timeout=60)
            for member in members:  # ours: what ray start left behind
                if member.is_running():
                    member.kill()


@pytest.mark.long
@needs_processes
def test_existing_cluster_gives_the_same_rows(tmp_path, short_folder):
    with cluster_of_others(short_folder) as (address, admitted):
        common = ["-m", "mtgcn", *SWEEP, "--device", "cpu"]
        status, out, errors = finished(*common, "--ray", address, "--out", tmp_path / "ray", env=admitted)
        assert status == 0, errors
        assert finished(*common, "--workers", 1, "--out", tmp_path / "serial")[0] == 0
        rows = rows_without_seconds(tmp_path / "ray")
        assert len(rows) == 16
        assert rows == rows_without_seconds(tmp_path / "serial")

        stranger = {name: value for name, value in admitted.items() if not name.startswith("RAY_AUTH")}
        status, out, errors = finished(*common, "--ray", address, "--out", tmp_path / "stranger", env=stranger)
        assert (status, out) == (2, "")
        assert len(errors.splitlines()) == 1
        assert f"the cluster at {address} requires its token; set RAY_AUTH_MODE=token" in errors


@pytest.mark.long
@needs_processes
def test_cluster_of_another_version(tmp_path, short_folder):
    with cluster_of_others(short_folder, version="2.1.0") as (address, admitted):
        status, out, errors = finished(
            "-m", "mtgcn", *SWEEP, "--ray", address, "--out", tmp_path / "rows", env=admitted
        )
    assert (status, out) == (2, "")
    assert errors.startswith(f"mtgcn: error: the cluster at {address} has Ray 2.1.0 and Python ")
    assert errors.endswith("; use the same versions in both places\n")


def cluster_of(*resources):
    nodes = [
        {"NodeID": str(number), "NodeManagerHostname": "n", "NodeManagerAddress": str(number), "Resources": one}
        for number, one in enumerate(resources)
    ]
    return RayCluster("head:6379", tuple(nodes))


def test_units_at_a_time():
    cluster = cluster_of({"CPU": 7.0}, {"CPU": 4.0, "GPU": 3.0}, {"GPU": 1.0}, {})
    assert cluster.at_a_time("cpu", threads=2) == 3 + 2
    assert cluster.at_a_time("cpu", threads=5) == 1
    assert cluster.at_a_time("cuda (some model)", threads=2) == 2
    with pytest.raises(InputError, match="no node of the Ray cluster head:6379 has 8 CPUs; lower --threads"):
        cluster.at_a_time("cpu", threads=8)
    with pytest.raises(InputError, match="has 5 CPUs and a GPU"):
        cluster.at_a_time("cuda (some model)", threads=5)


def test_check_versions():
    here = {"mtgcn": "1.2.3", "torch": "2.13.0"}
    check_versions(dict(here), here, "n")
    with pytest.raises(InputError, match=r"node n has torch 2\.12\.1 and this process 2\.13\.0"):
        check_versions({"mtgcn": "1.2.3", "torch": "2.12.1"}, here, "n")


def test_chosen_device(monkeypatch):
    with_gpus = cluster_of({"CPU": 2.0}, {"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0, "GPU": 1.0})
    models = {"1": "cuda (A)", "2": "cuda (A)"}
    monkeypatch.setattr(RayCluster, "_asked", lambda _, node, for_gpu: models[node["NodeID"]] if for_gpu else "cpu")
    assert with_gpus.chosen_device("auto") == with_gpus.chosen_device("cuda") == "cuda (A)"
    assert with_gpus.chosen_device("cpu") == "cpu"
    assert cluster_of({"CPU": 2.0}).chosen_device("auto") == "cpu"
    with pytest.raises(InputError, match="'cuda' asked for, but the Ray cluster head:6379 has no GPU; use cpu or auto"):
        cluster_of({"CPU": 2.0}).chosen_device("cuda")
    models["2"] = "cuda (B)"
    with pytest.raises(
        InputError, match=r"unlike models round otherwise: cuda \(A\) on n \(1\), cuda \(B\) on n \(2\)"
    ):
        with_gpus.chosen_device("auto")
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        with_gpus.chosen_device("gpu")


class StandIn(ModuleType):
    """For Ray, as much of it as we ask: whatever is remote is done in this process once its outcome is asked for."""

    def __init__(self):
        super().__init__("ray")
        self.started, self.kept = [], []

    def init(self, address, **options):
        self.started.append((address, options.get("_temp_dir")))

    def shutdown(self):
        self.started.pop()

    def nodes(self):
        return [{"NodeID": "here", "Alive": True}, {"NodeID": "gone", "Alive": False}]

    def put(self, value):
        self.kept.append(value)
        return partial(lambda kept: kept, value)

    def remote(self, max_retries):
        return lambda task: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=partial(partial, task)))

    def wait(self, references, num_returns):
        return references[:num_returns], references[num_returns:]

    def get(self, reference, timeout=None):
        return reference()


class Lost(Exception):
    pass


class Late(Exception):
    pass


@pytest.fixture
def stand_in(monkeypatch):
    ray = StandIn()
    parts = {
        "ray": ray,
        "ray.exceptions": SimpleNamespace(
            **dict.fromkeys(("NodeDiedError", "OutOfMemoryError", "WorkerCrashedError"), Lost),
            GetTimeoutError=Late,
            RayError=Lost,
        ),
        "ray.util.scheduling_strategies": SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node),
    }
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setattr(module, "keep_freed_blocks", lambda: None)
    return ray


@pytest.fixture
def units():
    return list(plan(Selection(tables=["digits"], methods=["lp"], runs=1)).units)


def without_seconds(outcomes):
    return [(unit, [replace(row, seconds=0) for row in rows]) for unit, rows in outcomes]


def test_graph_is_sent_once(stand_in, units):
    found = cluster_of({"CPU": 2.0}).execute(units)
    assert without_seconds(found) == without_seconds(in_this_process(units))
    assert [graph.name for graph in stand_in.kept] == ["digits"]


def test_lost_worker_fails_its_unit_only(stand_in, units, monkeypatch):
    lost, other = units[:2]

    def run(unit, *rest):
        if unit == lost:
            raise Lost
        return run_unit(unit, *rest)

    monkeypatch.setattr(module, "run_unit", run)
    outcomes = dict(cluster_of({"CPU": 2.0}).execute([lost, other]))
    assert isinstance(outcomes[lost], InputError)
    assert str(outcomes[lost]).startswith("its worker was lost 4 times, most likely for want of memory; start the same")
    assert len(outcomes[other]) == 1


@pytest.mark.usefixtures("stand_in")
def test_late_node_with_other_versions(units):
    outcome = run_unit(units[0], [], None, module.decisive_versions() | {"torch": "1.0.0"})
    assert isinstance(outcome, InputError)
    assert "and this process 1.0.0, so its rows would be others" in str(outcome)


@pytest.mark.usefixtures("stand_in")
def test_silent_node(monkeypatch):
    def never(for_gpu):
        raise Late

    assert cluster_of({"CPU": 2.0}).chosen_device("cpu") == "cpu"
    monkeypatch.setattr(module, "describe_node", never)
    with pytest.raises(InputError, match=r"node n \(0\) of the Ray cluster head:6379 has not answered for 60 s; check"):
        cluster_of({"CPU": 2.0}).chosen_device("cpu")


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """What was done before Ray was asked for anything."""
    steps = []
    monkeypatch.setattr(module, "check_reachable", lambda address: steps.append(f"check {address}"))
    monkeypatch.setattr(module, "_keep_to_this_machine", lambda: steps.append("loopback only"))
    monkeypatch.setattr(module, "_socket_folder", lambda: str(tmp_path))
    return steps


def test_local_cluster_leaves_nothing_behind(stand_in, prepared, tmp_path):
    with ray_cluster("local") as cluster:
        assert [node["NodeID"] for node in cluster.nodes] == ["here"]
        assert prepared == ["loopback only"]
        [folder] = tmp_path.iterdir()
        assert stand_in.started == [("local", str(folder))]
    assert stand_in.started == []
    assert list(tmp_path.iterdir()) == []


def test_existing_cluster_is_checked_first(stand_in, prepared, tmp_path):
    with ray_cluster("head:6379") as cluster:
        assert cluster.address == "head:6379"
        assert prepared == ["check head:6379"]
        assert stand_in.started == [("head:6379", None)]
        assert list(tmp_path.iterdir()) == []
    assert stand_in.started == []


@pytest.mark.parametrize(
    "address", ["somewhere", "ray://head:10001", "head", ":6379", "head:port", "http://head:1", ""]
)
def test_invalid_address(address):
    with pytest.raises(InputError, match="give HOST:PORT of a cluster's head node, auto for the cluster that runs on"):
        check_reachable(address)


def test_closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Ray cluster can be reached at {address} \(Connection refused\)"):
            check_reachable(address)
    for port in ("0", "99999"):
        with pytest.raises(InputError, match="no Ray cluster can be reached"):
            check_reachable(f"127.0.0.1:{port}")


def test_unknown_host():
    with pytest.raises(InputError, match=r"no Ray cluster can be reached at missing\.invalid:6379"):
        check_reachable("missing.invalid:6379")


def test_silent_port_times_out(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(module, "SECONDS_TO_JOIN", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"what listens at {address} has not answered as a Ray cluster for 2 s"):
            check_reachable(address)


ERRORS = {
    "the cluster at head:1 has Ray 2.1.0 and Python 3.10.2, this process Ray 2.60.0 and Python 3.11.7;": (
        "Traceback\nRuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.10.2\n"
        "This process on node 1.2.3.4 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    ),
    "the cluster at head:1 requires its token;": "ray.exceptions.AuthenticationError: RPC error\n\n",
    "cannot join the Ray cluster at head:1: ValueError: no raylet here; this machine must be a node of it": (
        "Traceback\n  line 1\nValueError: no raylet here\n"
    ),
    "cannot join the Ray cluster at head:1: it ended without a message;": "",
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors_of_ray_become_one_line(message, monkeypatch):
    program = f"import sys; sys.stderr.write({ERRORS[message]!r}); sys.exit(1)"
    monkeypatch.setattr(module, "_TRIAL", program)
    monkeypatch.setattr(module, "_check_listening", lambda _: None)
    with pytest.raises(InputError) as refused:
        check_reachable("head:1")
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
