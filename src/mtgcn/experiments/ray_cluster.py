"""Executes units on a Ray cluster, with the same rows as in this process.

Only this process reads data and writes rows. Each graph is put into the cluster's object store once. A unit is a task
that declares its CPUs or GPU; if its worker is lost, it runs again elsewhere.
"""

from __future__ import annotations

import math
import os
import platform
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import torch

from mtgcn.environment import DEVICES, check_versions, device_title
from mtgcn.errors import InputError, reason, shown, unknown_name
from mtgcn.experiments.plan import Outcome, Unit, data_of, decisive_versions, execute, usable_cores
from mtgcn.experiments.store import StoredRow
from mtgcn.graph import Graph
from mtgcn.memory import keep_freed_blocks
from mtgcn.splits import Split

if TYPE_CHECKING:
    from ray import ObjectRef

LOCAL = "local"  # starts a cluster on this machine that ends with the command
RUNNING_HERE = "auto"  # Ray's name for the cluster that runs on this machine
RETRIES = 3  # retries of a unit whose worker was lost
SECONDS_TO_CONNECT = 5
SECONDS_TO_JOIN = 60
SECONDS_TO_ANSWER = 60  # time for a node to start a worker and import torch
LONGEST_TEMPORARY_FOLDER = 17  # bytes: the path of a socket has at most 107, of which Ray uses 68, our folders 22
_TRIAL = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='error'); ray.shutdown()"


@contextmanager
def ray_cluster(address: str) -> Iterator[RayCluster]:
    """Join the cluster at an address, or start one here. Its tasks, or the started cluster, end with the context."""
    if find_spec("ray") is None:
        raise InputError("--ray needs the package ray, which is not installed; pip install 'mtgcn[ray]', or omit --ray")
    if address != LOCAL:
        check_reachable(address)
    else:
        # Ray reads these when it is imported: only the loopback address on any system, no usage statistics, and a
        # token that exists only in this process, so that other users of the machine cannot connect.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    with ExitStack() as joined:
        if address == LOCAL:
            is_short = len(os.fsencode(gettempdir())) <= LONGEST_TEMPORARY_FOLDER
            place = None if is_short else "/tmp"
            folder = TemporaryDirectory(prefix="mtgcn-ray-", dir=place, ignore_cleanup_errors=True)
            # Ray opens the inner folder to all users; the outer folder keeps them out.
            inner = os.path.join(joined.enter_context(folder), "r")
            options |= {"num_cpus": usable_cores(), "include_dashboard": False, "_temp_dir": inner}
        joined.callback(ray.shutdown)
        ray.init(address, **options)
        joined.enter_context(redirect_stdout(sys.stderr))  # Ray prints on lost workers, but stdout is for results
        yield RayCluster(address, tuple(node for node in ray.nodes() if node["Alive"]))


