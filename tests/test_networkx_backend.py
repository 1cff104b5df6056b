"""The backend is found by its entry point, so networkx runs in a process whose path has the entry points of
pyproject.toml."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("networkx")
ROOT = Path(__file__).parent.parent

COMPARED = """
import sys
import networkx as nx
import numpy as np
from networkx.algorithms import node_classification

for seed in range(60):
    random = np.random.default_rng(seed)
    graph = [nx.gnp_random_graph, nx.barabasi_albert_graph][seed % 2](30, [0.08, 2][seed % 2], seed=seed)
    graph = nx.relabel_nodes(graph, {node: f"n{node}" for node in random.permutation(30).tolist()})
    if seed % 3 == 0:
        nx.set_edge_attributes(graph, {edge: random.uniform(0.1, 5) for edge in graph.edges}, "weight")
        graph.add_edge("n3", "n3", weight=2.0)
    if seed % 5 == 0:
        graph = nx.MultiGraph([*graph.edges, *graph.edges])
    elif seed % 7 == 0:
        graph = graph.subgraph(list(graph)[5:])
    classes = ["a", "b", "c"] if seed % 4 else [3, 1, 2]
    for node in random.choice(list(graph), 6, replace=False):
        graph.nodes[node]["kind"] = classes[random.integers(3)]
    for function in (node_classification.harmonic_function, node_classification.local_and_global_consistency):
        for steps in (1, 30):
            expected = function(graph, max_iter=steps, label_name="kind")
            assert function(graph, max_iter=steps, label_name="kind", backend="mtgcn") == expected
    changed = next(iter(graph))
    graph.nodes[changed]["kind"] = "new"  # is not missed
    assert function(graph, label_name="kind", backend="mtgcn") == function(graph, label_name="kind")
    for wrong, error in ((nx.DiGraph(graph), nx.NetworkXNotImplemented), (nx.path_graph(3), nx.NetworkXError)):
        try:
            function(wrong, label_name="kind", backend="mtgcn")
        except error:
            continue
        raise AssertionError(f"{error} expected")
assert "mtgcn.networkx_backend" in sys.modules and "torch" not in sys.modules
print("same")
"""


def test_answers_equal_those_of_networkx(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    package = tmp_path / "mtgcn-0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: mtgcn\nVersion: 0\n")
    lines = (
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    )
    (package / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    run = [sys.executable, "-W", "error", "-c", COMPARED]
    done = subprocess.run(run, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("same\n", "")
