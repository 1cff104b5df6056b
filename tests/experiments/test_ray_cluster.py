"""Sweeps on a Ray cluster, started by the command or before it: lost workers, killed and interrupted drivers.

The other tests use a stand-in for Ray.
"""

import os
import secrets
import shutil
import signal
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

import sweep
from mtgcn.errors import InputError
from mtgcn.experiments import ray_cluster as module
from mtgcn.experiments.plan import Selection, plan, usable_cores
from mtgcn.experiments.ray_cluster import RayCluster, check_reachable, run_unit
from mtgcn.experiments.reproduce import in_processes
from mtgcn.methods import Method
from sweep import all_gone, finished, has_rows, rows_without_seconds, started, wait_until

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
SWEEP = ["-m", "mtgcn", "reproduce", "--table", "digits", "--methods", "lp,gcn", "--runs", "2", "--device", "cpu"]


def on_ray(test):
    """A test with a real cluster, whose processes it lists as on Linux."""
    return pytest.mark.long(pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")(test))


def processes_of(process):
    return psutil.Process(process.pid).children(recursive=True)


@pytest.fixture
def short_folder():
    """A folder with a path short enough for sockets."""
    folder = Path("/tmp") / f"rt-{secrets.token_hex(3)}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def clean_home(tmp_path, short_folder, monkeypatch):
    """Empty folders for the home and for temporary files; the test must leave nothing there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(short_folder))
    yield
    assert [path for path in short_folder.iterdir() if path.name.startswith("mtgcn-ray-")] == []
    assert not (home / ".ray").exists()


@pytest.fixture
def signs(tmp_path):
    folder = tmp_path / "signs"
    folder.mkdir()
    (folder / "processes").touch()
    return folder


def waiting_processes(signs):
    return [int(line) for line in (signs / "processes").read_text().split()]


@on_ray
@pytest.mark.usefixtures("clean_home")
def test_killed_worker_loses_nothing(tmp_path, signs, short_folder):
    with started(sweep.__file__, tmp_path / "ray", "--signs", signs, "--ray", "local") as process:
        wait_until(lambda: waiting_processes(signs))
        cluster = processes_of(process)
        listening = [at for one in cluster for at in one.net_connections("tcp") if at.status == psutil.CONN_LISTEN]
        assert listening
        assert {at.laddr.ip for at in listening} <= LOOPBACK
        [private] = short_folder.glob("mtgcn-ray-*")
        assert private.stat().st_mode & 0o077 == 0
        sockets = {at.laddr for one in cluster for at in one.net_connections("unix") if str(at.laddr).startswith("/")}
        assert sockets
        assert all(address.startswith(f"{private}/") for address in sockets)
        [worker] = waiting_processes(signs)
        assert worker in [one.pid for one in cluster]
        os.kill(worker, signal.SIGKILL)
        (signs / "go").touch()
        out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, ""), errors
    assert "worker died" in errors  # printed by Ray
    first, second = waiting_processes(signs)
    assert first == worker != second
    wait_until(lambda: all_gone(cluster))

    assert finished(sweep.__file__, tmp_path / "serial", "--signs", signs) == (0, "", "")
    rows = rows_without_seconds(tmp_path / "ray")
    assert len({row["unit"] for row in rows}) == len(sweep.units(signs))
    assert rows == rows_without_seconds(tmp_path / "serial")


@on_ray
def test_killed_driver_leaves_no_task(tmp_path, signs, short_folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(short_folder))
    folder = tmp_path / "rows"
    with started(sweep.__file__, folder, "--signs", signs, "--ray", "local") as process:
        wait_until(lambda: waiting_processes(signs))
        if usable_cores() > 1:  # the other units finish beside the waiting one
            wait_until(lambda: has_rows(folder))
        # Ray's agents, which run no task, search their cluster for a minute or two before they end.
        at_work = [one for one in processes_of(process) if not one.cmdline()[0].strip().endswith("Agent")]
        assert len(at_work) < len(processes_of(process))
    wait_until(lambda: all_gone(at_work))
    before = (folder / "rows.jsonl").read_bytes()
    (signs / "go").touch()
    assert finished(sweep.__file__, folder, "--signs", signs) == (0, "", "")
    assert (folder / "rows.jsonl").read_bytes().startswith(before)
    assert len({row["unit"] for row in rows_without_seconds(folder)}) == len(sweep.units(signs))


@on_ray
@pytest.mark.usefixtures("clean_home")
def test_interrupt_ends_the_cluster(tmp_path):
    # lp is stored at once; mt-gcn takes long and is interrupted.
    command = ["reproduce", "--table", "digits", "--methods", "lp,mt-gcn", "--runs", "30", "--ray", "local"]
    folder = tmp_path / "rows"
    with started("-m", "mtgcn", *command, "--out", folder) as process:
        wait_until(lambda: has_rows(folder))
        cluster = processes_of(process)
        os.killpg(process.pid, signal.SIGINT)  # like a terminal: to all processes
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert errors.endswith("the same command resumes\nmtgcn: interrupted\n")
    assert len(errors.splitlines()) == 2
    wait_until(lambda: all_gone(cluster))


@contextmanager
def existing_cluster(folder, version=None):
    """A cluster started by `ray start`: its address, and the environment with its token."""
    admitted = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on the loopback address
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = f"import ray, sys; ray.__version__ = {version!r} or ray.__version__; from ray.scripts.scripts import main"
    options = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    ports = ["--min-worker-port=0", "--max-worker-port=0", f"--temp-dir={folder}"]
    with started("-c", f"{program}; main()", *options, *ports, env=admitted) as head:
        try:
            wait_until(lambda: head.poll() is not None or "Ray runtime started" in head.stdout.readline())
            assert head.poll() is None, head.stderr.read()
            yield f"127.0.0.1:{port}", admitted
        finally:
            members = processes_of(head)
            head.terminate()
            head.communicate(timeout=60)
            for member in members:  # left behind by ray start
                if member.is_running():
                    member.kill()


@on_ray
def test_existing_cluster_gives_the_same_rows(tmp_path, short_folder):
    with existing_cluster(short_folder) as (address, admitted):
        status, out, errors = finished(*SWEEP, "--ray", address, "--out", tmp_path / "ray", env=admitted)
        assert status == 0, errors
        assert finished(*SWEEP, "--workers", 1, "--out", tmp_path / "serial")[0] == 0
        rows = rows_without_seconds(tmp_path / "ray")
        assert len(rows) == 16
        assert rows == rows_without_seconds(tmp_path / "serial")

        stranger = {name: value for name, value in admitted.items() if not name.startswith("RAY_AUTH")}
        status, out, errors = finished(*SWEEP, "--ray", address, "--out", tmp_path / "stranger", env=stranger)
        assert (status, out, len(errors.splitlines())) == (2, "", 1)
        assert f"the cluster at {address} requires its token; set RAY_AUTH_MODE=token" in errors


@on_ray
def test_cluster_of_another_version(tmp_path, short_folder):
    with existing_cluster(short_folder, version="2.1.0") as (address, admitted):
        status, out, errors = finished(*SWEEP, "--ray", address, "--out", tmp_path / "rows", env=admitted)
    assert (status, out) == (2, "")
    assert len(errors.splitlines()) == 1
    assert f"at {address}: Version mismatch: The cluster was started with: Ray: 2.1.0 Python: " in errors


def cluster_of(*resources):
    nodes = ({"NodeID": str(number), "NodeManagerAddress": str(number)} for number in range(len(resources)))
    named = (node | {"NodeManagerHostname": "n", "Resources": one} for node, one in zip(nodes, resources, strict=True))
    return RayCluster("head:6379", tuple(named))


def test_units_at_a_time():
    cluster = cluster_of({"CPU": 7.0}, {"CPU": 4.0, "GPU": 3.0}, {"GPU": 1.0}, {})
    assert cluster.at_a_time("cpu", threads=2) == 3 + 2
    assert cluster.at_a_time("cpu", threads=5) == 1
    assert cluster.at_a_time("cuda (some model)", threads=2) == 2
    with pytest.raises(InputError, match="no node of the Ray cluster head:6379 has 8 CPUs; lower --threads"):
        cluster.at_a_time("cpu", threads=8)
    with pytest.raises(InputError, match="has 5 CPUs and a GPU"):
        cluster.at_a_time("cuda (some model)", threads=5)


@pytest.fixture
def gpus(monkeypatch):
    """GPU models by node, as nodes report them."""
    models = {"1": "cuda (A)", "2": "cuda (A)"}
    monkeypatch.setattr(RayCluster, "_asked", lambda _, node, for_gpu: models[node["NodeID"]] if for_gpu else "cpu")
    return models


ONE_CPU = cluster_of({"CPU": 2.0})
TWO_GPUS = cluster_of({"CPU": 2.0}, {"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0, "GPU": 1.0})


@pytest.mark.parametrize(
    ("cluster", "name", "device"),
    [
        *((TWO_GPUS, name, "cuda (A)") for name in ("auto", "cuda")),
        *((cluster, "cpu", "cpu") for cluster in (ONE_CPU, TWO_GPUS)),
        (ONE_CPU, "auto", "cpu"),
    ],
)
@pytest.mark.usefixtures("gpus")
def test_chosen_device(cluster, name, device):
    assert cluster.chosen_device(name) == device


@pytest.mark.parametrize(
    ("cluster", "name", "message"),
    [
        (ONE_CPU, "cuda", "'cuda' asked for, but the Ray cluster head:6379 has no GPU; use cpu or auto"),
        (TWO_GPUS, "auto", r"the GPU models cuda \(A\) on n \(1\), cuda \(B\) on n \(2\) round differently"),
        (TWO_GPUS, "gpu", "unknown device 'gpu'"),
    ],
)
def test_invalid_device(gpus, cluster, name, message):
    gpus["2"] = "cuda (B)"
    with pytest.raises(InputError, match=message):
        cluster.chosen_device(name)


class StandIn(ModuleType):
    """The part of Ray that we use: remote tasks run in this process when their outcome is requested."""

    def __init__(self):
        super().__init__("ray")
        self.kept = []

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
    """Stands for these errors of Ray."""


ERRORS = ("NodeDiedError", "OutOfMemoryError", "RayError", "WorkerCrashedError")


@pytest.fixture
def stand_in(monkeypatch):
    ray = StandIn()
    parts = {
        "ray": ray,
        "ray.exceptions": SimpleNamespace(**dict.fromkeys(ERRORS, Lost)),
        "ray.util.scheduling_strategies": SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node),
    }
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setattr(module, "keep_freed_blocks", lambda: None)
    return ray


@pytest.fixture
def units():
    return list(plan(Selection(tables=["digits"], methods=["lp"], runs=1)).units)


def without_seconds(outcomes):
    return [(unit, [replace(row, seconds=0) for row in rows]) for unit, rows in outcomes]


def test_own_methods_can_be_sent():
    cloudpickle = pytest.importorskip("ray.cloudpickle")

    @dataclass(frozen=True, kw_only=True)
    class Own(Method):
        def fit(self, task):
            return task

    assert cloudpickle.loads(cloudpickle.dumps(Own())).fit(7) == 7


def test_graph_is_sent_once(stand_in, units):
    found = cluster_of({"CPU": 2.0}).execute(units)
    assert without_seconds(found) == without_seconds(in_processes(units))
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
    assert str(outcomes[lost]).startswith("its worker was lost 4 times, probably out of memory; start the same")
    assert len(outcomes[other]) == 1


@pytest.mark.usefixtures("stand_in")
def test_late_node_with_other_versions(units):
    outcome = run_unit(units[0], [], None, module.decisive_versions() | {"torch": "1.0.0"})
    assert isinstance(outcome, InputError)
    assert "this process has 1.0.0; install the same version" in str(outcome)


@pytest.mark.usefixtures("stand_in")
def test_silent_node(monkeypatch):
    def never(for_gpu):
        raise Lost("Get timed out")

    assert cluster_of({"CPU": 2.0}).chosen_device("cpu") == "cpu"
    monkeypatch.setattr(module, "describe_node", never)
    message = r"node n \(0\) of the Ray cluster head:6379 cannot run mtgcn: Get timed out; check"
    with pytest.raises(InputError, match=message):
        cluster_of({"CPU": 2.0}).chosen_device("cpu")


@pytest.mark.parametrize(
    "address",
    ["somewhere", "ray://head:10001", "head:port", "", "127.0.0.1:0", "127.0.0.1:99999", "missing.invalid:1", None],
)
def test_unreachable_address(address):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listening
        given = f"127.0.0.1:{closed.getsockname()[1]}" if address is None else address
        why = "Connection refused" if address is None else ".*"
        message = rf"no Ray cluster can be reached at '{given}' \({why}\); give HOST:PORT as ray start"
        with pytest.raises(InputError, match=message):
            check_reachable(given)


def test_silent_port_times_out(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(module, "SECONDS_TO_JOIN", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"no answer from a Ray cluster at {address} within 2 s"):
            check_reachable(address)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Traceback\nray.exceptions.AuthenticationError: InvalidAuthToken\n\n", " requires its token; set RAY_AUTH"),
        ("Traceback\n  line 1\nValueError: no raylet here\n", ": ValueError: no raylet here; this machine must be"),
        ("RuntimeError: Version mismatch: with\n  Ray: 2.1.0\n", ": Version mismatch: with Ray: 2.1.0; this machine"),
        ("", ": it ended without a message; this machine"),
    ],
)
def test_errors_of_ray_become_one_line(output, message, monkeypatch):
    monkeypatch.setattr(module, "_TRIAL", f"import sys; sys.stderr.write({output!r}); sys.exit(1)")
    with pytest.raises(InputError, match=f"at auto{message}") as refused:
        check_reachable("auto")
    assert "\n" not in str(refused.value)
