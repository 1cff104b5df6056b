"""Explanations of `mt-plus`: the deletion test, exactness and time.

python benchmarks/explain.py --datasets cora,citeseer,amazon-photo,chameleon --nodes 40 --json FILE

For random unlabelled nodes, the five strongest reasons (columns and direct neighbours) are removed: a column is set to
0, the edge to a neighbour is cut. The fitted model is applied to the changed graph, and the fall of the probability of
the predicted class is compared with that after removing five random reasons of the same kinds: columns that the node or
its neighbours have, and neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter, thread_time
from typing import Any

import measuring
import numpy as np
import scipy.sparse as sp

import mtgcn
from mtgcn.estimator.explanation import COLUMNS, NODES, Explanation, NamedColumns
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.graph import Graph

REMOVED = 5


def main() -> None:
    arguments = measuring.arguments(
        __doc__, datasets="cora,citeseer,amazon-photo,chameleon", nodes=40, per_class=5, timed=False, threads=int
    )
    _, facts = measuring.start(arguments)
    warnings.simplefilter("ignore")
    rows = [
        measured(name, arguments.nodes, arguments.per_class, deletes=not arguments.timed)
        for name in arguments.datasets.split(",")
    ]
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def measured(name: str, count: int, per_class: int, *, deletes: bool) -> dict[str, Any]:
    random = np.random.default_rng(0)
    graph = mtgcn.load(name)
    labels = np.full(graph.num_nodes, -1)
    for number in range(graph.num_classes):
        chosen = random.permutation(np.flatnonzero(graph.labels == number))[:per_class]
        labels[chosen] = number
    model = GraphModel("mt-plus", random_state=0).fit_graph(replace(graph, labels=labels))
    nodes = random.permutation(np.flatnonzero(labels < 0))[:count].tolist()
    _, first_call = measuring.timed(model.explain, graph.node_ids[nodes[0]])
    times, busy, errors, falls = [], [], [], []
    answers = probabilities(model, model.graph_)
    for node in nodes:
        started, of_thread = perf_counter(), thread_time()
        found = model.explain(graph.node_ids[node])
        times.append(1000 * (perf_counter() - started))
        busy.append(1000 * (thread_time() - of_thread))
        errors += [abs(sum(part.value for part in parts) - found.margin) for parts in found.tables.values()]
        if deletes:
            predicted = graph.class_names.index(found.predicted)
            falls.append(
                [
                    answers[node, predicted]
                    - probabilities(model, without(model.graph_, node, *reasons))[node, predicted]
                    for reasons in removals(model.graph_, node, found, random)
                ]
            )
    row: dict[str, Any] = {"graph": name, "nodes": graph.num_nodes, "first call, ms": 1000 * first_call}
    row |= {"p50, ms": float(np.percentile(times, 50)), "processor p50, ms": float(np.percentile(busy, 50))}
    row["largest error"] = float(max(errors))
    if deletes:
        strongest, at_random = np.mean(falls, axis=0)
        row |= {"fall, strongest": float(strongest), "fall, random": float(at_random)}
        row["ratio"] = float(strongest / max(at_random, 1e-9))
    print(row, flush=True)
    return row


def removals(graph: Graph, node: int, found: Explanation, random: np.random.Generator) -> list[tuple[Any, Any]]:
    """The five strongest reasons and as many random ones of the same kinds: columns and neighbours."""
    place = {name: number for number, name in enumerate(NamedColumns(graph).names)}
    around = np.setdiff1d(graph.adjacency[[node]].indices, [node])
    ids = {np.asarray(graph.node_ids[one]).item(): int(one) for one in around}
    reasons = [(part.value, True, place[part.name]) for part in found.tables[COLUMNS] if part.name in place]
    reasons += [(part.value, False, ids[part.node]) for part in found.tables[NODES] if part.node in ids]
    strongest = sorted((one for one in reasons if one[0] > 0), reverse=True)[:REMOVED]
    columns = [where for _, is_column, where in strongest if is_column]
    neighbours = [where for _, is_column, where in strongest if not is_column]
    present = np.unique(sp.csr_array(graph.features[[node, *around]]).indices)
    by_chance = random.permutation(present)[: len(columns)], random.permutation(around)[: len(neighbours)]
    return [(columns, neighbours), by_chance]


def without(graph: Graph, node: int, columns: Sequence[int], neighbours: Sequence[int]) -> Graph:
    """The graph without these columns and without the edges from the node to these neighbours."""
    kept = np.ones(graph.num_features, dtype=np.float32)
    kept[list(columns)] = 0
    features = (
        sp.csr_array(graph.features @ sp.diags_array(kept)) if sp.issparse(graph.features) else graph.features * kept
    )
    adjacency = graph.adjacency.tolil(copy=True)
    for neighbour in neighbours:
        adjacency[node, neighbour] = adjacency[neighbour, node] = 0
    return replace(graph.without_labels, adjacency=adjacency.tocsr(), features=features)


def probabilities(model: GraphModel, graph: Graph) -> np.ndarray:
    """The answers of the fitted peers that apply to another graph."""
    peers = model.method_.apply(model.parameters_ or {}, graph.without_labels)
    return model.method_.combined(peers, model.parameters_)[0]


if __name__ == "__main__":
    main()
