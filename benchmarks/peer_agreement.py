"""On how many nodes the two peers of a method predict the same, before teaching and after it.

python benchmarks/peer_agreement.py                      # mt-gcn at the lowest label rate of Cora and Citeseer, 10 runs
python benchmarks/peer_agreement.py --method mt-plus
"""

from __future__ import annotations

import argparse

import measuring

from mtgcn.datasets import load
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = {"cora": 2, "citeseer": 3, "pubmed": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="cora,citeseer")
    parser.add_argument("--method", default="mt-gcn", help="mt-gcn or mt-plus")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    rows = []
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        task = observe(graph, draw_splits(graph, CELLS[dataset], arguments.runs, 0), 0)
        row = {"dataset": dataset, "labels per class": CELLS[dataset], "runs": arguments.runs}
        for title, settings in (("before teaching, %", {"teaching_epochs": 0}), ("after, %", {})):
            first, second = fit_in_chunks(create(arguments.method, **settings), task).peers.argmax(-1).swapaxes(0, 1)
            row[title] = round(100 * float((first == second).mean()), 1)
        rows.append(row)
    measuring.show_table(rows)


if __name__ == "__main__":
    main()
