"""mt-plus with one ingredient out at a time, on the paper's graphs and on graphs of other kinds, on development splits.

    python benchmarks/mt_plus_ablation.py --device cuda      # every cell, 20 runs
    python benchmarks/mt_plus_ablation.py --datasets cora,chameleon --labels 3,20 --runs 10
    python benchmarks/mt_plus_ablation.py --datasets cora --variants "mt-plus;without teaching"

Every variant sees the same splits; what is printed is the mean accuracy and, below the first line, the paired
difference from the whole method with the half-width of its 95 % interval. `over-all` as a number of labels draws 5 per
class on average over all nodes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import measuring
import numpy as np

from mtgcn.benchmark.protocol import checked_seed
from mtgcn.benchmark.scoring import score
from mtgcn.datasets import load
from mtgcn.environment import chosen_device
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_over_all, draw_splits
from mtgcn.task import observe

OVER_ALL = "over-all"
OF_THE_WORLD = ("3", "20", OVER_ALL)
CELLS = {
    "cora": ("2", "4", "8", "12", "20", OVER_ALL),
    "citeseer": ("3", "6", "12", "18", "20", OVER_ALL),
    "pubmed": ("2", "3", "7", "20", OVER_ALL),
    **dict.fromkeys(("amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon"), OF_THE_WORLD),
}
LABELS_OVER_ALL = 5  # per class on average
WHOLE = "mt-plus"
VARIANTS = {
    WHOLE: {},
    "without teaching": {"rounds": 0},
    "each peer taught by itself": {"taught_by": "itself"},
    "taught however little labels say": {"taught": "always"},
    "all votes equal": {"votes": "equal"},
    "without features": {"left_out": "features"},
    "without neighbourhoods": {"left_out": "neighbourhoods"},
    "without infomax": {"left_out": "infomax"},
    "encoders untrained": {"infomax_epochs": 0},
    "no encoder held back": {"held_decay": 0.0},
    "without edges": {"left_out": "edges"},
    "without size": {"left_out": "size"},
    "classes never balanced": {"balanced": "never"},
    "classes always balanced": {"balanced": "always"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(CELLS))
    parser.add_argument("--labels", help="per class, with commas between, or over-all; default: every cell")
    parser.add_argument("--runs", type=int, default=20, help="of every cell")
    parser.add_argument("--embeddings", type=int, default=1, help="pairs of encoders that the runs share")
    parser.add_argument("--variants", help="titles, with semicolons between")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    arguments = parser.parse_args()
    titles = arguments.variants.split(";") if arguments.variants else list(VARIANTS)
    if titles[0] != WHOLE or not set(titles) <= set(VARIANTS):
        parser.error(f"the variants are {'; '.join(VARIANTS)}; begin with {WHOLE}")
    seed, device = checked_seed(arguments.seed, final=False), chosen_device(arguments.device)
    facts = measuring.machine(device)
    measuring.show_machine(facts)
    methods = {title: create("mt-plus", **{"embeddings": arguments.embeddings} | VARIANTS[title]) for title in titles}
    found = {
        f"{dataset} {labels}": accuracies(methods, dataset, labels, arguments.runs, seed, device)
        for dataset in arguments.datasets.split(",")
        for labels in (arguments.labels.split(",") if arguments.labels else CELLS[dataset])
    }
    measuring.show_table([row(title, found) for title in titles])
    measuring.write_json(arguments.json, {"machine": facts, "seed": seed, "accuracies": found})


def accuracies(methods, dataset, labels, runs, seed, device):
    graph = load(dataset)
    if labels == OVER_ALL:
        splits = draw_over_all(graph, LABELS_OVER_ALL, runs, seed)
    else:
        splits = draw_splits(graph, int(labels), runs, seed)
    task = observe(graph, splits, seed, device=device)
    return {
        title: [100 * one.accuracy for one in score(fit_in_chunks(method, task), graph, splits)]
        for title, method in methods.items()
    }


def row(title, found):
    cells = {}
    for cell, by_variant in found.items():
        whole, mine = np.array(by_variant[WHOLE]), np.array(by_variant[title])
        difference = mine - whole
        half = 1.96 * difference.std(ddof=1) / len(difference) ** 0.5 if len(difference) > 1 else float("nan")
        cells[cell] = f"{mine.mean():.1f}" if title == WHOLE else f"{difference.mean():+.1f} ±{half:.1f}"
    every = np.mean([np.mean(by_variant[title]) for by_variant in found.values()])
    return {"variant": title, **cells, "mean": f"{every:.2f}"}


if __name__ == "__main__":
    main()
