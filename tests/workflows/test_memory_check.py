"""Out of memory: refused before time is spent or, where the guess was wrong, told in the same words."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.workflows import memory_check
from mtgcn.workflows.memory_check import available_bytes, needed_bytes, within_memory

CPU = torch.device("cpu")
MTGCN = create("mt-gcn", hidden_channels=64)


@pytest.fixture
def free(monkeypatch):
    """Sets how much memory seems to be free."""

    def seems(share, graph):
        needed = needed_bytes(MTGCN, memory_check.one_run(graph, CPU))
        monkeypatch.setattr(memory_check, "available_bytes", lambda _: int(share * needed))

    return seems


def test_what_fits_passes(make_graph, free):
    graph = make_graph()
    free(1.0, graph)
    reached = False
    with within_memory(graph, MTGCN, CPU):
        reached = True
    assert reached


def test_what_does_not_fit_is_refused_before_it_is_tried(make_graph, free):
    graph = make_graph(nodes=400)
    free(0.5, graph)
    tried = False
    refused = pytest.raises(InputError, match="out of memory: fitting 400 nodes takes about")
    with refused as error, within_memory(graph, MTGCN, CPU):
        tried = True
    assert not tried
    width = int(re.search(r"--set hidden_channels=(\d+) or a graph of about (\d+) nodes", str(error.value))[1])
    assert 2 <= width <= 32
    assert "about 200 nodes" in str(error.value)


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError("Unable to allocate 8 GiB"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried …"),
    ],
)
def test_what_did_not_fit_after_all_says_what_would(make_graph, failure):
    told = r"out of memory while fitting 40 nodes, .*; what would fit: --set hidden_channels"
    with pytest.raises(InputError, match=told), within_memory(make_graph(), MTGCN, CPU):
        raise failure


def test_another_failure_stays_what_it_is(make_graph):
    with pytest.raises(RuntimeError, match="shapes do not match"), within_memory(make_graph(), MTGCN, CPU):
        raise RuntimeError("shapes do not match")


def test_torch_itself_says_what_is_recognised(make_graph):
    with pytest.raises(InputError, match="out of memory while fitting"), within_memory(make_graph(), MTGCN, CPU):
        torch.empty(2**62 - 1, dtype=torch.uint8)


def test_numpy_itself_says_what_is_recognised(make_graph):
    with pytest.raises(InputError, match="out of memory while fitting"), within_memory(make_graph(), MTGCN, CPU):
        np.empty(2**62, dtype=np.uint8)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells")
@pytest.mark.parametrize(
    "shape", [(60_000, 240_000, 20), (20_000, 40_000, 300)], ids=["edges decide", "features decide"]
)
def test_a_fit_takes_what_was_said(shape, tmp_path):
    program = f"""
import numpy as np, scipy.sparse as sp, torch
from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.workflows.memory_check import needed_bytes
from mtgcn.splits import Split
from mtgcn.task import observe

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

nodes, edges, features = {shape}
random = np.random.default_rng(0)
one, other = random.integers(nodes, size=(2, edges))
adjacency = sp.csr_array((np.ones(edges, np.float32), (one, other)), shape=(nodes, nodes))
labels = np.where(np.arange(nodes) < 20, np.arange(nodes) % 4, -1)
graph = Graph(adjacency.maximum(adjacency.T), random.random((nodes, features), dtype=np.float32), labels)
method = create("mt-plus", infomax_epochs=1, rounds=1)
task = observe(graph, [Split(graph.known, [], [])], seed=0)
torch.set_num_threads(1)
torch.ones(500, 500) @ torch.ones(500, 500)  # what the library itself takes
before = peak()
fit_in_chunks(method, task)
print((peak() - before) / needed_bytes(method, task))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"MTGCN_CACHE": str(tmp_path)},
    )
    assert 0.6 < float(done.stdout) < 1.2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells")
def test_the_limit_of_a_process_counts():
    program = (
        "import resource, torch; from mtgcn.workflows.memory_check import available_bytes\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)\n"
        "print(available_bytes(torch.device('cpu')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0.9 * 2**30 < int(done.stdout) <= 2**30
    assert available_bytes(CPU) > 0
