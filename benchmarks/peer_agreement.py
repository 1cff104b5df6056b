"""On how many nodes two peers of a method predict the same, on average over its pairs, before teaching and after it.

python benchmarks/peer_agreement.py                      # mt-gcn at the lowest label rate of Cora and Citeseer, 10 runs
python benchmarks/peer_agreement.py --method mt-plus
"""

from __future__ import annotations

import itertools

import measuring
import numpy as np

from mtgcn.datasets import load
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

WITHOUT_TEACHING = {"mt-gcn": {"teaching_epochs": 0}, "mt-plus": {"rounds": 0}}
CELLS = {"cora": 2, "citeseer": 3, "pubmed": 2}


def main() -> None:
    arguments = measuring.arguments(
        __doc__, datasets="cora,citeseer", method={"default": "mt-gcn", "choices": list(WITHOUT_TEACHING)}, runs=10
    )
    rows = []
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        task = observe(graph, draw_splits(graph, CELLS[dataset], arguments.runs, 0), 0)
        row = {"dataset": dataset, "labels per class": CELLS[dataset], "runs": arguments.runs}
        for title, settings in (("before teaching, %", WITHOUT_TEACHING[arguments.method]), ("after, %", {})):
            predicted = fit_in_chunks(create(arguments.method, **settings), task).peers.argmax(-1).swapaxes(0, 1)
            pairs = [(one == other).mean() for one, other in itertools.combinations(predicted, 2)]
            row[title] = round(100 * float(np.mean(pairs)), 1)
        rows.append(row)
    measuring.show_table(rows)


if __name__ == "__main__":
    main()
