"""Units mapped over a Ray cluster: as many machines as it has, and the same rows.

This process alone reads data and writes rows. Each graph is put into the cluster's object store once; a unit is a
task that declares the CPUs or the GPU it takes, and one whose worker is lost is run again elsewhere.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from mtgcn.environment import DEVICES, device_title
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments.executors import Outcome, usable_cores
from mtgcn.experiments.ray_address import check_reachable
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.units import Data, Unit, data_of, decisive_versions, execute
from mtgcn.graph import Graph
from mtgcn.memory import keep_freed_blocks
from mtgcn.splits import Split

if TYPE_CHECKING:
    from ray import ObjectRef

LOCAL = "local"  # the address of a cluster that is started on this machine, and ends with the command
RETRIES = 3  # of a unit whose worker was lost; a unit that is too large for its machine would be lost again
SECONDS_TO_ANSWER = 60  # for a node that is asked what it has: a worker starts there and imports torch
LONGEST_SOCKET_FOLDER = 38  # bytes: a socket's whole path has at most 107, and Ray's part of it is 68


@contextmanager
def ray_cluster(address: str) -> Iterator[RayCluster]:
    """The cluster at an address, or one of this machine; what was started, or is still running there, ends with it."""
    if find_spec("ray") is None:
        raise InputError(
            "--ray needs the package ray, which is not installed; pip install 'mtgcn[ray]', or leave it out"
        )
    if address != LOCAL:
        check_reachable(address)
    else:
        _keep_to_this_machine()
    import ray

    folder = None
    try:
        if address == LOCAL:
            folder = tempfile.mkdtemp(prefix="mtgcn-ray-", dir=_socket_folder())
            ray.init(LOCAL, num_cpus=usable_cores(), include_dashboard=False, _temp_dir=folder, **_SILENT)
        else:
            ray.init(address, **_SILENT)
        with redirect_stdout(sys.stderr):  # on which Ray tells of lost workers; the other is for results
            yield RayCluster(address, tuple(node for node in ray.nodes() if node["Alive"]))
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


_SILENT: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


def _keep_to_this_machine() -> None:
    """Read by Ray when it is imported and started: it listens on the loopback address alone, tells nobody of its use,
    and lets in nobody else of this machine, by a token that lives as long as this process and is written nowhere."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # which is how Ray is told, on any system, to use loopback
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _socket_folder() -> str | None:
    """Where to make a folder that sockets lie in; None: where temporary folders are made."""
    return (
        None
        if len(os.fsencode(tempfile.gettempdir())) <= LONGEST_SOCKET_FOLDER - len("/mtgcn-ray-01234567")
        else "/tmp"
    )


