"""Cells of the paper's tables, timed one after the other: 30 runs each, 10 on PubMed.

    python benchmarks/cells.py                                       # mt-gcn, all 14 cells, on the CPU
    python benchmarks/cells.py --methods mt-gcn,mt-plus --device cuda

A fit of two runs comes first, so that what a process does once (loading kernels, say) is in no cell's time. Neither is
reading the data or drawing the splits. The cache is empty at first: the first cell of `mt-plus` on a dataset includes
the encoders that the others reuse.
"""

from __future__ import annotations

import os
from statistics import mean, stdev
from tempfile import TemporaryDirectory

import measuring

from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = {"cora": (2, 4, 8, 12, 20), "citeseer": (3, 6, 12, 18, 20), "pubmed": (2, 3, 7, 20)}
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}


def main() -> None:
    arguments = measuring.arguments(__doc__, methods="mt-gcn", datasets=",".join(CELLS), device="cpu", seed=0)
    device, facts = measuring.start(arguments)
    rows, per_run = [], {}
    graphs = {name: load(name) for name in arguments.datasets.split(",")}
    with TemporaryDirectory() as cache:
        os.environ["MTGCN_CACHE"] = cache
        for name in arguments.methods.split(","):
            method = create(name)
            for dataset, graph in graphs.items():
                warm_up = draw_splits(graph, CELLS[dataset][0], 2, arguments.seed)
                fit_in_chunks(method, observe(graph, warm_up, 0, device=device))
                for rate in CELLS[dataset]:
                    splits = draw_splits(graph, rate, RUNS[dataset], arguments.seed)
                    task = observe(graph, splits, arguments.seed, device=device)
                    prediction, seconds = measuring.timed(fit_in_chunks, method, task, device=device)
                    accuracies = [100 * one.accuracy for one in score(prediction, graph, splits)]
                    per_run[f"{name} {dataset} {rate}"] = accuracies
                    row = {"method": name, "dataset": dataset, "labels per class": rate, "runs": len(splits)}
                    row |= {"seconds": round(seconds, 2), "accuracy, %": round(mean(accuracies), 2)}
                    rows.append(row | {"standard error": round(stdev(accuracies) / len(accuracies) ** 0.5, 2)})
    measuring.show_table(rows)
    print(f"all cells: {sum(row['seconds'] for row in rows):.1f} s")
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows, "accuracy of each run": per_run})


if __name__ == "__main__":
    main()
