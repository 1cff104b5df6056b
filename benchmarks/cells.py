"""All 14 cells of the paper's tables for mt-gcn, timed one after the other: 30 runs each, 10 on PubMed.

    python benchmarks/cells.py                    # on this machine's processor
    python benchmarks/cells.py --device cuda      # on a GPU

A fit of two runs comes first, so that what a process does once (loading kernels, say) is in no cell's time. Neither is
reading the data or drawing the splits.
"""

from __future__ import annotations

from statistics import mean, stdev

import measuring

from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = {"cora": (2, 4, 8, 12, 20), "citeseer": (3, 6, 12, 18, 20), "pubmed": (2, 3, 7, 20)}
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}


def main() -> None:
    arguments = measuring.arguments(__doc__, device="cpu", seed=0)
    device, facts = measuring.start(arguments)
    method = create("mt-gcn")
    rows, per_run = [], {}
    for dataset, rates in CELLS.items():
        graph = load(dataset)
        fit_in_chunks(method, observe(graph, draw_splits(graph, rates[0], 2, arguments.seed), 0, device=device))
        for rate in rates:
            splits = draw_splits(graph, rate, RUNS[dataset], arguments.seed)
            task = observe(graph, splits, arguments.seed, device=device)
            prediction, seconds = measuring.timed(fit_in_chunks, method, task, device=device)
            accuracies = [100 * one.accuracy for one in score(prediction, graph, splits)]
            per_run[f"{dataset} {rate}"] = accuracies
            error = stdev(accuracies) / len(accuracies) ** 0.5
            rows.append(
                {
                    "dataset": dataset,
                    "labels per class": rate,
                    "runs": len(splits),
                    "seconds": round(seconds, 2),
                    "accuracy, %": round(mean(accuracies), 2),
                    "standard error": round(error, 2),
                }
            )
    measuring.show_table(rows)
    print(f"all cells: {sum(row['seconds'] for row in rows):.1f} s")
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows, "accuracy of each run": per_run})


if __name__ == "__main__":
    main()
