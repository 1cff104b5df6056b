"""Random numbers that belong to nodes, whatever their order: drawn by what a node is, not by where it stands.

A node's key is a hash of its features and, twice over, of its neighbours' keys. Nodes that are alike as far as that
goes are numbered, so that no two have the same key; which of them gets which number hardly matters.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.arrays import blocks_of_entries, blocks_of_rows, each_block
from mtgcn.shapes import Float, Int, UInt64

ROUNDS = 2  # of looking at the neighbours
WIDTH_OF_DRAWS = 16  # numbers that are held for each node while normal ones are drawn
# What splitmix64 adds, the golden ratio in 64 bits, and multiplies by.
SPLITMIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ODD, _FIRST, _SECOND = SPLITMIX


@cached_per_graph
def node_keys(graph: Graph) -> UInt64[np.ndarray, "nodes"]:
    """A 64-bit number for each node. Sums of hashes wrap around and so do not depend on the order of their terms.

    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> turned = Graph(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    >>> bool(node_keys(path)[1] == node_keys(turned)[0])  # the one in the middle
    True
    >>> len(set(node_keys(path)))
    3
    """
    keys = feature_keys(graph.features, graph.num_nodes)
    for _ in range(ROUNDS):
        keys = surrounded_keys(keys, keys, graph.adjacency)
    return _numbered(keys)


def surrounded_keys(
    keys: UInt64[np.ndarray, "rows"], beside: UInt64[np.ndarray, "columns"], adjacency: sp.csr_array
) -> UInt64[np.ndarray, "rows"]:
    """The keys of nodes with a look at their neighbours: `beside` has those of the columns of their rows of A, in which
    an entry of 0 is no edge."""
    starts, indices, data = adjacency.indptr, adjacency.indices, adjacency.data
    found = np.empty_like(keys)

    def look_at_neighbours(rows: slice) -> None:
        entries = slice(starts[rows.start], starts[rows.stop])
        weights = scrambled(data[entries].astype(np.float32).view(np.uint32).astype(np.uint64))
        terms = np.where(data[entries] == 0, np.uint64(0), scrambled(beside[indices[entries]] ^ weights))
        sums = _sums_of_rows(terms, starts[rows.start : rows.stop + 1])
        found[rows] = scrambled(keys[rows] + scrambled(sums + _ODD))

    each_block(blocks_of_entries(starts), look_at_neighbours)
    return found


def drawn_by_key(keys: UInt64[np.ndarray, "nodes"], seed: int, draw: int) -> UInt64[np.ndarray, "nodes"]:
    """A random 64-bit number for each key."""
    return scrambled(keys ^ purpose_of(seed, draw))


def purpose_of(seed: int, draw: int) -> np.uint64:
    """What tells one draw from another."""
    purpose: np.uint64 = np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0]
    return purpose


def keyed_normal(keys: UInt64[np.ndarray, "nodes"], seed: int, columns: int) -> Float[np.ndarray, "nodes columns"]:
    """Normally distributed numbers, `columns` for each node."""
    numbers = np.empty((len(keys), columns), dtype=np.float32)
    low = np.uint64(0xFFFFFFFF)

    def draw(nodes: slice) -> None:
        for column in range(columns):
            words = drawn_by_key(keys[nodes], seed, column)
            # Box and Muller (1958), from the two halves of a word.
            radius = np.sqrt(-2 * np.log(((words >> np.uint64(32)) + np.uint64(1)) / 2.0**32))
            numbers[nodes, column] = radius * np.cos(2 * np.pi * (words & low) / 2.0**32)

    each_block(blocks_of_rows(len(keys), width=WIDTH_OF_DRAWS), draw)
    return numbers


def scrambled(words: UInt64[np.ndarray, "*any"]) -> UInt64[np.ndarray, "*any"]:
    """A mixing of 64-bit words in which each bit of the result depends on every bit given (splitmix64)."""
    words = words + _ODD
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _numbered(keys: UInt64[np.ndarray, "nodes"]) -> UInt64[np.ndarray, "nodes"]:
    """Equal keys made different, by how many equal ones stand before: without it, nodes that are alike would get the
    same numbers and could never be told apart by what is searched for from them."""
    return numbered_keys(keys, equal_before(keys))


def equal_before(keys: UInt64[np.ndarray, "nodes"]) -> UInt64[np.ndarray, "nodes"]:
    """How many equal keys stand before each."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    place = np.arange(len(keys))
    first = np.maximum.accumulate(np.where(np.append(True, ranked[1:] != ranked[:-1]), place, 0))[: len(keys)]
    before = np.empty(len(keys), dtype=np.uint64)
    before[order] = place - first
    return before


def numbered_keys(
    keys: UInt64[np.ndarray, "nodes"], before: UInt64[np.ndarray, "nodes"]
) -> UInt64[np.ndarray, "nodes"]:
    """Keys, of which so many equal ones stand before each, made different."""
    return np.where(before == 0, keys, scrambled(keys + scrambled(before)))


def feature_keys(features: sp.csr_array | np.ndarray | None, nodes: int) -> UInt64[np.ndarray, "nodes"]:
    """What the features of each of so many nodes are, in short."""
    if features is None:
        return np.zeros(nodes, dtype=np.uint64)
    places = scrambled(np.arange(features.shape[1], dtype=np.uint64))
    keys = np.empty(nodes, dtype=np.uint64)
    if isinstance(features, np.ndarray):
        dense = features

        def add_up(rows: slice) -> None:
            keys[rows] = _entry_keys(dense[rows], places).sum(axis=1, dtype=np.uint64)

        each_block(blocks_of_rows(*dense.shape), add_up)
        return keys
    starts, columns, values = features.indptr, features.indices, features.data

    def add_up_entries(rows: slice) -> None:
        entries = slice(starts[rows.start], starts[rows.stop])
        terms = _entry_keys(values[entries], places[columns[entries]])
        keys[rows] = _sums_of_rows(terms, starts[rows.start : rows.stop + 1])

    each_block(blocks_of_entries(starts), add_up_entries)
    return keys


def _entry_keys(values: Float[np.ndarray, "*any"], places: UInt64[np.ndarray, "*some"]) -> UInt64[np.ndarray, "*any"]:
    """What an entry adds to its row's key; nothing where it is 0, whether it is stored or not."""
    bits = (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 is 0
    return np.where(bits == 0, np.uint64(0), scrambled(places + scrambled(bits)))


def _sums_of_rows(
    terms: UInt64[np.ndarray, "entries"], row_starts: Int[np.ndarray, "rows_and_one"]
) -> UInt64[np.ndarray, "rows"]:
    """Of terms that stand row after row; the first belongs to the first row."""
    sums = np.zeros(len(terms) + 1, dtype=np.uint64)
    np.cumsum(terms, dtype=np.uint64, out=sums[1:])
    found: np.ndarray = np.diff(sums[row_starts - row_starts[0]])
    return found