@dataclass(frozen=True)
class RayCluster:
    """A cluster that this process has joined."""

    address: str
    nodes: tuple[dict[str, Any], ...]  # as Ray describes them

    def chosen_device(self, name: str) -> str:
        """The title of the device that units run on; `auto` prefers a GPU.

        Every node is queried first, so that a node with other versions is refused before any unit runs.
        """
        if name not in DEVICES:
            raise unknown_name("device", name, DEVICES)
        gpus = [node for node in self.nodes if self._has(node, "GPU")]
        if name == "cuda" and not gpus:
            raise InputError(f"device 'cuda' asked for, but the Ray cluster {self.address} has no GPU; use cpu or auto")
        on_gpu = bool(gpus) and name != "cpu"
        titles = {self._asked(node, on_gpu and node in gpus): self._name(node) for node in self.nodes}
        if not on_gpu:
            return "cpu"
        titles.pop("cpu", None)
        if len(titles) > 1:
            models = ", ".join(f"{title} on {name}" for title, name in sorted(titles.items()))
            raise InputError(f"the GPU models {models} round differently; use a cluster of one, or --device cpu")
        return next(iter(titles))

    def at_a_time(self, device: str, threads: int) -> int:
        """Number of units that run at the same time."""
        on_gpu = device.startswith("cuda")
        room = sum(
            int(min(self._has(node, "CPU") // threads, self._has(node, "GPU") if on_gpu else math.inf))
            for node in self.nodes
        )
        if not room:
            what = f"{threads} CPUs" + " and a GPU" * on_gpu
            raise InputError(f"no node of the Ray cluster {self.address} has {what}; lower --threads, or use another")
        return room

    def execute(self, units: Sequence[Unit]) -> Generator[Outcome, None, None]:
        """Yield units in the order in which the cluster finishes them."""
        import ray
        from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

        task = ray.remote(max_retries=RETRIES)(run_unit)
        graphs: dict[str, ObjectRef] = {}
        pending: dict[ObjectRef, Unit] = {}
        for unit in units:
            try:
                graph, public_split = data_of(unit)
            except InputError as error:
                yield unit, error
                continue
            if unit.dataset not in graphs:
                graphs[unit.dataset] = ray.put(graph)
            wanted = task.options(num_cpus=unit.threads, num_gpus=int(unit.device.startswith("cuda")))
            # In a list, Ray passes the reference on unresolved, and the worker caches the graph that it fetches.
            started = wanted.remote(unit, [graphs[unit.dataset]], public_split, decisive_versions())
            pending[started] = unit
        while pending:
            [done], _ = ray.wait(list(pending), num_returns=1)
            unit = pending.pop(done)
            try:
                yield unit, ray.get(done)
            except (NodeDiedError, OutOfMemoryError, WorkerCrashedError):
                lost = f"its worker was lost {RETRIES + 1} times, probably out of memory"
                remedy = "start the same command on a cluster with more memory; finished units are kept"
                yield unit, InputError(f"{lost}; {remedy}")

    def _asked(self, node: dict[str, Any], for_gpu: bool) -> str:
        """Query the device of a node and check its versions."""
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(max_retries=RETRIES)(describe_node)
        # Almost no resources, so that a busy node answers too.
        asked = task.options(num_cpus=0, num_gpus=0.001 if for_gpu else 0, scheduling_strategy=there)
        name = self._name(node)
        try:
            versions, device = ray.get(asked.remote(for_gpu), timeout=SECONDS_TO_ANSWER)
        except (RayError, ImportError) as error:  # includes timeouts
            last_line = str(error).strip().splitlines()[-1]
            raise InputError(
                f"node {name} of the Ray cluster {self.address} cannot run mtgcn: {last_line}; check that it is "
                f"not busy, and install mtgcn {decisive_versions()['mtgcn']} there, for the Python that Ray runs on"
            ) from None
        check_versions(versions, decisive_versions(), f"node {name}")
        if device is None:
            raise InputError(f"node {name} declares a GPU, but its torch finds none; install a torch for CUDA there")
        return device

    @staticmethod
    def _has(node: dict[str, Any], resource: str) -> float:
        return float(node["Resources"].get(resource, 0))

    @staticmethod
    def _name(node: dict[str, Any]) -> str:
        return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def run_unit(
    unit: Unit, graph: list[ObjectRef], public_split: Split | None, versions: dict[str, str]
) -> list[StoredRow] | InputError:
    """Execute a unit on a worker; an error of the unit is returned."""
    keep_freed_blocks()
    try:
        # This node may have joined after the others were queried.
        check_versions(decisive_versions(), versions, f"node {platform.node()}")
        return execute(unit, (_fetched(graph[0]), public_split))
    except InputError as error:
        return error


def describe_node(for_gpu: bool) -> tuple[dict[str, str], str | None]:
    """Versions and device of a worker; the device is None if the declared GPU is missing."""
    missing = for_gpu and not torch.cuda.is_available()
    return decisive_versions(), None if missing else device_title(torch.device("cuda" if for_gpu else "cpu"))


@cache
def _fetched(graph: ObjectRef) -> Graph:
    """The graph of a reference, cached per worker with everything that is computed once per graph."""
    import ray

    return ray.get(graph)


def check_reachable(address: str) -> None:
    """Raise within a bounded time if this process cannot join a Ray cluster at the address.

    Ray itself waits for minutes, cannot be interrupted and prints a lot. So a plain connection detects a closed port,
    and a subprocess, which can be killed, joins the cluster first.
    """
    if address != RUNNING_HERE:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
        except (OSError, OverflowError, ValueError) as error:
            raise InputError(
                f"no Ray cluster can be reached at {shown(address)} ({reason(error)}); give HOST:PORT as ray start "
                f"printed it on the head node, {RUNNING_HERE} for the cluster on this machine, or local to start one"
            ) from None
    try:
        command = [sys.executable, "-c", _TRIAL, address]
        trial = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_JOIN, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"no answer from a Ray cluster at {address} within {SECONDS_TO_JOIN} s; give the address "
            "that ray start printed on the head node, usually with port 6379"
        ) from None
    if not trial.returncode:
        return
    if "InvalidAuthToken" in trial.stderr:
        raise InputError(
            f"the cluster at {address} requires its token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or "
            "RAY_AUTH_TOKEN_PATH, as on the machine where it was started"
        )
    lines = trial.stderr.strip().splitlines() or ["it ended without a message"]
    versions = re.search("Version mismatch.*", trial.stderr, re.DOTALL)
    raise InputError(
        f"cannot join the Ray cluster at {address}: {' '.join((versions[0] if versions else lines[-1]).split())}; this "
        "machine must be a node of it, with the same Ray and Python, which ray start --address=HOST:PORT makes it"
    )
