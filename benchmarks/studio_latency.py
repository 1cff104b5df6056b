"""Waiting times of the studio in headless Chromium on a random graph with classes: the first question after the start
of the command, the first answer after two classes, and a key while the model is taught.

    python benchmarks/studio_latency.py --nodes 100000 --keys 20
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))

from browser import chromium
from studio_server import studio

CLASSES, FEATURES, EDGES_PER_NODE = 8, 16, 4
NODE = "return document.querySelector('[data-node]')?.dataset.node"
SHOWS_ANOTHER = "const node = document.querySelector('[data-node]')?.dataset.node; return node && node !== arguments[0]"


def write_graph(folder: Path, nodes: int) -> list[str]:
    """Write edges, mostly within classes, and nodes with noisy features; returns the options of the command."""
    random = np.random.default_rng(0)
    ends = random.integers(0, nodes, (EDGES_PER_NODE * nodes, 2))
    ends[:, 1] += (ends[:, 0] - ends[:, 1]) % CLASSES
    ends = ends[(ends[:, 1] < nodes) & (ends[:, 0] != ends[:, 1])]
    np.savetxt(folder / "edges.csv", ends, "%d", ",", header="source,target", comments="")
    features = random.standard_normal((nodes, FEATURES)).round(3)
    features[np.arange(nodes), np.arange(nodes) % CLASSES] += 2
    table = np.column_stack([np.arange(nodes), features])
    names = ",".join(["id", *(f"x{number}" for number in range(FEATURES))])
    np.savetxt(folder / "nodes.csv", table, ["%d"] + ["%.3f"] * FEATURES, ",", header=names, comments="")
    return ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")]


def measure(nodes: int, keys: int) -> dict[str, float]:
    """Seconds."""
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        options = write_graph(folder, nodes)
        browser.show(width=1280)
        started = perf_counter()
        with studio(folder, *options) as running:
            browser.visit(running.address)
            browser.wait_until(NODE, seconds=300)
            found = {"first_question": perf_counter() - started}
            waits: list[float] = []

            def label(add: bool) -> None:
                node = browser.run(NODE)
                key = str(int(node) % CLASSES)
                began = perf_counter()
                if add:
                    browser.type("#another-class", f"{key}\ue007")
                else:
                    browser.press(key)
                browser.wait_until(SHOWS_ANOTHER, node, seconds=60)
                waits.append(perf_counter() - began)

            known: set[int] = set()
            while len(known) < CLASSES:
                number = int(browser.wait_until(NODE)) % CLASSES
                label(number not in known)
                known.add(number)
                if len(known) == 2 and "first_answer" not in found:
                    began = perf_counter()
                    browser.wait_until("return document.querySelector('.verdict')?.innerText.includes('%')", seconds=60)
                    found["first_answer"] = perf_counter() - began
            browser.wait_until("return document.querySelector('#pill').innerText.startsWith('Teaching')", seconds=60)
            waits.clear()
            for _ in range(keys):
                label(False)
            taught = browser.run("return document.querySelector('#pill').innerText.startsWith('Teaching')")
            found |= {"key_median": statistics.median(waits), "key_max": max(waits), "still_teaching": bool(taught)}
            return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=20)
    arguments = parser.parse_args()
    result = measure(arguments.nodes, arguments.keys)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=1))
