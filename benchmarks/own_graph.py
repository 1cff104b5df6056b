"""What a person with large files waits for: `mtgcn fit` and `mtgcn predict`, whole commands, time and memory.

    python benchmarks/own_graph.py                                 # 1 million nodes and 5 million edges in Parquet
    python benchmarks/own_graph.py --nodes 100000 --edges 500000 --method mt-gcn
    python benchmarks/own_graph.py --rows 54000                    # a CSV table of mixed columns instead of a graph
    python benchmarks/own_graph.py --rows 54000 --source OTHER/src # also with the source of another version

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
CITIES = ("Ulm", "Hof", "Kiel", "Bonn", "Trier", "Jena", "Gera")


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        nodes=1_000_000,
        edges=5_000_000,
        method="mt-plus",
        rows=(int, "a table of that many rows instead of a graph"),
        source=(str, "src folder of another version to compare with"),
    )
    _, facts = measuring.start(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.rows:
            write_table(folder / "table.csv", arguments.rows)
            size, truth = {"rows": arguments.rows}, None
            files = [folder / "table.csv", "--target", "class"]
        else:
            graph = synthetic.random_graph(arguments.nodes, arguments.edges, FEATURES, CLASSES)
            write_files(graph, folder)
            size, truth = {"nodes": graph.num_nodes, "edges": graph.num_edges}, graph.labels
            files = ["--edges", folder / "edges.parquet", "--nodes", folder / "nodes.parquet"]
            files += ["--labels", folder / "labels.csv"]
        rows = []
        for source in (os.environ.get("PYTHONPATH", ""), *filter(None, [arguments.source])):
            model, predictions = folder / "model", folder / "predictions.csv"
            options = ["--method", arguments.method, "--folds", 0, "--out", model]
            row = size | {"method": arguments.method}
            row |= measured("fit", *files, *options, source=source)
            row |= measured("predict", model, "--out", predictions, source=source)
            row["peak, GiB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / measuring.GIB
            if truth is not None:
                row["right, %"] = 100 * share_right(predictions, truth)
            rows.append(row)
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


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


def write_table(path: Path, rows: int) -> None:
    """Numbers, categories, a yes/no column, dates and gaps; classes are known for a few rows."""
    random = np.random.default_rng(0)
    truth = random.integers(CLASSES, size=rows)
    numbers = random.normal(size=(rows, 6)) + random.normal(size=(CLASSES, 6))[truth]
    numbers[:, 5] = np.exp(numbers[:, 5])  # a heavy tail
    city = np.where(random.random(rows) < 0.5, truth, random.integers(len(CITIES), size=rows))
    day = np.datetime64("2020-01-01") + random.integers(1000, size=rows)
    labelled = np.zeros(rows, dtype=bool)
    for number in range(CLASSES):
        labelled[random.choice(np.flatnonzero(truth == number), LABELS_PER_CLASS, replace=False)] = True
    gap = random.random(rows) < 0.05
    with path.open("w", encoding="utf-8") as file:
        file.write("width,depth,height,weight,age,price,city,grade,member,since,class\n")
        for row in range(rows):
            cells = [f"{value:.3f}" for value in numbers[row]]
            cells[4] = "" if gap[row] else cells[4]
            cells += [CITIES[city[row]], "ABCD"[truth[row] % 4 if row % 2 else row % 4], "yes" if row % 3 else "no"]
            file.write(",".join([*cells, str(day[row]), f"c{truth[row]}" if labelled[row] else ""]) + "\n")


def measured(command, *arguments, source):
    """Seconds by the clock and of the processors."""
    started, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"MTGCN_CACHE": cache, "PYTHONPATH": source}
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
