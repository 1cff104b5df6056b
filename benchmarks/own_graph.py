"""What a person with large files waits for: `mtgcn fit` and `mtgcn predict`, whole commands, time and memory.

    python benchmarks/own_graph.py                                 # 1 million nodes and 5 million edges in Parquet
    python benchmarks/own_graph.py --nodes 100000 --edges 500000 --method mt-gcn

The files are written by another process than those measured, and nothing is in the cache when a fit begins.
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

CLASSES, FEATURES, LABELS_PER_CLASS = 5, 20, 20  # of the graph; of every class


def main() -> None:
    arguments = measuring.arguments(__doc__, nodes=1_000_000, edges=5_000_000, method="mt-plus")
    _, facts = measuring.start(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = synthetic.random_graph(arguments.nodes, arguments.edges, FEATURES, CLASSES)
        write_files(graph, folder)
        model, predictions = folder / "model", folder / "predictions.csv"
        files = ["--edges", folder / "edges.parquet", "--nodes", folder / "nodes.parquet"]
        files += ["--labels", folder / "labels.csv"]
        row = {"nodes": graph.num_nodes, "edges": graph.num_edges, "method": arguments.method}
        row |= measured("fit", *files, "--method", arguments.method, "--folds", 0, "--out", model)
        row |= measured("predict", model, "--out", predictions)
        row["peak, GiB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / measuring.GIB
        row["right, %"] = 100 * share_right(predictions, graph.labels)
    measuring.show_table([row])
    measuring.write_json(arguments.json, {"machine": facts, "rows": [row]})


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


def measured(command, *arguments):
    """Seconds by the clock and of the processors."""
    started, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"MTGCN_CACHE": cache}
        subprocess.run([sys.executable, "-m", "mtgcn", command, *map(str, arguments)], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {f"{command}, s": perf_counter() - started, f"{command}, processor s": processor}


def share_right(path, labels):
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(int(row["id"]), row["predicted"]) for row in csv.DictReader(file) if row["role"] != "given"]
    nodes = np.array([node for node, _ in rows])
    return float(np.mean(np.array([name for _, name in rows]) == labels[nodes].astype(str)))


if __name__ == "__main__":
    main()
