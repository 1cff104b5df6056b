"""Peers that differ in kind, weighed by the given labels and taught by each other, beside mt-plus as it is: a trial.

    python benchmarks/peers_of_kinds/search.py --datasets chameleon,amazon-photo --labels 3,20 --runs 10 --seed 231
    python benchmarks/peers_of_kinds/search.py --datasets cora --labels 2 --variants "whole;without teaching"

The method (`method.py`) is no part of the package yet: docs/research-log.md says how it was found, what it gains and
what it still loses. Every variant sees the same splits, of development seeds alone; what is printed is the mean
accuracy and its standard error. `over-all` as a number of labels draws 5 per class over all nodes.
"""

from __future__ import annotations

import argparse

import numpy as np
from method import PeersOfKinds

from mtgcn.benchmark.protocol import checked_seed
from mtgcn.benchmark.scoring import score
from mtgcn.datasets import load
from mtgcn.environment import chosen_device
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_over_all, draw_splits
from mtgcn.task import observe

OVER_ALL = 5  # labels per class on average
VARIANTS = {
    "whole": {},
    "without teaching": {"rounds": 0},
    "each peer taught by itself": {"taught_by": "itself"},
    "taught however little labels say": {"taught": "always"},
    "all votes equal": {"votes": "equal"},
    "without features": {"left_out": "features"},
    "without neighbourhoods": {"left_out": "neighbourhoods"},
    "without infomax": {"left_out": "infomax"},
    "without edges": {"left_out": "edges"},
    "without size": {"left_out": "size"},
    "classes never balanced": {"balanced": "never"},
    "classes always balanced": {"balanced": "always"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="cora")
    parser.add_argument("--labels", default="3,20", help="per class, or over-all")
    parser.add_argument("--variants", default="whole", help="titles, with semicolons between; all: every one")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=231)
    parser.add_argument("--embeddings", type=int, default=1, help="pairs of encoders that the runs share")
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    arguments = parser.parse_args()
    titles = list(VARIANTS) if arguments.variants == "all" else arguments.variants.split(";")
    methods = {title: PeersOfKinds(embeddings=arguments.embeddings, **VARIANTS[title]) for title in titles}
    methods["mt-plus as it is"] = create("mt-plus", embeddings=arguments.embeddings)
    seed, device = checked_seed(arguments.seed, final=False), chosen_device(arguments.device)
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        for labels in arguments.labels.split(","):
            if labels == "over-all":
                splits = draw_over_all(graph, OVER_ALL, arguments.runs, seed)
            else:
                splits = draw_splits(graph, int(labels), arguments.runs, seed)
            for title, method in methods.items():
                task = observe(graph, splits, seed, device=device)
                accuracy = 100 * np.array([one.accuracy for one in score(fit_in_chunks(method, task), graph, splits)])
                error = accuracy.std(ddof=1) / np.sqrt(len(accuracy)) if len(accuracy) > 1 else np.nan
                print(f"{dataset} {labels:8s} {title:34s} {accuracy.mean():5.1f} ± {error:.1f}", flush=True)


if __name__ == "__main__":
    main()
