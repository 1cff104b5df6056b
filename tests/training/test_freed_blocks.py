"""Freed memory is kept by our own commands and workers, never by a fit in somebody's program."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from mtgcn.cli import app as cli
from mtgcn.experiments import executors
from mtgcn.training import freed_blocks
from mtgcn.training.freed_blocks import keep_freed_blocks


@pytest.mark.slow
def test_memory_can_be_taken_and_freed_while_blocks_are_kept():
    program = (
        "from mtgcn.training.freed_blocks import keep_freed_blocks\nkeep_freed_blocks()\nimport torch\n"
        "print(sum(float(torch.ones(2**20).sum()) for _ in range(5)) == 5 * 2**20)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is asked")
def test_glibc_is_told_to_map_nothing_and_to_trim_never(monkeypatch):
    told = {}

    class Library:
        def __init__(self, name):
            self.mallopt = told.__setitem__

    monkeypatch.setattr("ctypes.CDLL", Library)
    keep_freed_blocks()
    # M_MMAP_MAX and M_TRIM_THRESHOLD of malloc.h.
    assert told == {-4: 0, -1: 2**31 - 1}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is asked")
def test_freed_blocks_of_a_mebibyte_go_back():
    program = """
import torch
from mtgcn.training.freed_blocks import return_freed_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

return_freed_blocks()
before = resident()
blocks = [torch.ones(2**20) for _ in range(40)]  # of 4 MiB
taken = resident() - before
del blocks[::2]
print(taken > 150 * 2**20, resident() - before < 0.6 * taken)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is asked")
@pytest.mark.parametrize(("kept", "large"), [(True, True), (False, True), (True, False)])
def test_holes_of_a_large_process_go_back_where_blocks_are_kept(kept, large):
    program = f"""
import torch
from mtgcn.training import freed_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

freed_blocks.keep_freed_blocks()
freed_blocks._kept, freed_blocks.LARGE_PROCESS = {kept}, 2**20 if {large} else 2**40
before = resident()
blocks = [torch.ones(2**20) for _ in range(40)]  # of 4 MiB
taken = resident() - before
del blocks[::2]
holes = resident() - before > 0.9 * taken
freed_blocks.give_back_free_blocks()
print(holes, resident() - before < 0.6 * taken)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"True {kept and large}\n"


@pytest.mark.parametrize("has_trim", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_only_a_c_library_that_can_is_asked_to_give_blocks_back(is_there, has_trim, monkeypatch):
    asked = []
    library = SimpleNamespace(malloc_trim=asked.append) if has_trim else SimpleNamespace()
    monkeypatch.setattr(freed_blocks, "_kept", True)
    monkeypatch.setattr(freed_blocks, "resident_bytes", lambda: freed_blocks.LARGE_PROCESS + 1)
    monkeypatch.setattr(freed_blocks, "_glibc", lambda: library if is_there else None)
    freed_blocks.give_back_free_blocks()
    assert asked == ([0] if is_there and has_trim else [])


@pytest.fixture
def asked(monkeypatch):
    calls = []
    for module in (cli, executors):
        monkeypatch.setattr(module, "keep_freed_blocks", lambda: calls.append(True))
    return calls


def test_commands_and_workers_ask_for_it(asked, capsys, monkeypatch):
    assert cli.main(["--version"]) == 0
    assert len(asked) == 1
    monkeypatch.setattr(executors, "_exit_with", lambda _: None)
    executors._start_worker(None)
    assert len(asked) == 2


def test_a_fit_leaves_the_memory_of_its_process_alone(two_runs, monkeypatch):
    from mtgcn.methods import create

    class NoMallopt:
        def __init__(self, _):
            raise AssertionError("the C library was asked for")

    monkeypatch.setattr("ctypes.CDLL", NoMallopt)
    create("mt-gcn", warmup_epochs=2, teaching_epochs=2).fit(two_runs)
    if sys.platform == "linux":
        with pytest.raises(AssertionError, match="asked for"):
            keep_freed_blocks()
