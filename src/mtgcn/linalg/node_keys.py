"""Random numbers keyed by the content of nodes, independent of the node order.

The key of a node is a hash of its features and, in two rounds, of its neighbours' keys. Nodes whose keys are still
equal are numbered, so that all keys differ. Keys are 64-bit words: tensors of signed integers, since torch has no
unsigned arithmetic, or NumPy arrays of unsigned integers with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import device_adjacency, device_features, relative_adjacency, row_sums
from mtgcn.linalg.operators import blocks_of_entries, blocks_of_rows, csr_arrays, each_block
from mtgcn.shapes import Float, Int, Real, UInt64

ROUNDS = 2  # rounds of hashing the neighbours' keys
# Words computed together. torch uses one thread for so few words on the CPU; blocks run in parallel instead.
AT_ONCE = {"cpu": 2**15, "cuda": 2**24}
# The increment (the golden ratio in 64 bits) and the factors of splitmix64, as signed integers.
GOLDEN, *FACTORS = (number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
CPU = torch.device("cpu")

Words = TypeVar("Words", np.ndarray, Tensor)
Array = np.ndarray | Tensor


@cached_per_graph
def node_keys(graph: Graph, device: torch.device = CPU) -> Int[Tensor, "nodes"]:
    """A 64-bit key for each node. Sums of hashes wrap around, so the order of their terms does not matter.

    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> reordered = Graph(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    >>> bool(node_keys(path)[1] == node_keys(reordered)[0])  # the node in the middle
    True
    >>> len(set(node_keys(path).tolist()))
    3
    """
    if device.type != "cpu" and not graph.communicator.has_whole_graph:
        return node_keys(graph, CPU).to(device)
    on_cpu, features, adjacency = device.type == "cpu", graph.features, relative_adjacency(graph)
    keys = torch.zeros(adjacency.shape[0], dtype=torch.int64, device=device)
    if features is not None:
        places = splitmix64(torch.arange(features.shape[1], device=device))
    if isinstance(features, np.ndarray):
        dense = features if on_cpu else device_features(graph, device)

        def add_up(rows: slice) -> None:
            keys[rows] = _entry_keys(_part(dense, rows), places).sum(1)

        _each(blocks_of_rows(len(features), features.shape[1], AT_ONCE[device.type]), add_up, device)
    elif features is not None:
        arrays = (features.indptr, features.indices, features.data) if on_cpu else csr_arrays(features, device)
        keys = _row_sums(features, arrays, device, lambda columns, values: _entry_keys(values, places[columns]))
    arrays = (adjacency.indptr, adjacency.indices, adjacency.data) if on_cpu else device_adjacency(graph, device)
    for _ in range(ROUNDS):
        neighbours = graph.communicator.with_boundary(keys)

        def terms(columns: Tensor, values: Tensor, neighbours: Tensor = neighbours) -> Tensor:
            return splitmix64(neighbours[columns] ^ splitmix64(_bits(values))) * (values != 0)  # 0 is not an edge

        keys = splitmix64(keys + splitmix64(_row_sums(adjacency, arrays, device, terms) + GOLDEN))
    ranks = graph.communicator.duplicate_ranks(keys)
    return torch.where(ranks == 0, keys, splitmix64(keys + splitmix64(ranks)))


def keyed_bits(keys: Words, seed: int, draw: int) -> Words:
    """A random 64-bit word for each key."""
    if isinstance(keys, np.ndarray):
        return as_array(keyed_bits(as_tensor(keys), seed, draw))
    return splitmix64(keys ^ int(_streams(seed, [draw]).view(np.int64)[0]))


def keyed_normal(keys: Int[Tensor, "nodes"], seed: int, columns: int) -> Float[Tensor, "nodes columns"]:
    """Standard normal numbers, `columns` for each key; devices differ by rounding only."""
    numbers = torch.empty(len(keys), columns, device=keys.device)
    streams = as_tensor(_streams(seed, range(columns))).to(keys.device)

    def draw(rows: slice) -> None:
        # The method of Box and Muller (1958), applied to the two halves of a word.
        words = splitmix64(keys[rows, None] ^ streams)
        high, low = _shifted_right(words, 32).double(), (words & 0xFFFFFFFF).double()
        numbers[rows] = (-2 * ((high + 1) / 2.0**32).log()).sqrt() * (2 * np.pi * low / 2.0**32).cos()

    _each(blocks_of_rows(len(keys), columns, AT_ONCE[keys.device.type]), draw, keys.device)
    return numbers


def splitmix64(words: Words) -> Words:
    """Mixes 64-bit words, so that every bit of the result depends on every bit of the argument."""
    if isinstance(words, np.ndarray):
        return as_array(splitmix64(as_tensor(words)))
    words = words + GOLDEN
    for places, factor in zip((30, 27, 31), (*FACTORS, 1), strict=True):
        words = _shifted_right(words, places).bitwise_xor_(words).mul_(factor)  # in place, which is faster
    return words


def as_tensor(words: UInt64[np.ndarray, "*any"]) -> Int[Tensor, "*any"]:
    """The same bits as a tensor."""
    return torch.from_numpy((words if words.flags.writeable else words.copy()).view(np.int64))


def as_array(words: Int[Tensor, "*any"]) -> UInt64[np.ndarray, "*any"]:
    """The same bits as an array in main memory."""
    return words.cpu().numpy().view(np.uint64)


def _row_sums(
    matrix: sp.csr_array,
    arrays: tuple[Array, Array, Array],
    device: torch.device,
    terms: Callable[[Int[Tensor, "entries"], Real[Tensor, "entries"]], Int[Tensor, "entries"]],
) -> Int[Tensor, "rows"]:
    """For each row of a sparse matrix, the sum of `terms(columns, values)` over its entries."""
    starts, columns, values = arrays
    found = torch.zeros(matrix.shape[0], dtype=torch.int64, device=device)

    def add_up(rows: slice) -> None:
        entries = slice(int(matrix.indptr[rows.start]), int(matrix.indptr[rows.stop]))
        pointers = slice(rows.start, rows.stop + 1)
        found[rows] = row_sums(terms(_part(columns, entries), _part(values, entries)), _part(starts, pointers))

    _each(blocks_of_entries(matrix.indptr, AT_ONCE[device.type]), add_up, device)
    return found


def _each(blocks: Sequence[slice], work: Callable[[slice], None], device: torch.device) -> None:
    each_block(blocks, work, None if device.type == "cpu" else 1)


def _part(array: Array, some: slice) -> Tensor:
    return array[some] if isinstance(array, Tensor) else torch.from_numpy(array[some].copy())


def _entry_keys(values: Tensor, places: Tensor) -> Tensor:
    """The term that an entry adds to the key of its row; 0 for an entry of 0."""
    bits = _bits(values)
    return splitmix64(places + splitmix64(bits)) * (bits != 0)


def _bits(values: Real[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """The bits of 32-bit numbers as words; -0 counts as 0."""
    return (values.float() + 0.0).view(torch.int32).long() & 0xFFFFFFFF


def _streams(seed: int, draws: Sequence[int]) -> UInt64[np.ndarray, "draws"]:
    """A distinct word for each draw of a seed."""
    return np.concatenate([np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64) for draw in draws])


def _shifted_right(words: Tensor, places: int) -> Tensor:
    return (words >> places).bitwise_and_(2 ** (64 - places) - 1)  # >> copies the sign bit
