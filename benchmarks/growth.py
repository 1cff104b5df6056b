"""How time and memory grow with the graph, against what the machine's memory can move.

    python benchmarks/growth.py                          # 3, 10 and 30 million directed edges
    python benchmarks/growth.py --edges 3e5,1e6          # smaller
    python benchmarks/growth.py --large                  # 2.4 million nodes, 62 million edges: an epoch, peak memory
    python benchmarks/growth.py --large --device cuda    # the same to the end on a GPU
    python benchmarks/growth.py --method mt-plus         # whole fits of mt-plus: 1 and 10 million directed edges
    python benchmarks/growth.py --large --method mt-plus --device cuda    # one of the large graph, stage by stage

Each graph has its own process, so that memory peaks do not mix. The floor of a teaching epoch is the time in which
memory copies the bytes that its products with the graph touch without a cache: for every edge an index, a value and a
row of numbers at the neighbour, forward and backward; and for every node its features, twice. On a GPU the first fit
also includes the start of CUDA and the compilation of kernels; the table shows a second fit with an empty cache, and
the first is printed below it.
"""

from __future__ import annotations

import argparse
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
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Prediction, Task, observe

NUMBER = 4  # bytes of a value or an index
PEERS, HIDDEN = 2, 16


@dataclass(frozen=True)
class Plan:
    """A graph to make and the epochs to fit on it."""

    nodes: int
    edges: int
    features: int = 100
    classes: int = 10
    labels_per_class: int = 5
    warmup_epochs: int = 10
    teaching_epochs: int = 5
    device: str = "cpu"
    threads: int | None = None
    seed: int = 0


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        method=("mt-gcn", "mt-gcn: epochs; mt-plus: whole fits"),
        edges=(None, "directed edges, comma-separated; default: 3e6,1e7,3e7, or 1e6,1e7 for mt-plus"),
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
    if arguments.method != "mt-gcn":
        found = whole_fits(arguments, common)
    else:
        found = large(arguments, common) if arguments.large else growth(arguments, common)
    measuring.write_json(arguments.json, {"machine": facts, **found})


