"""Time to predict one new row with `mt-plus`: only its own views ("after"), or those of the joint graph ("before").

python benchmarks/one_row.py --nodes 2000,100000 --rows 50 --json FILE

Predictions of both ways are compared as well. The first prediction of a model prepares the rows of the fit.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from unittest.mock import patch

import measuring
import numpy as np
import scipy.sparse as sp

from mtgcn import MutualTeachingClassifier
from mtgcn.methods import Method
from mtgcn.methods.mt_plus.base import PeerMethod

CLASSES, FEATURES, DEGREE = 5, 20, 10


def main() -> None:
    arguments = measuring.arguments(__doc__, nodes="2000,100000", rows=50, joint_rows=10, threads=int, set=None)
    _, facts = measuring.start(arguments)
    warnings.simplefilter("ignore")
    rows = [one_size(int(nodes), arguments.rows, arguments.joint_rows) for nodes in arguments.nodes.split(",")]
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def one_size(nodes: int, count: int, joint: int) -> dict[str, float]:
    """Five classes of nodes with noisy features; four of five edges lie within classes."""
    random = np.random.default_rng(0)
    truth = random.integers(0, CLASSES, nodes)
    features = random.normal(size=(CLASSES, FEATURES))[truth] + 2 * random.normal(size=(nodes, FEATURES))
    by_class = np.argsort(truth, kind="stable")
    first = np.searchsorted(truth[by_class], np.arange(CLASSES + 1))
    ends = random.integers(0, nodes, (2, nodes * DEGREE // 2))
    within = random.random(ends.shape[1]) < 0.8
    low, high = first[truth[ends[0]]], first[truth[ends[0]] + 1]
    ends[1] = np.where(within, by_class[low + (random.random(len(low)) * (high - low)).astype(int)], ends[1])
    edges = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), (nodes, nodes)).tocsr()
    y = np.where(np.arange(nodes) < 100, truth, -1)
    started = perf_counter()
    model = MutualTeachingClassifier(random_state=0, settings={"infomax_epochs": 20})
    model.fit(features, y, graph=edges.maximum(edges.T))
    print(f"{nodes} nodes fitted in {perf_counter() - started:.0f} s", flush=True)
    new = features[:count] + 0.1 * random.normal(size=(count, FEATURES))
    with patch.object(PeerMethod, "apply_to_new", Method.apply_to_new):
        before, probabilities = predicted(model, new[:joint])
    first_call, _ = predicted(model, new[:1])
    after, own = predicted(model, new)
    return {
        "nodes": nodes,
        "before p50, ms": float(np.percentile(before, 50)),
        "before p99, ms": float(np.percentile(before, 99)),
        "first call, ms": first_call[0],
        "after p50, ms": float(np.percentile(after, 50)),
        "after p99, ms": float(np.percentile(after, 99)),
        "largest difference": float(np.abs(probabilities - own[:joint]).max()),
    }


def predicted(model: MutualTeachingClassifier, rows: np.ndarray) -> tuple[list[float], np.ndarray]:
    """Milliseconds of each prediction, and the probabilities."""
    times, found = [], []
    for row in rows:
        started = perf_counter()
        found.append(model.predict_proba(row[None])[0])
        times.append(1000 * (perf_counter() - started))
    return times, np.array(found)


if __name__ == "__main__":
    main()
