import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from mtgcn import memory
from mtgcn.errors import InputError
from mtgcn.memory import CPU_BUDGET, check_fits, default_budget, free_bytes, readable

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="calls glibc")


@pytest.mark.parametrize(
    ("machine", "process", "free"), [(3000, 2000, 2000), (3000, None, 3000), (None, None, memory.UNKNOWN_LIMIT)]
)
def test_free_bytes_is_the_least_limit(monkeypatch, machine, process, free):
    monkeypatch.setattr(memory, "_machine_free", lambda: machine)
    monkeypatch.setattr(memory, "_container_free", lambda: None)
    monkeypatch.setattr(memory, "_process_free", lambda: process)
    assert free_bytes() == free


def test_check_fits_reports_both_sizes(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 2**30)
    check_fits(2**30, "a graph", "give a smaller one")
    message = "^a graph takes about 2.0 GiB and 1.0 GiB of memory are free; give a smaller one$"
    with pytest.raises(InputError, match=message):
        check_fits(2**31, "a graph", "give a smaller one")


def test_readable_beyond_64_bits():
    assert readable(10**40) == "more memory than any machine has"


def test_default_budget_on_cpu():
    assert default_budget(torch.device("cpu")) == CPU_BUDGET


PROGRAM = """
import numpy as np
from mtgcn import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

{before}
start = resident()
blocks = [np.ones(2**20, np.float32) for _ in range(40)]  # of 4 MiB
taken = resident() - start
del blocks[::2]
kept = resident() - start > 0.9 * taken
{after}
print(taken > 150 * 2**20, kept, resident() - start < 0.6 * taken)
"""


@linux_only
@pytest.mark.parametrize(
    ("before", "after", "kept", "returned"),
    [
        ("memory.return_freed_blocks()", "", False, True),
        ("memory.keep_freed_blocks(); memory.LARGE_PROCESS = 2**20", "memory.trim_freed_blocks()", True, True),
        ("memory.keep_freed_blocks(); memory.LARGE_PROCESS = 2**40", "memory.trim_freed_blocks()", True, False),
    ],
)
def test_freed_blocks_of_a_process(before, after, kept, returned):
    program = PROGRAM.format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"True {kept} {returned}\n"


@pytest.mark.parametrize("library", [None, SimpleNamespace()])
def test_trim_without_glibc(library, monkeypatch):
    monkeypatch.setattr(memory, "_keeps_freed_blocks", True)
    monkeypatch.setattr(memory, "LARGE_PROCESS", 0)
    monkeypatch.setattr(memory, "_glibc", lambda: library)
    memory.trim_freed_blocks()


def test_fit_does_not_change_malloc(two_runs, monkeypatch):
    from mtgcn.methods import create

    def refuse(_):
        raise AssertionError("the C library was called")

    monkeypatch.setattr("ctypes.CDLL", refuse)
    create("mt-gcn", warmup_epochs=2, teaching_epochs=2).fit(two_runs)
    if sys.platform == "linux":
        with pytest.raises(AssertionError, match="was called"):
            memory.keep_freed_blocks()