def growth(arguments: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    bandwidth = measuring.copy_bandwidth(common["device"])
    print(f"a large copy reads and writes {bandwidth / 1e9:.1f} GB/s\n", flush=True)
    edges = _sizes(arguments.edges or "3e6,1e7,3e7")
    measured = []
    for count in edges:
        plan = Plan(nodes=round(count / arguments.degree), edges=round(count / 2), **common)
        measured.append(measuring.in_fresh_process(measure, plan))
    rows = [_growth_row(one, bandwidth) for one in measured]
    measuring.show_table(rows)
    per_edge = [row["teaching, ns per edge and epoch"] for row in rows]
    print(f"time per edge and epoch, largest over smallest: {max(per_edge) / min(per_edge):.2f}")

    # The same nodes with fewer edges separate the two shares.
    thin = Plan(nodes=round(edges[0] / arguments.degree), edges=round(edges[0] / 10), **common)
    measured.append(measuring.in_fresh_process(measure, thin))
    return {"bandwidth": bandwidth, "rows": rows, "measured": measured, "memory": memory_shares(measured)}


def _sizes(typed: str) -> list[float]:
    return [float(text) for text in typed.split(",")]


def whole_fits(arguments: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    edges = [round(arguments.large_edges) * 2] if arguments.large else _sizes(arguments.edges or "1e6,1e7")
    plans = [Plan(nodes=round(count / arguments.degree), edges=round(count / 2), **common) for count in edges]
    if arguments.large:
        plans = [replace(plans[0], nodes=round(arguments.nodes), classes=47)]
    else:  # the same nodes with fewer edges separate the shares of memory
        plans.append(replace(plans[0], edges=round(edges[0] / 10)))
    measured = [measuring.in_fresh_process(measure_whole, plan, arguments.method) for plan in plans]
    rows = [_whole_row(one) for one in measured]
    measuring.show_table(rows)
    if arguments.large:
        _show_parts(measured[0])
        return {"rows": rows, "measured": measured}
    per_edge = [row["ns per edge"] for row in rows[: len(edges)]]
    print(f"time per edge, last size over first: {per_edge[-1] / per_edge[0]:.2f}")
    return {"rows": rows, "measured": measured, "memory": memory_shares(measured)}


def _whole_row(measured: dict[str, Any]) -> dict[str, Any]:
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


def measure_whole(plan: Plan, name: str) -> dict[str, Any]:
    """Time and memory of making the graph and of a fit with an empty cache."""
    stages, graph, splits, task = _prepared(plan)
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


def _growth_row(measured: dict[str, Any], bandwidth: float) -> dict[str, Any]:
    edges = measured["edges"]
    floor = teaching_bytes(measured) / bandwidth
    return {
        "edges": f"{edges:.3g}",
        "nodes": f"{measured['nodes']:.3g}",
        "teaching, s per epoch": measured["teaching epoch"],
        "teaching, ns per edge and epoch": 1e9 * measured["teaching epoch"] / edges,
        "floor, ns per edge and epoch": 1e9 * floor / edges,
        "times the floor": measured["teaching epoch"] / floor,
        "warm-up, ms per epoch": 1e3 * measured["warm-up epoch"],
        "warm-up, ns per edge and epoch": 1e9 * measured["warm-up epoch"] / edges,
        "peak GiB": measured["stages"]["fit"]["peak"] / measuring.GIB,
    }


def teaching_bytes(measured: dict[str, Any]) -> int:
    """Bytes that the products of one teaching epoch touch if no cache helps."""
    row = PEERS * min(HIDDEN, measured["classes"]) * NUMBER
    return 2 * (measured["edges"] * (2 * NUMBER + row) + measured["nodes"] * measured["features"] * NUMBER)


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


def large(arguments: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    # The whole fit on a GPU, a few epochs of each kind elsewhere.
    epochs = (200, 200) if common["device"] == "cuda" else (3, 2)
    plan = Plan(
        nodes=round(arguments.nodes),
        edges=round(arguments.large_edges),
        classes=47,
        warmup_epochs=epochs[0],
        teaching_epochs=epochs[1],
        **common,
    )
    measured = measuring.in_fresh_process(measure, plan)
    bandwidth = measuring.copy_bandwidth(common["device"])
    measuring.show_table(
        [
            {
                "stage": stage,
                "seconds": values["seconds"],
                "GiB when done": values["now"] / measuring.GIB,
                "peak GiB so far": values["peak"] / measuring.GIB,
            }
            for stage, values in measured["stages"].items()
        ]
    )
    measuring.show_table([_growth_row(measured, bandwidth)])
    print(f"epochs fitted: {epochs[0]} warm-up, {epochs[1]} teaching; accuracy {measured['accuracy']:.1f} %")
    if measured["gpu peak"]:
        print(f"peak on the GPU: {measured['gpu peak'] / measuring.GIB:.2f} GiB")
    return {"bandwidth": bandwidth, "measured": measured}


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


def _prepared(plan: Plan) -> tuple[Stages, Graph, tuple[Split, ...], Task]:
    """The graph of a plan, its split and its task, at the start of a fresh process."""
    if plan.threads:
        torch.set_num_threads(plan.threads)
    stages = Stages(plan.device)
    stages.run("start", lambda: None)
    graph: Graph = stages.run(
        "graph made and checked",
        lambda: random_graph(plan.nodes, plan.edges, plan.features, plan.classes, plan.seed),
    )
    splits = draw_splits(graph, plan.labels_per_class, 1, plan.seed)
    return stages, graph, splits, observe(graph, splits, plan.seed, device=plan.device)


def measure(plan: Plan) -> dict[str, Any]:
    """Time and memory of making the graph and of the epochs of a fit."""
    stages, graph, splits, task = _prepared(plan)
    method = create("mt-gcn", warmup_epochs=plan.warmup_epochs, teaching_epochs=plan.teaching_epochs)
    finished, prediction = stages.run("fit", lambda: measuring.epoch_seconds(method, task))
    durations = np.diff(finished)  # the first epoch has no beginning
    warmup, teaching = durations[: plan.warmup_epochs - 1], durations[plan.warmup_epochs :]
    return {
        **asdict(plan),
        "edges": int(graph.adjacency.nnz),
        # The first epoch of each kind also prepares what the later ones use.
        "warm-up epoch": float(np.median(warmup)),
        "teaching epoch": float(np.median(teaching)),
        "accuracy": 100 * score(prediction, graph, splits)[0].accuracy,
        "gpu peak": torch.cuda.max_memory_allocated() if plan.device == "cuda" else 0,
        "stages": stages.found,
    }


if __name__ == "__main__":
    main()
