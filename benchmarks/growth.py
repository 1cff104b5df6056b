"""How time and memory of a whole fit grow with the graph.

    python benchmarks/growth.py                          # mt-plus: 1 and 10 million directed edges
    python benchmarks/growth.py --edges 3e5,1e6          # smaller
    python benchmarks/growth.py --large --device cuda    # 2.4 million nodes, 62 million edges, stage by stage

Each graph has its own process, so that memory peaks do not mix. On a GPU the first fit also includes the start of CUDA
and the compilation of kernels; the table shows a second fit with an empty cache, and the first is printed below it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import measuring
import numpy as np
import torch
from synthetic import random_graph

from mtgcn.experiments.scoring import score
from mtgcn.graph import Graph
from mtgcn.methods import Method, create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import Prediction, Task, observe


@dataclass(frozen=True)
class Plan:
    """A graph to make and to fit."""

    nodes: int
    edges: int
    features: int = 100
    classes: int = 10
    labels_per_class: int = 5
    device: str = "cpu"
    threads: int | None = None
    seed: int = 0


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        method="mt-plus",
        edges=("1e6,1e7", "directed edges, comma-separated"),
        degree=(50.0, "mean degree"),
        large=(False, "the one large graph instead"),
        nodes=(2.4e6, "of the large graph"),
        large_edges=(62e6, "of the large graph"),
        seed=0,
        device="cpu",
        threads=None,
    )
    device, facts = measuring.start(arguments)
    common = {"device": device.type, "threads": arguments.threads, "seed": arguments.seed}
    if arguments.large:
        plans = [Plan(nodes=round(arguments.nodes), edges=round(arguments.large_edges), classes=47, **common)]
    else:
        counts = [float(text) for text in arguments.edges.split(",")]
        plans = [Plan(nodes=round(count / arguments.degree), edges=round(count / 2), **common) for count in counts]
        plans.append(replace(plans[0], edges=round(counts[0] / 10)))  # separates the shares of memory
    measured = [measuring.in_fresh_process(measure, plan, arguments.method) for plan in plans]
    rows = [_row(one) for one in measured]
    measuring.show_table(rows)
    found: dict[str, Any] = {"rows": rows, "measured": measured}
    if arguments.large:
        _show_parts(measured[0])
    else:
        print(f"time per edge, last size over first: {rows[-2]['ns per edge'] / rows[0]['ns per edge']:.2f}")
        found["memory"] = memory_shares(measured)
    measuring.write_json(arguments.json, {"machine": facts, **found})


def _row(measured: dict[str, Any]) -> dict[str, Any]:
    seconds, edges = measured["stages"]["fit"]["seconds"], measured["edges"]
    return {
        "edges": f"{edges:.3g}",
        "nodes": f"{measured['nodes']:.3g}",
        "fit, s": seconds,
        "ns per edge": 1e9 * seconds / edges,
        "µs per node": 1e6 * seconds / measured["nodes"],
        "peak GiB": measured["stages"]["fit"]["peak"] / measuring.GIB,
        "accuracy": measured["accuracy"],
    }


def _show_parts(measured: dict[str, Any]) -> None:
    """Print the seconds of each stage of the fit."""
    whole = measured["stages"]["fit"]["seconds"]
    measuring.show_table(
        [
            {"part of the fit": part, "seconds": seconds, "%": 100 * seconds / whole}
            for part, seconds in measured["parts"].items()
        ]
    )
    if "first fit" in measured["stages"]:
        print(f"the first fit, with CUDA's start: {measured['stages']['first fit']['seconds']:.1f} s")
        print(f"peak on the GPU: {measured['gpu peak'] / measuring.GIB:.2f} GiB")


@dataclass
class Stages:
    """Time and memory of one piece of work after the other."""

    device: str
    found: dict[str, dict[str, float]] = field(default_factory=dict)

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        result, seconds = measuring.timed(work, device=self.device)
        peak = measuring.peak_memory()
        self.found[name] = {"seconds": seconds, "now": measuring.resident_memory(), "peak": peak}
        print(f"  {name}: {seconds:.1f} s, peak so far {peak / measuring.GIB:.2f} GiB", file=sys.stderr, flush=True)
        return result


def measure(plan: Plan, name: str) -> dict[str, Any]:
    """Time and memory of making the graph and of a fit with an empty cache, in a fresh process."""
    if plan.threads:
        torch.set_num_threads(plan.threads)
    stages = Stages(plan.device)
    stages.run("start", lambda: None)
    graph: Graph = stages.run(
        "graph made and checked",
        lambda: random_graph(plan.nodes, plan.edges, plan.features, plan.classes, plan.seed),
    )
    splits = draw_splits(graph, plan.labels_per_class, 1, plan.seed)
    task = observe(graph, splits, plan.seed, device=plan.device)
    method = create(name)
    if plan.device == "cuda":
        _fit_uncached(stages, "first fit", method, task)
        # A copy of the graph, for which nothing is cached.
        graph = Graph(graph.adjacency, graph.features, graph.labels, class_names=graph.class_names)
        task = observe(graph, splits, plan.seed, device=plan.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    prediction, parts = _fit_uncached(stages, "fit", method, task)
    return {
        **asdict(plan),
        "edges": int(graph.adjacency.nnz),
        "accuracy": 100 * score(prediction, graph, splits)[0].accuracy,
        "stages": stages.found,
        "parts": parts,
        "gpu peak": torch.cuda.max_memory_allocated() if plan.device == "cuda" else None,
    }


def _fit_uncached(stages: Stages, name: str, method: Method, task: Task) -> tuple[Prediction, dict[str, float]]:
    """A fit with an empty cache folder, and the seconds of each of its stages."""
    parts: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MTGCN_CACHE"] = cache
        prediction = stages.run(name, lambda: measuring.parted(parts, task.device, fit_in_chunks, method, task))
    return prediction, parts


def memory_shares(measured: list[dict[str, Any]]) -> dict[str, float]:
    """Bytes per node, bytes per directed edge and a constant, fitted to the peaks by least squares."""
    design = np.array([[one["nodes"], one["edges"], 1] for one in measured], dtype=np.float64)
    peaks = np.array([one["stages"]["fit"]["peak"] - one["stages"]["start"]["now"] for one in measured])
    scale = design.max(axis=0)
    shares, *_ = np.linalg.lstsq(design / scale, peaks, rcond=None)
    per_node, per_edge, constant = (shares / scale).tolist()
    print(f"peak memory: {per_node:,.0f} bytes per node + {per_edge:.1f} per directed edge", end=" ")
    print(f"+ {constant / 2**20:,.0f} MiB (least squares over these graphs and one with fewer edges)")
    return {"bytes per node": per_node, "bytes per edge": per_edge, "constant": constant}


if __name__ == "__main__":
    main()
