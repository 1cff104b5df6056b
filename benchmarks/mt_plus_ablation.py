"""mt-plus with one ingredient out at a time, in all 14 cells, on development splits.

    python benchmarks/mt_plus_ablation.py                    # 30 runs a cell, 10 on PubMed
    python benchmarks/mt_plus_ablation.py --datasets cora --runs 10
    python benchmarks/mt_plus_ablation.py --repeats 2        # around peers with two encoders each

Every variant sees the same splits; what is printed is the mean accuracy and, below the first line, the paired
difference from the whole method with the half-width of its 95 % interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import measuring
import numpy as np

from mtgcn.benchmark.protocol import DEVELOPMENT_SEEDS
from mtgcn.benchmark.scoring import score
from mtgcn.datasets import load
from mtgcn.environment import chosen_device
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = {"cora": (2, 4, 8, 12, 20), "citeseer": (3, 6, 12, 18, 20), "pubmed": (2, 3, 7, 20)}
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}
WHOLE = "mt-plus"
VARIANTS = {
    WHOLE: {},
    "encoders untrained": {"infomax_epochs": 0},
    "encoders without weight decay": {"infomax_decay": 0.0},
    "encoders trained half as long": {"infomax_epochs": 100},
    "one encoder per peer": {"repeats": 1},
    "two encoders per peer": {"repeats": 2},
    "one peer": {"peers": 1},
    "features scaled by their sum": {"feature_scaling": "sum"},
    "without teaching": {"warmup_epochs": 200, "teaching_epochs": 0},
    "average not propagated": {"propagated": "not"},
    "average propagated and normalised": {"propagated": "normalised"},
    "all nodes teach": {"chosen": "all"},
    "each taught by the other": {"taught_by": "other"},
    "classes never balanced": {"balanced": "never"},
    "classes always balanced": {"balanced": "always"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(CELLS))
    parser.add_argument("--runs", type=int, help="of every cell")
    parser.add_argument("--repeats", type=int, default=create("mt-plus").repeats, help="encoders per peer")
    parser.add_argument("--variants", help="titles, with semicolons between")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    arguments = parser.parse_args()
    common = {"repeats": arguments.repeats}
    # What says nothing new is left out: the same number of encoders as the whole method has.
    titles = [title for title, changes in VARIANTS.items() if changes != common]
    if arguments.variants:
        titles = arguments.variants.split(";")
    if titles[0] != WHOLE or not set(titles) <= set(VARIANTS):
        parser.error(f"the variants are {'; '.join(VARIANTS)}; begin with {WHOLE}")
    if arguments.seed not in DEVELOPMENT_SEEDS:
        parser.error(f"seed {arguments.seed} is no development seed; give one below {DEVELOPMENT_SEEDS.stop}")
    device = chosen_device(arguments.device)
    facts = measuring.machine(device)
    measuring.show_machine(facts)
    methods = {title: create("mt-plus", **common | VARIANTS[title]) for title in titles}
    found = {
        (dataset, labels): accuracies(methods, dataset, labels, arguments.runs or RUNS[dataset], arguments.seed, device)
        for dataset in arguments.datasets.split(",")
        for labels in CELLS[dataset]
    }
    measuring.show_table([row(title, found) for title in titles])
    measuring.write_json(
        arguments.json,
        {"machine": facts, "seed": arguments.seed, "accuracies": {f"{a} {b}": one for (a, b), one in found.items()}},
    )


def accuracies(methods, dataset, labels, runs, seed, device):
    graph = load(dataset)
    splits = draw_splits(graph, labels, runs, seed)
    task = observe(graph, splits, seed, device=device)
    return {
        title: [100 * one.accuracy for one in score(fit_in_chunks(method, task), graph, splits)]
        for title, method in methods.items()
    }


def row(title, found):
    cells = {}
    for (dataset, labels), by_variant in found.items():
        whole, mine = np.array(by_variant[WHOLE]), np.array(by_variant[title])
        difference = mine - whole
        half = 1.96 * difference.std(ddof=1) / len(difference) ** 0.5 if len(difference) > 1 else float("nan")
        cells[f"{dataset} {labels}"] = (
            f"{mine.mean():.1f}" if title == WHOLE else f"{difference.mean():+.1f} ±{half:.1f}"
        )
    every = np.mean([np.mean(by_variant[title]) for by_variant in found.values()])
    return {"variant": title, **cells, "mean": f"{every:.2f}"}


if __name__ == "__main__":
    main()
