"""What a fit was said to cost before it began, and what it did cost: seconds and GiB on five graphs.

    python benchmarks/fit_cost.py                        # mt-plus
    python benchmarks/fit_cost.py --method mt-gcn
    python benchmarks/fit_cost.py --graphs cora --threads 1 --processor-time   # where others use the machine, too

Each graph has a process and a cache folder of its own, so that encoders are trained and memory peaks do not mix. What
is compared is the fit alone; `mtgcn fit` adds what measuring accuracy takes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import measuring
import torch
from synthetic import random_graph

from mtgcn.datasets import load
from mtgcn.environment import chosen_device
from mtgcn.graph import Graph
from mtgcn.machine_speed import measured_speeds
from mtgcn.methods import create, fit_in_chunks
from mtgcn.own_graph.cost import Cost, cost_words
from mtgcn.own_graph.memory_check import needed_bytes
from mtgcn.splits import draw_splits
from mtgcn.task import observe
from mtgcn.training.memory import threads_for

GRAPHS = ("digits", "cora", "citeseer", "amazon-photo", "synthetic")
NODES, EDGES, FEATURES, CLASSES = 100_000, 500_000, 100, 10  # of the synthetic one


@dataclass(frozen=True)
class Plan:
    graph: str
    method: str
    labels_per_class: int
    threads: int | None
    processor_time: bool
    cache: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="comma-separated; synthetic, or names of datasets")
    parser.add_argument("--method", default="mt-plus")
    parser.add_argument("--labels-per-class", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch; default: what torch takes")
    parser.add_argument("--processor-time", action="store_true", help="count seconds of the processor, not of the wall")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    facts = measuring.machine(chosen_device("cpu"))
    measuring.show_machine(facts)
    rows = []
    for name in arguments.graphs.split(","):
        with tempfile.TemporaryDirectory() as cache:
            plan = Plan(
                name,
                arguments.method,
                arguments.labels_per_class,
                arguments.threads,
                arguments.processor_time,
                cache,
            )
            rows.append(measuring.in_fresh_process(measure, plan))
    measuring.show_table(rows)
    worst = max(max(row["measured / said, s"], 1 / row["measured / said, s"]) for row in rows)
    print(f"furthest off in time: {worst:.2f} x")
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows, "furthest off": worst})


def graph_named(name: str) -> Graph:
    return random_graph(NODES, EDGES, FEATURES, CLASSES) if name == "synthetic" else load(name)


def measure(plan: Plan) -> dict[str, Any]:
    """Said and done. Runs in a process of its own."""
    os.environ["MTGCN_CACHE"] = plan.cache
    if plan.threads:
        torch.set_num_threads(plan.threads)
    clock = process_time if plan.processor_time else perf_counter
    graph, method = graph_named(plan.graph), create(plan.method)
    task = observe(graph, draw_splits(graph, plan.labels_per_class, 1, seed=0), seed=0)
    before = measuring.resident_memory()
    with threads_for(method.bytes_per_run(task)):
        per_run = method.work_per_run(task)
        if per_run is None:
            raise SystemExit(f"nobody can tell how long {plan.method} takes; choose another method")
        said = measured_speeds(task.num_nodes, clock).seconds(method.shared_work(task) + per_run)
    cost = Cost(said, before + needed_bytes(method, task))
    started = clock()
    fit_in_chunks(method, task)
    seconds, peak = clock() - started, measuring.peak_memory()
    return {
        "graph": plan.graph,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "said": cost_words(cost),
        "said, s": said,
        "measured, s": seconds,
        "measured / said, s": seconds / said,
        "said, GiB": cost.bytes / measuring.GIB,
        "measured, GiB": peak / measuring.GIB,
        "measured / said, GiB": peak / cost.bytes,
    }


if __name__ == "__main__":
    main()
