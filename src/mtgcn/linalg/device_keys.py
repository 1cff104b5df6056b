"""Keys of nodes (`node_keys.py`) as tensors on a device, and what is drawn by them: the same on every device.

On the processor NumPy makes them, block by block in several threads: in half the time that torch takes. Elsewhere they
are made there. torch has no unsigned words to calculate with, but sums and products of signed ones wrap around to the
same bits; a shift to the right has to be told to bring in zeros, and whoever sorts has to turn the highest bit round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph_cache import once_per_graph
from mtgcn.linalg import node_keys as on_processor
from mtgcn.linalg.blocks import blocks_of_rows
from mtgcn.linalg.device_graph import ENTRIES_AT_ONCE, adjacency_there, entry_blocks, features_there, row_sums
from mtgcn.linalg.operators import CsrArrays, csr_arrays
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph

HIGHEST = -(2**63)
LOW = 2**32 - 1


@once_per_graph
def device_keys(graph: Graph, device: torch.device) -> Int[Tensor, "nodes"]:
    """The bits of `node_keys`."""
    if device.type == "cpu":
        return _signed(on_processor.node_keys(graph))
    return keys_there(graph, device)


def draws(keys: Int[Tensor, "nodes"], seed: int, draw: int) -> Int[Tensor, "nodes"]:
    """A random word for each node; no two are alike."""
    return _scrambled(keys ^ _purpose(seed, draw)) ^ HIGHEST


def random_order(keys: Int[Tensor, "nodes"], seed: int, draw: int) -> Int[Tensor, "nodes"]:
    """The nodes in a random order, the same whichever way they are sorted."""
    return torch.argsort(draws(keys, seed, draw))


def keyed_orders(keys: Int[Tensor, "nodes"], seed: int, count: int) -> Iterator[Int[Tensor, "nodes"]]:
    """`count` random permutations of the nodes, one after the other: in each, the node that every node is exchanged
    for."""
    for number in range(count):
        one, other = (random_order(keys, seed, 2 * number + half) for half in (0, 1))
        yield torch.empty_like(one).scatter_(0, one, other)


def keyed_normal(keys: Int[Tensor, "nodes"], seed: int, columns: int) -> Float[Tensor, "nodes columns"]:
    """Normally distributed numbers, `columns` for each node; on different devices the same but for rounding."""
    if keys.device.type == "cpu":
        return torch.from_numpy(on_processor.keyed_normal(_unsigned(keys), seed, columns))
    return normal_there(keys, seed, columns)


def _signed(words: np.ndarray) -> Tensor:
    return torch.from_numpy(words.view(np.int64))


def _unsigned(words: Tensor) -> np.ndarray:
    return words.numpy().view(np.uint64)


def keys_there(graph: Graph, device: torch.device) -> Int[Tensor, "nodes"]:
    """`node_keys`, by the device itself."""
    keys = _feature_keys(graph, device)
    for _ in range(on_processor.ROUNDS):
        keys = _surrounded(keys, adjacency_there(graph, device), graph.adjacency.indptr)
    return _numbered(keys)


def normal_there(keys: Int[Tensor, "nodes"], seed: int, columns: int) -> Float[Tensor, "nodes columns"]:
    """`keyed_normal`, by the device itself."""
    numbers = torch.empty(len(keys), columns, device=keys.device)
    purposes = keys.new_tensor([_purpose(seed, column) for column in range(columns)])
    for nodes in blocks_of_rows(len(keys), columns, ENTRIES_AT_ONCE):
        words = _scrambled(keys[nodes, None] ^ purposes)
        # Box and Muller (1958), from the two halves of a word.
        radius = (((words >> 32) & LOW).add_(1).double() / 2.0**32).log_().mul_(-2).sqrt_()
        angle = (words & LOW).double().mul_(2 * math.pi).div_(2.0**32)
        numbers[nodes] = angle.cos_().mul_(radius).float()
    return numbers


def _purpose(seed: int, draw: int) -> int:
    return int(on_processor.purpose_of(seed, draw).view(np.int64))


def _scrambled(words: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    words = words + _ODD
    words.bitwise_xor_(_shifted(words, 30)).mul_(_FIRST)
    words.bitwise_xor_(_shifted(words, 27)).mul_(_SECOND)
    return words.bitwise_xor_(_shifted(words, 31))


def _shifted(words: Int[Tensor, "*any"], places: int) -> Int[Tensor, "*any"]:
    """To the right, with zeros from the left."""
    return (words >> places).bitwise_and_(2 ** (64 - places) - 1)


_ODD, _FIRST, _SECOND = (int(word.view(np.int64)) for word in on_processor.SPLITMIX)


def _surrounded(
    keys: Int[Tensor, "nodes"], adjacency: CsrArrays, host_starts: Int[np.ndarray, "nodes_and_one"]
) -> Int[Tensor, "nodes"]:
    """The keys with a look at the neighbours."""
    row_starts, columns, values = adjacency
    sums = torch.empty_like(keys)
    for rows, entries in entry_blocks(host_starts):
        weights = _scrambled(_bits(values[entries]))
        terms = _scrambled(weights.bitwise_xor_(keys.index_select(0, columns[entries])))
        sums[rows] = row_sums(terms, row_starts[rows.start : rows.stop + 1])
    return _scrambled(keys + _scrambled(sums + _ODD))


def _numbered(keys: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
    """Equal keys made different, by how many equal ones stand before."""
    ranked, order = torch.sort(keys, stable=True)
    place = torch.arange(len(keys), device=keys.device)
    new = torch.ones_like(ranked, dtype=torch.bool)
    new[1:] = ranked[1:] != ranked[:-1]
    before = torch.empty_like(keys)
    before[order] = place - torch.where(new, place, 0).cummax(0).values
    return torch.where(before == 0, keys, _scrambled(keys + _scrambled(before)))


def _feature_keys(graph: Graph, device: torch.device) -> Int[Tensor, "nodes"]:
    keys = torch.zeros(graph.num_nodes, dtype=torch.int64, device=device)
    if graph.features is None:
        return keys
    places = _scrambled(torch.arange(graph.num_features, device=device))
    if isinstance(graph.features, sp.csr_array):
        row_starts, columns, values = csr_arrays(graph.features, device)
        for rows, entries in entry_blocks(graph.features.indptr):
            terms = _entry_keys(values[entries], places.index_select(0, columns[entries]))
            keys[rows] = row_sums(terms, row_starts[rows.start : rows.stop + 1])
        return keys
    dense = features_there(graph, device)
    for rows in blocks_of_rows(len(dense), dense.shape[1], ENTRIES_AT_ONCE):
        keys[rows] = _entry_keys(dense[rows], places).sum(1)
    return keys


def _entry_keys(values: Float[Tensor, "*any"], places: Int[Tensor, "*some"]) -> Int[Tensor, "*any"]:
    """What an entry adds to its row's key; nothing where it is 0."""
    bits = _bits(values + 0.0)  # -0 is 0
    nothing = bits == 0
    return _scrambled(_scrambled(bits).add_(places)).masked_fill_(nothing, 0)


def _bits(values: Float[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    return values.contiguous().view(torch.int32).long().bitwise_and_(LOW)
