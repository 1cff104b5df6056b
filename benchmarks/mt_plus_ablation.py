"""mt-plus with one ingredient out at a time, on the paper's graphs and on graphs of other kinds, on development splits.

    python benchmarks/mt_plus_ablation.py --device cuda --workers 4      # every cell, 20 runs
    python benchmarks/mt_plus_ablation.py --datasets cora,chameleon --labels 3,20 --runs 10
    python benchmarks/mt_plus_ablation.py --datasets cora --variants "mt-plus;without teaching"

Every variant sees the same splits; what is printed is the mean accuracy and, below the first line, the paired
difference from the whole method with the half-width of its 95 % interval. `over-all` as a number of labels draws 5 per
class on average over all nodes. Last, each graph is left out in turn: what would have been chosen on the others, and
what that is worth on it.
"""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import measuring
import numpy as np

from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import score
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
    "without near neighbourhood": {"prior_near_neighbourhood": 0.0},
    "without features and near neighbourhood": {"prior_features": 0.0, "prior_near_neighbourhood": 0.0},
    "without hops": {"left_out": "hops"},
    "without neighbourhoods": {"left_out": "neighbourhoods"},
    "without infomax": {"left_out": "infomax"},
    "twice the prior of infomax": {"prior_infomax_embeddings": 2.0, "prior_held_infomax_embeddings": 4.0},
    "encoders untrained": {"infomax_epochs": 0},
    "no encoder held back": {"held_decay": 0.0},
    "without far edges": {"left_out": "edges"},
    "class shares not corrected": {"share_power": 0.0},
    "without size": {"left_out": "size"},
    "classes never balanced": {"balanced": "never"},
    "classes always balanced": {"balanced": "always"},
}


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets=",".join(CELLS),
        labels=(None, "per class, with commas between, or over-all; default: every cell"),
        runs=(20, "of every cell"),
        embeddings=(1, "pairs of encoders that the runs share"),
        variants=(None, "titles, with semicolons between"),
        seed=0,
        device="cpu",
        workers=(1, "processes among which cells are dealt out"),
    )
    titles = arguments.variants.split(";") if arguments.variants else list(VARIANTS)
    if titles[0] != WHOLE or not set(titles) <= set(VARIANTS):
        sys.exit(f"the variants are {'; '.join(VARIANTS)}; begin with {WHOLE}")
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments)
    cells = [
        (dataset, labels)
        for dataset in arguments.datasets.split(",")
        for labels in (arguments.labels.split(",") if arguments.labels else CELLS[dataset])
    ]
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        results = [
            pool.submit(accuracies, titles, *cell, arguments.runs, arguments.embeddings, seed, device) for cell in cells
        ]
        found = {" ".join(cell): result.result() for cell, result in zip(cells, results, strict=True)}
    measuring.show_table([row(title, found) for title in titles])
    if left_out := graphs_left_out(found):
        measuring.show_table(left_out)
    measuring.write_json(arguments.json, {"machine": facts, "seed": seed, "accuracies": found})


def accuracies(titles, dataset, labels, runs, embeddings, seed, device):
    graph = load(dataset)
    if labels == OVER_ALL:
        splits = draw_over_all(graph, LABELS_OVER_ALL, runs, seed)
    else:
        splits = draw_splits(graph, int(labels), runs, seed)
    task = observe(graph, splits, seed, device=device)
    methods = {title: create("mt-plus", **{"embeddings": embeddings} | VARIANTS[title]) for title in titles}
    return {
        title: [round(100 * one.accuracy, 2) for one in score(fit_in_chunks(method, task), graph, splits)]
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


def graphs_left_out(found):
    """For each graph: the variant that is best on the others, each graph counting the same, and on it."""
    by_graph = {}
    for cell, by_variant in found.items():
        by_graph.setdefault(cell.split()[0], []).append({title: np.mean(one) for title, one in by_variant.items()})
    means = {
        graph: {title: float(np.mean([cell[title] for cell in cells])) for title in cells[0]}
        for graph, cells in by_graph.items()
    }
    rows = []
    for graph, here in means.items():
        others = [one for name, one in means.items() if name != graph]
        if not others:
            return []
        chosen = max(here, key=lambda title: np.mean([one[title] for one in others]))
        best = max(here, key=here.__getitem__)
        rows.append(
            {
                "left out": graph,
                "chosen on the others": chosen,
                "on it": f"{here[chosen]:.1f}",
                WHOLE: f"{here[WHOLE]:.1f}",
                "best on it": best,
                "that": f"{here[best]:.1f}",
            }
        )
    return rows


if __name__ == "__main__":
    main()
