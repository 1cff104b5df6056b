"""Parts of a graph that say nothing: edges rewired at random, features shuffled between nodes. What do they cost?

    python benchmarks/useless_parts.py                                        # cora, 20 labels per class, 10 splits
    python benchmarks/useless_parts.py --datasets cora,amazon-photo --runs 20 --device cuda

With edges that say nothing, mt-plus is to be compared with `logistic`, which does not look at them; with features that
say nothing, with label propagation, which looks at edges alone.
"""

from __future__ import annotations

from dataclasses import replace

import measuring
import numpy as np
import scipy.sparse as sp

from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import score
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

BESIDE = {"as it is": ("logistic", "lp"), "edges rewired": ("logistic",), "features shuffled": ("lp",)}


def main() -> None:
    arguments = measuring.arguments(__doc__, datasets="cora", labels=(20, "per class"), runs=10, seed=0, device="cpu")
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments)
    rows = []
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        splits = draw_splits(graph, arguments.labels, arguments.runs, seed)
        spoilt = {"as it is": graph, "edges rewired": rewired(graph, seed), "features shuffled": shuffled(graph, seed)}
        for part, one in spoilt.items():
            for name in ("mt-plus", *BESIDE[part]):
                method = create(name, embeddings=1) if name == "mt-plus" else create(name)
                task = observe(one, splits, seed, device=device)
                accuracy = [100 * each.accuracy for each in score(fit_in_chunks(method, task), one, splits)]
                error = np.std(accuracy, ddof=1) / len(accuracy) ** 0.5
                rows.append({"dataset": dataset, "graph": part, "method": name, "accuracy": np.mean(accuracy)})
                rows[-1]["standard error"] = error
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "seed": seed, "rows": rows})


def rewired(graph, seed):
    """As many edges, every node with about as many as it had, but to anybody."""
    upper = sp.triu(graph.adjacency, k=1).tocoo()
    ends = np.random.default_rng([seed, 1]).permutation(np.concatenate([upper.row, upper.col]))
    one, other = np.split(ends, 2)
    apart = one != other
    pairs = sp.coo_array((np.ones(apart.sum()), (one[apart], other[apart])), shape=upper.shape)
    both = sp.csr_array(pairs + pairs.T)
    both.data[:] = 1
    return replace(graph, adjacency=both)


def shuffled(graph, seed):
    """Every node with the features of another."""
    return replace(graph, features=graph.features[np.random.default_rng([seed, 2]).permutation(graph.num_nodes)])


if __name__ == "__main__":
    main()
