"""Planetoid's files (Yang, Cohen and Salakhutdinov, 2016): eight for each of Cora, Citeseer and PubMed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from mtgcn.datasets.dataset import Dataset, planetoid_split, undirected
from mtgcn.datasets.restricted_pickle import PLANETOID, unpickled
from mtgcn.graph import UNKNOWN, Graph

# `x` and `y` repeat the training nodes, which open `allx` and `ally`; `tx` and `ty` are the test nodes.
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")


def filenames(name: str) -> tuple[str, ...]:
    return tuple(f"ind.{name}.{part}" for part in _PARTS)


def read(name: str, files: Mapping[str, bytes], class_names: tuple[str, ...] = ()) -> Dataset:
    """The dataset in Planetoid's node order; nodes without a label row get no label, not class 0."""

    def content(part: str) -> bytes:
        return files[f"ind.{name}.{part}"]

    pickled = {
        part: unpickled(content(part), f"ind.{name}.{part}", PLANETOID) for part in _PARTS if part != "test.index"
    }
    test = np.array(content("test.index").split(), dtype=np.int64)
    neighbours: Mapping[int, list[int]] = pickled["graph"]
    nodes = len(neighbours)

    # Row by row, the node described: `tx` follows `test.index`, which is neither sorted nor, in Citeseer, gapless.
    described = np.concatenate([np.arange(pickled["allx"].shape[0]), test])
    sources = np.repeat(list(neighbours), [len(targets) for targets in neighbours.values()])
    targets = np.concatenate([np.array(listed, dtype=np.int64) for listed in neighbours.values()])
    graph = Graph(
        adjacency=undirected(sources, targets, nodes),
        features=_placed(sp.vstack([pickled["allx"], pickled["tx"]]), described, nodes),
        labels=_classes(np.vstack([pickled["ally"], pickled["ty"]]), described, nodes),
        class_names=class_names,
        name=name,
    )
    # Each edge stands in the list of both its ends.
    return Dataset(graph, edges_listed=len(sources) // 2, public_split=planetoid_split(len(pickled["y"]), test))


def _placed(rows: sp.spmatrix, described: np.ndarray, nodes: int) -> sp.csr_array:
    """The rows at the nodes they describe, zeros elsewhere."""
    placement = sp.coo_array(
        (np.ones(len(described), np.float32), (described, np.arange(len(described)))), shape=(nodes, len(described))
    )
    return sp.csr_array(placement.tocsr() @ sp.csr_array(rows))


def _classes(one_hot: np.ndarray, described: np.ndarray, nodes: int) -> np.ndarray:
    labels = np.full(nodes, UNKNOWN, dtype=np.int64)
    labels[described] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), UNKNOWN)
    return labels
