"""Random graphs with communities, of any size, made without needing much more memory than the graph itself."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph

WITHIN_CLASS = 0.7  # the share of edges whose two ends are of one class
MARKING = 0.05  # the share of features that mark a class
STRENGTH = 10  # how far they stand out; noise lies between 0 and 1
BLOCK = 2**22  # edges or nodes handled at a time


def random_graph(nodes: int, edges: int, features: int, classes: int, seed: int = 0) -> Graph:
    """About `edges` undirected edges (those drawn twice or from a node to itself count once or not at all), dense
    features of which a few mark each class."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=nodes, dtype=np.int32)
    return Graph(
        adjacency=_adjacency(labels, edges, classes, random),
        features=_features(labels, features, classes, random),
        labels=labels,
        class_names=tuple(str(number) for number in range(classes)),
    )


def _adjacency(labels: np.ndarray, edges: int, classes: int, random: np.random.Generator) -> sp.csr_array:
    """An edge is one 64-bit number, source x nodes + target, twice: sorting these in place gives the CSR order."""
    nodes = len(labels)
    by_class = np.argsort(labels, kind="stable").astype(np.int32)
    sizes = np.bincount(labels, minlength=classes)
    starts = np.cumsum(sizes) - sizes
    keys = np.empty(2 * edges, dtype=np.int64)
    for start in range(0, edges, BLOCK):
        count = min(BLOCK, edges - start)
        sources = random.integers(nodes, size=count)
        its_class = labels[sources]
        place = (random.random(count) * sizes[its_class]).astype(np.int64)
        targets = by_class[starts[its_class] + place].astype(np.int64)
        anywhere = random.random(count) >= WITHIN_CLASS
        targets[anywhere] = random.integers(nodes, size=np.count_nonzero(anywhere))
        keys[2 * start : 2 * start + count] = sources * nodes + targets
        keys[2 * start + count : 2 * (start + count)] = targets * nodes + sources
    keys.sort()

    indices = np.empty(len(keys), dtype=np.int32)
    degrees = np.zeros(nodes, dtype=np.int64)
    filled = 0
    for start in range(0, len(keys), BLOCK):
        block = keys[start : start + BLOCK]
        sources, targets = np.divmod(block, nodes)
        kept = sources != targets
        kept[1:] &= block[1:] != block[:-1]
        if start:
            kept[0] &= block[0] != keys[start - 1]
        degrees += np.bincount(sources[kept], minlength=nodes)
        count = np.count_nonzero(kept)
        indices[filled : filled + count] = targets[kept]
        filled += count
    del keys
    row_starts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    return sp.csr_array((np.ones(filled, np.float32), indices[:filled], row_starts), shape=(nodes, nodes))


def _features(labels: np.ndarray, features: int, classes: int, random: np.random.Generator) -> np.ndarray:
    """Noise, and on top of it the few features that mark the node's class; as word counts, never negative."""
    centres = np.where(random.random((classes, features)) < MARKING, np.float32(STRENGTH), np.float32(0))
    values = np.empty((len(labels), features), dtype=np.float32)
    rows = max(1, BLOCK // features)
    for start in range(0, len(labels), rows):
        some = values[start : start + rows]
        random.random(out=some, dtype=np.float32)
        some += centres[labels[start : start + rows]]
    return values