@dataclass(frozen=True)
class RayCluster:
    """A cluster this process is connected to."""

    address: str
    nodes: tuple[dict[str, Any], ...]  # as Ray describes them

    def chosen_device(self, name: str) -> str:
        """The device units run on, in words; `auto` is a GPU where the cluster has one. Every node is asked, so that
        one with other versions, whose rows would be other rows, is told before any time is spent."""
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
            raise InputError(f"GPUs of unlike models round otherwise: {models}; give a cluster of one, or --device cpu")
        return next(iter(titles))

    def at_a_time(self, device: str, threads: int) -> int:
        """How many units the cluster has room for."""
        room = 0
        for node in self.nodes:
            by_cores = int(self._has(node, "CPU") // threads)
            room += min(by_cores, int(self._has(node, "GPU"))) if device.startswith("cuda") else by_cores
        if not room:
            what = f"{threads} CPUs" + (" and a GPU" if device.startswith("cuda") else "")
            raise InputError(f"no node of the Ray cluster {self.address} has {what}; lower --threads, or give another")
        return room

    def execute(self, units: Sequence[Unit]) -> Generator[Outcome, None, None]:
        """Units in the order in which the cluster finishes them."""
        import ray

        task = ray.remote(max_retries=RETRIES)(run_unit)
        lent: dict[str, ObjectRef] = {}
        pending: dict[ObjectRef, Unit] = {}
        try:
            for unit in units:
                try:
                    data = data_of(unit)
                except InputError as error:
                    yield unit, error
                    continue
                if unit.dataset not in lent:
                    lent[unit.dataset] = ray.put(data.graph)
                wanted = task.options(num_cpus=unit.threads, num_gpus=int(unit.device.startswith("cuda")))
                # In a list the graph is named, not sent: a worker keeps what it fetched for the units that follow.
                started = wanted.remote(unit, [lent[unit.dataset]], data.public_split, decisive_versions())
                pending[started] = unit
            while pending:
                [done], _ = ray.wait(list(pending), num_returns=1)
                yield pending.pop(done), _outcome(done)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _asked(self, node: dict[str, Any], for_gpu: bool) -> str:
        """The device a node has, if it has the versions we have."""
        import ray
        from ray.exceptions import GetTimeoutError, RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(max_retries=RETRIES)(describe_node)
        # Next to nothing is declared, so that a node that is at work answers, too.
        asked = task.options(num_cpus=0, num_gpus=0.001 if for_gpu else 0, scheduling_strategy=there)
        name = self._name(node)
        try:
            versions, device = ray.get(asked.remote(for_gpu), timeout=SECONDS_TO_ANSWER)
        except GetTimeoutError:
            raise InputError(
                f"node {name} of the Ray cluster {self.address} has not answered for {SECONDS_TO_ANSWER} s; "
                "see whether it, or its GPU, is taken"
            ) from None
        except (RayError, ImportError) as error:
            last_line = str(error).strip().splitlines()[-1]
            raise InputError(
                f"node {name} of the Ray cluster {self.address} cannot run mtgcn: {last_line}; install mtgcn "
                f"{decisive_versions()['mtgcn']} there, for the Python that Ray runs on"
            ) from None
        check_versions(versions, decisive_versions(), name)
        if device is None:
            raise InputError(f"node {name} declares a GPU, but its torch finds none; install a torch for CUDA there")
        return device

    @staticmethod
    def _has(node: dict[str, Any], resource: str) -> float:
        return float(node["Resources"].get(resource, 0))

    @staticmethod
    def _name(node: dict[str, Any]) -> str:
        return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def _outcome(done: ObjectRef) -> list[StoredRow] | InputError:
    import ray
    from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

    try:
        return ray.get(done)
    except (NodeDiedError, OutOfMemoryError, WorkerCrashedError):
        return InputError(
            f"its worker was lost {RETRIES + 1} times, most likely for want of memory; start the same command on a "
            "cluster with more of it, what was finished is stored"
        )


def run_unit(
    unit: Unit, lent: list[ObjectRef], public_split: Split | None, versions: dict[str, str]
) -> list[StoredRow] | InputError:
    """On a worker: what `execute` gives, with an error that is this unit's alone as a value."""
    keep_freed_blocks()
    try:
        # A node may have joined after all others were asked.
        check_versions(decisive_versions(), versions, platform.node())
        return execute(unit, Data(_fetched(lent[0]), public_split))
    except InputError as error:
        return error


def describe_node(for_gpu: bool) -> tuple[dict[str, str], str | None]:
    """On a worker: versions that numbers depend on, and the device; None where a GPU was promised and is not there."""
    if for_gpu and not torch.cuda.is_available():
        return decisive_versions(), None
    return decisive_versions(), device_title(torch.device("cuda" if for_gpu else "cpu"))


def check_versions(there: dict[str, str], here: dict[str, str], node: str) -> None:
    """Refuse a node whose rows would be other rows."""
    for name, version in here.items():
        if there[name] != version:
            raise InputError(
                f"node {node} has {name} {there[name]} and this process {version}, so its rows would be others; "
                "install the same version in both places"
            )


@cache
def _fetched(lent: ObjectRef) -> Graph:
    """Once per worker, so that what is made once of a graph is made once there."""
    import ray

    return ray.get(lent)
