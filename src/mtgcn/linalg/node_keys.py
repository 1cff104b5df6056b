"""Random numbers that belong to nodes: they depend on what a node is, not on its position in the node order.

The key of a node hashes its features and, twice over, the keys of its neighbours. Nodes that still have equal keys are
numbered, so that all keys differ.

Keys are 64-bit words: a NumPy array of unsigned integers in main memory, or a tensor of signed integers with the same
bits on a device, since torch has no unsigned arithmetic. Every function takes either. On the CPU, NumPy in several
threads takes half the time of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.arrays import blocks_of_entries, blocks_of_rows, each_block
from mtgcn.linalg.normalisation import ENTRIES_AT_ONCE, device_adjacency, device_features, row_sums
from mtgcn.linalg.operators import CsrArrays, csr_arrays
from mtgcn.shapes import Int, UInt64

ROUNDS = 2  # in which a key takes up those of its neighbours
# The increment (the golden ratio in 64 bits) and the factors of splitmix64.
_SPLITMIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
_UNSIGNED, _SIGNED = tuple(_SPLITMIX), tuple(_SPLITMIX.view(np.int64).tolist())
_HIGHEST_BIT = -(2**63)
CPU = torch.device("cpu")

Words = TypeVar("Words", np.ndarray, Tensor)


@cached_per_graph
def node_keys(graph: Graph, device: torch.device = CPU) -> Int[Tensor, "nodes"]:
    """A 64-bit key for each node. Sums of hashes wrap around, so that the order of their terms does not matter.

    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> reordered = Graph(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    >>> bool(node_keys(path)[1] == node_keys(reordered)[0])  # the node in the middle
    True
    >>> len(set(node_keys(path).tolist()))
    3
    """
    if device.type == "cpu":
        on_host = feature_keys(graph.features, graph.num_nodes)
        for _ in range(ROUNDS):
            on_host = neighbourhood_keys(on_host, on_host, graph.adjacency)
        keys = as_tensor(on_host)
    else:
        keys = resident_keys(graph, device)
    return distinct_keys(keys, duplicate_ranks(keys))


def resident_keys(graph: Graph, device: torch.device) -> Int[Tensor, "nodes"]:
    """The keys, of which some may be equal, computed on the device from the matrices that lie there."""
    features = graph.features
    keys = torch.zeros(graph.num_nodes, dtype=torch.int64, device=device)
    if isinstance(features, sp.csr_array):
        keys = _sparse_feature_keys(_Rows.of(features, csr_arrays(features, device)), keys)
    elif features is not None:
        keys = _dense_feature_keys(device_features(graph, device), keys)
    adjacency = _Rows.of(graph.adjacency, device_adjacency(graph, device))
    for _ in range(ROUNDS):
        keys = _neighbourhood_keys(keys, keys, adjacency)
    return keys


def feature_keys(features: sp.csr_array | np.ndarray | None, nodes: int) -> UInt64[np.ndarray, "nodes"]:
    """A hash of each row of features."""
    keys = np.zeros(nodes, dtype=np.uint64)
    if features is None:
        return keys
    return (
        _dense_feature_keys(features, keys)
        if isinstance(features, np.ndarray)
        else _sparse_feature_keys(_Rows.of(features), keys)
    )


def neighbourhood_keys(
    keys: UInt64[np.ndarray, "rows"], neighbour_keys: UInt64[np.ndarray, "columns"], adjacency: sp.csr_array
) -> UInt64[np.ndarray, "rows"]:
    """Hashes of each node's key and those of its neighbours; an entry of 0 is no edge."""
    return _neighbourhood_keys(keys, neighbour_keys, _Rows.of(adjacency))


def duplicate_ranks(keys: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
    """The number of equal keys before each."""
    # NumPy sorts faster on the CPU.
    on_cpu = keys.device.type == "cpu"
    order = torch.from_numpy(np.argsort(keys.numpy(), kind="stable")) if on_cpu else keys.argsort(stable=True)
    ranked = keys[order]
    position = torch.arange(len(keys), device=keys.device)
    is_first = torch.ones_like(ranked, dtype=torch.bool)
    is_first[1:] = ranked[1:] != ranked[:-1]
    ranks = torch.empty_like(keys)
    ranks[order] = position - torch.where(is_first, position, 0).cummax(0).values
    return ranks


def distinct_keys(keys: Words, ranks: Words) -> Words:
    """Keys hashed with their rank among equal ones, so that nodes that look alike get different random numbers."""
    where: Any = torch.where if isinstance(keys, Tensor) else np.where
    return where(ranks == 0, keys, splitmix64(keys + splitmix64(ranks)))


def keyed_bits(keys: Words, seed: int, draw: int) -> Words:
    """A random 64-bit word for each key."""
    return splitmix64(keys ^ _streams(keys, seed, [draw])[0])


def random_order(keys: Int[Tensor, "nodes"], seed: int, draw: int) -> Int[Tensor, "nodes"]:
    """The nodes in a random order. Draws are distinct, so that any sort gives the same one."""
    return torch.argsort(keyed_bits(keys, seed, draw) ^ _HIGHEST_BIT)  # as unsigned words are ordered


def keyed_permutations(keys: Int[Tensor, "nodes"], seed: int, count: int) -> Iterator[Int[Tensor, "nodes"]]:
    """`count` random permutations of the nodes, one after the other."""
    for number in range(count):
        source, target = (random_order(keys, seed, 2 * number + half) for half in (0, 1))
        yield torch.empty_like(source).scatter_(0, source, target)


def keyed_normal(keys: Words, seed: int, columns: int) -> Words:
    """Standard normal numbers, `columns` for each key; on different devices equal up to rounding."""
    if isinstance(keys, Tensor) and keys.device.type == "cpu":
        return torch.from_numpy(keyed_normal(as_array(keys), seed, columns))
    return _normal(keys, seed, columns)


def _normal(keys: Words, seed: int, columns: int) -> Words:
    math: Any = torch if isinstance(keys, Tensor) else np
    shape = (len(keys), columns)
    numbers = torch.empty(shape, device=keys.device) if isinstance(keys, Tensor) else np.empty(shape, np.float32)
    streams = _streams(keys, seed, range(columns))

    def draw(rows: slice) -> None:
        # Box and Muller (1958), from the two halves of a word.
        words = splitmix64(keys[rows, None] ^ streams)
        high, low = _double(_shifted_right(words, 32)), _double(words & _word(words, 0xFFFFFFFF))
        numbers[rows] = math.sqrt(-2 * math.log((high + 1) / 2.0**32)) * math.cos(2 * np.pi * low / 2.0**32)

    _each(blocks_of_rows(len(keys), columns, _at_once(keys)), draw, keys)
    return numbers


def splitmix64(words: Words) -> Words:
    """Mixes 64-bit words, so that every bit of the result depends on every bit of the argument."""
    increment, first, second = _SIGNED if isinstance(words, Tensor) else _UNSIGNED
    words = words + increment
    words = (words ^ _shifted_right(words, 30)) * first
    words = (words ^ _shifted_right(words, 27)) * second
    return words ^ _shifted_right(words, 31)


def as_tensor(words: UInt64[np.ndarray, "*any"]) -> Int[Tensor, "*any"]:
    """The same bits as a tensor."""
    return torch.from_numpy(words.view(np.int64))


def as_array(words: Int[Tensor, "*any"]) -> UInt64[np.ndarray, "*any"]:
    """The same bits as an array in main memory."""
    return words.cpu().numpy().view(np.uint64)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A sparse matrix by its arrays, in main memory or on a device, whose rows are read in blocks."""

    starts_on_host: Int[np.ndarray, "rows_and_one"]
    arrays: tuple[Any, Any, Any]  # row pointers, columns and values
    width: int

    @staticmethod
    def of(matrix: sp.csr_array, resident: CsrArrays | None = None) -> _Rows:
        return _Rows(matrix.indptr, resident or (matrix.indptr, matrix.indices, matrix.data), matrix.shape[1])

    def sums(self, like: Words, terms: Callable[[Any, Any], Words]) -> Words:
        """For each row, the sum of the terms that its columns and values give."""
        starts, columns, values = self.arrays
        found: Any = torch.zeros_like(like) if isinstance(like, Tensor) else np.zeros_like(like)

        def add_up(rows: slice) -> None:
            entries = slice(int(self.starts_on_host[rows.start]), int(self.starts_on_host[rows.stop]))
            found[rows] = _row_sums(terms(columns[entries], values[entries]), starts[rows.start : rows.stop + 1])

        _each(blocks_of_entries(self.starts_on_host, _at_once(like)), add_up, like)
        return found


def _neighbourhood_keys(keys: Words, neighbour_keys: Words, adjacency: _Rows) -> Words:
    def terms(columns: Any, values: Any) -> Any:
        return splitmix64(neighbour_keys[columns] ^ splitmix64(_bits(values))) * (values != 0)

    increment = _word(keys, int(_SPLITMIX[0]))
    return splitmix64(keys + splitmix64(adjacency.sums(keys, terms) + increment))


def _sparse_feature_keys(features: _Rows, keys: Words) -> Words:
    places = splitmix64(_range(keys, features.width))
    return features.sums(keys, lambda columns, values: _entry_keys(values, places[columns]))


def _dense_feature_keys(features: Any, keys: Words) -> Words:
    places = splitmix64(_range(keys, features.shape[1]))

    def add_up(rows: slice) -> None:
        keys[rows] = _entry_keys(features[rows], places).sum(1)

    nodes, width = features.shape
    _each(blocks_of_rows(nodes, width, _at_once(keys)), add_up, keys)
    return keys


def _entry_keys(values: Any, places: Words) -> Words:
    """The term of an entry in its row's key; 0 for an entry of 0, stored or not."""
    bits = _bits(values)
    return splitmix64(places + splitmix64(bits)) * (bits != 0)


def _bits(values: Any) -> Any:
    """The bits of numbers in 32 bits, as words; -0 counts as 0."""
    if isinstance(values, Tensor):
        return (values + 0.0).view(torch.int32).long() & 0xFFFFFFFF
    return (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)


def _row_sums(terms: Words, row_starts: Any) -> Words:
    if isinstance(terms, Tensor):
        return row_sums(terms, row_starts)
    sums = np.zeros(len(terms) + 1, dtype=np.uint64)
    np.cumsum(terms, dtype=np.uint64, out=sums[1:])
    return np.diff(sums[row_starts - row_starts[0]])


def _streams(keys: Words, seed: int, draws: Sequence[int]) -> Words:
    """A distinct word for each draw of a seed."""
    words = np.concatenate([np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64) for draw in draws])
    return as_tensor(words).to(keys.device) if isinstance(keys, Tensor) else words


def _range(keys: Words, count: int) -> Words:
    return torch.arange(count, device=keys.device) if isinstance(keys, Tensor) else np.arange(count, dtype=np.uint64)


def _word(like: Words, word: int) -> Any:
    return int(np.uint64(word).view(np.int64)) if isinstance(like, Tensor) else np.uint64(word)


def _shifted_right(words: Words, places: int) -> Words:
    if isinstance(words, Tensor):
        return (words >> places) & (2 ** (64 - places) - 1)  # >> repeats the sign
    return words >> np.uint64(places)


def _double(words: Words) -> Words:
    return words.double() if isinstance(words, Tensor) else words.astype(np.float64)


def _at_once(keys: Words) -> int | None:
    return ENTRIES_AT_ONCE if isinstance(keys, Tensor) else None


def _each(blocks: Sequence[slice], work: Callable[[slice], None], keys: Words) -> None:
    if isinstance(keys, Tensor):
        for block in blocks:
            work(block)
    else:
        each_block(blocks, work)
