"""`mtgcn fit`: the summary, --check, and the memory check."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.methods import create
from mtgcn.uncertainty.peer_weights import contributions
from mtgcn.workflows import fit
from mtgcn.workflows.fit import Coverage, FitSummary, available_bytes, fit_files, summary_lines, within_memory
from weighted_peers import made_up_report

CPU = torch.device("cpu")
MTGCN = create("mt-gcn", hidden_channels=64)


# --check


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id;income;city;note\n"
        + "".join(f"n{row};{row * 1000},5;{'Ulm' if row % 2 else 'Hof'};t{row}\n" for row in range(30))
    )
    (tmp_path / "edges.csv").write_text("from;to\n" + "".join(f"n{row};n{(row + 2) % 30}\n" for row in range(30)))
    (tmp_path / "labels.csv").write_text("id;label\nn0;even\nn1;odd\nn2;NA\n")
    return TableOptions(*(tmp_path / f"{name}.csv" for name in ("edges", "nodes", "labels")))


def test_check_reports_and_writes_nothing(files, tmp_path):
    before = sorted(tmp_path.iterdir())
    found = fit_files(files, check=True, out=tmp_path / "model", method="gcn", device="cpu")
    assert (found.nodes, found.edges, found.features) == (30, 30, 3)
    assert found.labels == {"even": 1, "odd": 1}
    assert len(found.columns) == 3
    lines = list(summary_lines(found))
    assert "would fit   gcn on cpu" in lines
    assert (
        "accuracy    would be unknown: class 'even' has 1 label, and none can be held out; 2 of each class are needed"
        in lines
    )
    assert any(line.startswith("note") and "1 labels are words for a missing value ('NA')" in line for line in lines)
    assert any(line.startswith("warning") and "one label only" in line for line in lines)
    assert lines[-1].startswith("checked")
    assert json.loads(json.dumps(asdict(found)))["model"] is None
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gnc"}, "unknown method 'gnc'"),
        ({"classes": ["even", "odd", "third"]}, "class 'third' has no labelled node"),
        ({"method": "gcn", "settings": ["speed=3"]}, "unknown setting 'speed'"),
        ({"folds": 1}, "folds is 1; give at least 2"),
    ],
)
def test_check_refuses_what_a_fit_refuses(files, options, message):
    with pytest.raises(InputError, match=message):
        fit_files(files, check=True, **options)


# Summary


def summary(**changes):
    values = {"nodes": 3, "edges": 2, "features": 1, "columns": [], "coverage": Coverage(1, 1, 0, 0)}
    values |= {"labels": {"a": 1, "b": 1}, "method": "made-up", "device": "cpu", "notes": [], "warnings": []}
    values |= {"expected_accuracy": None, "why_no_expected_accuracy": "not measured", "mean_confidence": 0.5}
    values |= {"epochs": 0, "seconds": 0.1, "model": "model"}
    return FitSummary(**values | changes)


def test_summary_lists_the_four_largest_peer_weights():
    names = ("features", "infomax embeddings", "far neighbourhood", "near neighbourhood", "structure", "contrast")
    report = made_up_report(
        weights=(0.03, 0.41, 0.22, 0.2, 0.1, 0.04),
        names=names,
        held_out=(0.52, 0.71, 0.7, 0.69, 0.6, 0.4),
        agreement=(0.5,) * 6,
        teaching=0.2,
    )
    lines = [
        line for line in summary_lines(summary(peers=contributions(report), teaching=0.2)) if line.startswith("peers")
    ]
    assert len(lines) == 3  # who decides, the weights, a remark on teaching
    assert lines[1] == (
        "peers       infomax embeddings weight 41 % (held-out accuracy 71 %), far neighbourhood 22 % (70 %), "
        "near neighbourhood 20 % (69 %), structure 10 % (60 %) and 2 more; features alone 52 %"
    )
    assert not any(line.startswith("peers") for line in summary_lines(summary()))


def test_summary_lists_columns_up_to_a_limit():
    lines = list(summary_lines(summary(columns=[f"f{number}: yes or no" for number in range(25)])))
    assert "column      f0: yes or no" in lines
    assert sum(line.startswith("column") for line in lines) == 21
    assert "column      … and 5 more; --json lists all" in lines


# Memory


@pytest.fixture
def set_free_memory(monkeypatch):
    """Sets the free memory to a share of what MT-GCN needs on a graph."""

    def set_share(share, graph):
        _, needed, _ = fit.check_memory(graph, MTGCN, CPU)
        monkeypatch.setattr(fit, "available_bytes", lambda _: int(share * needed))

    return set_share


def test_a_fit_that_just_fits_is_tried(make_graph, set_free_memory):
    graph = make_graph()
    set_free_memory(1.0, graph)
    with within_memory(graph, MTGCN, CPU):
        pass


def test_a_fit_that_does_not_fit_is_refused(make_graph, set_free_memory):
    graph = make_graph(nodes=400)
    set_free_memory(0.5, graph)
    refused = pytest.raises(InputError, match=r"out of memory: fitting 400 nodes with .* needs about")
    with refused as error, within_memory(graph, MTGCN, CPU):
        pytest.fail("tried")
    width = int(re.search(r"--set hidden_channels=(\d+) or a graph of about (\d+) nodes", str(error.value))[1])
    assert 2 <= width <= 32
    assert "about 200 nodes" in str(error.value)


def fail(error):
    raise error


WHAT_WOULD_FIT = r"out of memory while fitting 40 nodes with .*; what would fit: --set hidden_channels"


@pytest.mark.parametrize(
    ("allocate", "message"),
    [
        (lambda: fail(MemoryError("Unable to allocate 8 GiB")), WHAT_WOULD_FIT),
        (lambda: fail(torch.OutOfMemoryError("CUDA out of memory")), WHAT_WOULD_FIT),
        (lambda: torch.empty(2**62 - 1, dtype=torch.uint8), WHAT_WOULD_FIT),
        (lambda: np.empty(2**62, dtype=np.uint8), WHAT_WOULD_FIT),
        (lambda: fail(RuntimeError("shapes do not match")), "^shapes do not match$"),
    ],
    ids=["Python", "CUDA", "torch", "NumPy", "another error"],
)
def test_running_out_of_memory_says_what_would_fit(make_graph, allocate, message):
    with pytest.raises((InputError, RuntimeError), match=message), within_memory(make_graph(), MTGCN, CPU):
        allocate()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("shape", [(60_000, 240_000, 20), (20_000, 40_000, 300)], ids=["many edges", "many features"])
def test_memory_estimate_is_close_to_the_peak(shape, tmp_path):
    program = f"""
import numpy as np, scipy.sparse as sp, torch
from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.workflows.fit import needed_bytes
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
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_respects_the_limit_of_the_process():
    program = (
        "import resource, torch; from mtgcn.workflows.fit import available_bytes\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)\n"
        "print(available_bytes(torch.device('cpu')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0.9 * 2**30 < int(done.stdout) <= 2**30
    assert available_bytes(CPU) > 0
