"""What a sweep runs on is what was asked for, and what cannot be is told first."""

import importlib.util

import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import ray_cluster
from mtgcn.experiments.executors import default_workers, in_this_process
from mtgcn.experiments.machines import machines


def test_processes_of_this_machine():
    with machines("cpu", threads=1, workers=3) as found:
        assert (found.device, found.at_a_time) == ("cpu", 3)
        assert found.executor(1) is in_this_process
        assert found.executor(2) is not in_this_process
    with machines("cpu", threads=1) as found:
        assert found.at_a_time == default_workers("cpu", 1)


def test_processes_of_this_machine_and_a_cluster_are_not_both():
    with pytest.raises(InputError, match="--workers 2 are processes of this machine, and --ray local takes as many"):
        machines("cpu", threads=1, workers=2, ray="local").__enter__()


def test_ray_may_be_missing(monkeypatch):
    monkeypatch.setattr(
        ray_cluster, "find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name)
    )
    with pytest.raises(
        InputError, match=r"--ray needs the package ray, which is not installed; pip install 'mtgcn\[ray\]'"
    ):
        machines("cpu", threads=1, ray="local").__enter__()
