"""What mt-plus costs beside mt-gcn: its embeddings, made once per graph, and the fit itself.

    python benchmarks/mt_plus.py                              # the lowest label rate of each dataset
    python benchmarks/mt_plus.py --datasets cora --device cuda

Embeddings are made in an empty cache folder: one set, as a single fit needs it, then all others that the runs of a cell
share. The time of both is given. Then cells of both methods are fitted in turn, with the embeddings already made.
"""

from __future__ import annotations

import os
import tempfile

import measuring

from mtgcn.datasets import load
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = {"cora": (2, 30), "citeseer": (3, 30), "pubmed": (2, 10)}


def main() -> None:
    arguments = measuring.arguments(__doc__, datasets=",".join(CELLS), device="cpu")
    device, facts = measuring.start(arguments)
    names = arguments.datasets.split(",")
    graphs = {name: load(name) for name in names}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MTGCN_CACHE"] = cache
        rows = [measure(name, graphs[name], device) for name in names]
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def measure(name, graph, device):
    labels, runs = CELLS[name]
    plus, plain = create("mt-plus"), create("mt-gcn")
    single = observe(graph, draw_splits(graph, labels, 1, 0), 0, device=device)
    cell = observe(graph, draw_splits(graph, labels, runs, 0), 0, device=device)
    _, with_vectors = measuring.timed(fit_in_chunks, plus, single, device=device)
    _, without = measuring.timed(fit_in_chunks, plus, single, device=device)
    _, plain_single = measuring.timed(fit_in_chunks, plain, single, device=device)
    _, first_cell = measuring.timed(fit_in_chunks, plus, cell, device=device)
    seconds = {"plus": [], "plain": []}
    for _ in range(2):
        for key, method in (("plain", plain), ("plus", plus)):
            seconds[key].append(measuring.timed(fit_in_chunks, method, cell, device=device)[1])
    best = {key: min(values) for key, values in seconds.items()}
    one_set = with_vectors - without
    return {
        "dataset": name,
        "embeddings of one fit, s": one_set,
        "embeddings of a cell, s": one_set + first_cell - best["plus"],
        "one fit of mt-plus, embeddings made, s": without,
        "one fit of mt-gcn, s": plain_single,
        "runs": runs,
        "cell of mt-plus, s": best["plus"],
        "cell of mt-gcn, s": best["plain"],
        "ratio": best["plus"] / best["plain"],
    }


if __name__ == "__main__":
    main()
