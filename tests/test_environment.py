import subprocess
import sys

import pytest
import torch

from mtgcn import environment
from mtgcn.environment import SMALL_STACK, check_versions, fixed_threads, free_cores, threads_for
from mtgcn.errors import InputError


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_check_versions():
    here = {"mtgcn": "1.2.3", "torch": "2.13.0"}
    check_versions(here | {"python": "3.11.2"}, here, "node n")
    with pytest.raises(InputError, match=r"node n has torch 2\.12\.1, this process has 2\.13\.0; install the"):
        check_versions({"mtgcn": "1.2.3", "torch": "2.12.1"}, here, "node n")


@pytest.mark.parametrize("free", [1, 2])
@pytest.mark.parametrize("size", [SMALL_STACK - 1, SMALL_STACK, 0])  # 0 bytes: the size is unknown
def test_threads_for_stack(two_threads, monkeypatch, size, free):
    monkeypatch.setattr(environment, "free_cores", lambda most: min(most, free))
    with threads_for(size):
        assert torch.get_num_threads() == (1 if 0 < size < SMALL_STACK else free)
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), threads_for(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2
    with fixed_threads(2), threads_for(size):
        assert torch.get_num_threads() == (1 if 0 < size < SMALL_STACK else 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with threads_for(SMALL_STACK):
        assert torch.get_num_threads() == 2


def test_busy_machine_leaves_one_core(two_threads):
    assert free_cores(1) == 1
    cores = len(environment.os.sched_getaffinity(0)) if sys.platform == "linux" else environment.os.cpu_count()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * cores)]
    try:
        with threads_for(SMALL_STACK):
            assert torch.get_num_threads() == 1
    finally:
        for process in busy:
            process.kill()
            process.wait()
