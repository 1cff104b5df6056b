"""What one rank holds of a graph: the nodes of its parts, their features, and their rows of Â."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.distributed.exchange import Boundary, SharedOperator, shared_operator
from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.shards import Manifest, read_part
from mtgcn.errors import InputError
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, eq=False)
class LocalGraph:
    """This rank's nodes, in the order of all parts. Where it matters which node comes first, or which random numbers
    are a node's, its number counts, not its place: so that no answer depends on how the graph was cut."""

    ranks: Ranks
    manifest: Manifest
    parts: range  # of this rank
    starts: Sequence[int]  # the place of each rank's first node, and of none
    numbers: Int[Tensor, "here"]  # the row of each node in the node table
    ids: pa.Array
    held_features: list[Any]  # sp.csr_array | np.ndarray, of which `take_features` leaves nothing
    boundary: Boundary
    degrees: Float[np.ndarray, "both"]  # row sums of A + I, of this rank's nodes and of its boundary
    adjacency: SharedOperator  # Â

    @property
    def num_nodes(self) -> int:
        """Of this rank."""
        return len(self.numbers)

    @property
    def whole(self) -> Graph:
        """For what is declared to take a graph, asking for no more than its numbers of nodes, neighbours, features."""
        return cast("Graph", self.manifest)

    def take_features(self) -> Any:
        """The features, once: whoever has them may write over them, and nobody else keeps them in memory."""
        return self.held_features.pop()

    @cached_property
    def neighbours(self) -> SharedOperator:
        """A without self-loops, in the same rows and columns as Â."""
        matrix = self.adjacency.matrix
        row = np.repeat(np.arange(self.num_nodes), np.diff(matrix.indptr))
        weights = matrix.data * np.sqrt(self.degrees[row] * self.degrees[matrix.indices])
        weights[matrix.indices == row] = 0
        return shared_operator(
            sp.csr_array((weights.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape), self.boundary
        )

    @cached_property
    def by_number(self) -> tuple[Int[Tensor, "here"], Int[Tensor, "here"]]:
        """The numbers of this rank's nodes from the smallest on, and whose they are."""
        ordered = self.numbers.sort()
        return ordered.values, ordered.indices

    def of_numbers(self, numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Which of this rank's nodes have these numbers, that are all of some."""
        ordered, node = self.by_number
        return node[torch.searchsorted(ordered, numbers.contiguous()).clamp(max=len(ordered) - 1)]


def parts_of(rank: int, ranks: int, parts: int) -> range:
    """The parts that are dealt to a rank: next to each other, since neighbours are."""
    return range(rank * parts // ranks, (rank + 1) * parts // ranks)


def read_local_graph(manifest: Manifest, ranks: Ranks) -> LocalGraph:
    """This rank's share of the shards. All ranks read at the same time, and tell each other what they need."""
    count = len(manifest.parts)
    if ranks.count > count:
        raise InputError(
            f"{ranks.count} ranks for {count} parts; start at most {count} ranks, or shard again with more --parts"
        )
    mine = parts_of(ranks.rank, ranks.count, count)
    firsts = np.cumsum([0, *(part["nodes"] for part in manifest.parts)])
    starts = [int(firsts[parts_of(rank, ranks.count, count).start]) for rank in range(ranks.count)]
    starts.append(manifest.num_nodes)
    read = ranks.together(lambda: _Reading.of(manifest, mine))
    first, end = starts[ranks.rank], starts[ranks.rank + 1]
    needed, columns = _renumbered(read.columns, first, end)
    boundary = Boundary.settled(ranks, starts, needed)
    degrees = torch.from_numpy(read.row_sums + 1)[:, None].to(ranks.device)  # of A + I
    beside = boundary.beside(degrees)[:, 0].cpu().numpy()
    _normalise(read.values, columns, read.row_starts, beside)
    shape = (end - first, end - first + len(needed))
    matrix = sp.csr_array((read.values, columns, read.row_starts), shape=shape)
    return LocalGraph(
        ranks,
        manifest,
        mine,
        starts,
        torch.from_numpy(read.numbers).to(ranks.device),
        pa.concat_arrays(read.ids),
        [read.features],
        boundary,
        beside,
        shared_operator(matrix, boundary),
    )


@dataclass(frozen=True, eq=False)
class _Reading:
    """The parts of a rank one below the other. They are read one by one into arrays that have room for all, so that
    reading takes hardly more memory than what is read."""

    numbers: Int[np.ndarray, "here"]
    ids: list[pa.Array]
    features: Any
    row_starts: Int[np.ndarray, "here_and_one"]
    columns: Int[np.ndarray, "entries"]  # places in the order of all nodes
    values: Float[np.ndarray, "entries"]  # of A, the diagonal stored
    row_sums: Float[np.ndarray, "here"]

    @staticmethod
    def of(manifest: Manifest, parts: range) -> _Reading:
        nodes = sum(manifest.parts[part]["nodes"] for part in parts)
        entries = sum(manifest.parts[part]["entries"] for part in parts)
        sparse: list[sp.csr_array] = []
        read = _Reading(
            numbers=np.empty(nodes, dtype=np.int64),
            ids=[],
            features=None if manifest.card["sparse"] else np.empty((nodes, manifest.num_features), dtype=np.float32),
            row_starts=np.zeros(nodes + 1, dtype=np.int32 if entries < 2**31 else np.int64),
            columns=np.empty(entries, dtype=np.int32 if manifest.num_nodes < 2**31 else np.int64),
            values=np.empty(entries, dtype=np.float32),
            row_sums=np.empty(nodes, dtype=np.float32),
        )
        node = entry = 0
        for number in parts:
            part = read_part(manifest, number)
            rows = slice(node, node + len(part.numbers))
            some = slice(entry, entry + part.adjacency.nnz)
            node, entry = rows.stop, some.stop
            read.numbers[rows] = part.numbers
            read.ids.append(part.ids)
            read.row_starts[rows.start + 1 : rows.stop + 1] = part.adjacency.indptr[1:] + some.start
            read.columns[some], read.values[some] = part.adjacency.indices, part.adjacency.data
            read.row_sums[rows] = np.asarray(part.adjacency.sum(axis=1)).reshape(-1)
            if read.features is None:
                sparse.append(part.features)
            else:
                read.features[rows] = part.features
        return replace(read, features=sp.csr_array(sp.vstack(sparse, format="csr"))) if sparse else read


AT_ONCE = 1 << 21  # entries that are looked at together, for what takes memory for each of them


def _renumbered(columns: Int[np.ndarray, "entries"], first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of other ranks among these columns, in order; and the columns counted from `first`, where these others
    come after `end`. What is given is written over."""
    pieces = [slice(start, start + AT_ONCE) for start in range(0, len(columns), AT_ONCE)]
    outside = [np.unique(some[(some < first) | (some >= end)]) for some in (columns[piece] for piece in pieces)]
    needed = np.unique(np.concatenate([*outside, np.zeros(0, columns.dtype)])).astype(np.int64)
    for piece in pieces:
        some = columns[piece]
        strange = (some < first) | (some >= end)
        columns[piece] = np.where(strange, end - first + np.searchsorted(needed, some), some - first)
    return needed, columns.astype(np.int32, copy=False)


def _normalise(
    values: Float[np.ndarray, "entries"],
    columns: Int[np.ndarray, "entries"],
    row_starts: Int[np.ndarray, "here_and_one"],
    degrees: Float[np.ndarray, "both"],
) -> None:
    """D̃^-1/2 (A + I) D̃^-1/2, written over A, whose diagonal is stored already."""
    for start in range(0, len(values), AT_ONCE):
        some = slice(start, min(start + AT_ONCE, len(values)))
        row = np.searchsorted(row_starts, np.arange(some.start, some.stop), side="right") - 1
        values[some] += columns[some] == row
        values[some] /= np.sqrt(degrees[row] * degrees[columns[some]])
