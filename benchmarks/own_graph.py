"""What a person with a large graph waits for: `mtgcn fit` and `mtgcn predict` on Parquet files, time and memory.

    python benchmarks/own_graph.py                                     # 1 million nodes, 5 million edges
    python benchmarks/own_graph.py --nodes 100000 --edges 500000 --method mt-gcn

The files are written by another process than the one measured, and nothing is in the cache when the fit begins.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import synthetic

CLASSES, FEATURES, LABELS_PER_CLASS = 5, 20, 20  # a feature of its own for every class


def main() -> None:
    arguments = measuring.arguments(__doc__, nodes=1_000_000, edges=5_000_000, method="mt-plus")
    _, facts = measuring.start(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = synthetic.random_graph(arguments.nodes, arguments.edges, FEATURES, CLASSES)
        write_files(graph, folder)
        model, predictions = folder / "model", folder / "predictions.csv"
        tables = ("--edges", folder / "edges.parquet", "--nodes", folder / "nodes.parquet")
        labels = ("--labels", folder / "labels.csv")
        fit = measured("fit", *tables, *labels, "--method", arguments.method, "--folds", 0, "--out", model, cache=name)
        predict = measured("predict", model, "--out", predictions, cache=name)
        row = {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "method": arguments.method,
            "fit, s": fit,
            "predict, s": predict,
            "peak, GiB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / measuring.GIB,
            "right, %": 100 * share_right(predictions, graph.labels),
        }
    measuring.show_table([row])
    measuring.write_json(arguments.json, {"machine": facts, "row": row})


def write_files(graph, folder):
    above = sp.triu(graph.adjacency, format="coo")
    pq.write_table(pa.table({"source": above.row, "target": above.col}), folder / "edges.parquet")
    columns = {f"f{number}": graph.features[:, number] for number in range(FEATURES)}
    pq.write_table(pa.table({"id": np.arange(graph.num_nodes), **columns}), folder / "nodes.parquet")
    random = np.random.default_rng(0)
    with (folder / "labels.csv").open("w", encoding="utf-8") as file:
        file.write("id,label\n")
        for number in range(CLASSES):
            for node in random.choice(np.flatnonzero(graph.labels == number), LABELS_PER_CLASS, replace=False):
                file.write(f"{node},{number}\n")


def measured(*arguments, cache):
    started = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "mtgcn", *map(str, arguments)], check=True, env=os.environ | {"MTGCN_CACHE": cache}
    )
    return perf_counter() - started


def share_right(path, labels):
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(int(row["id"]), row["predicted"]) for row in csv.DictReader(file) if row["role"] != "given"]
    nodes = np.array([node for node, _ in rows])
    return float(np.mean(np.array([name for _, name in rows]) == labels[nodes].astype(str)))


if __name__ == "__main__":
    main()
