"""What one rank holds of a graph: the nodes of its parts, their features, and their rows of Â."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    features: Any  # sp.csr_array | np.ndarray; scipy's arrays are untyped
    boundary: Boundary
    degrees: Float[np.ndarray, "both"]  # row sums of A + I, of this rank's nodes and of its boundary
    adjacency: SharedOperator  # Â

    @property
    def num_nodes(self) -> int:
        """Of this rank."""
        return len(self.numbers)

    @property
    def whole(self) -> Graph:
        """For what is declared to take a graph, and asks it for no more than its numbers of nodes and features."""
        return cast("Graph", self.manifest)

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
    pieces = ranks.together(lambda: [read_part(manifest, part) for part in mine])
    firsts = np.cumsum([0, *(part["nodes"] for part in manifest.parts)])
    starts = [int(firsts[parts_of(rank, ranks.count, count).start]) for rank in range(ranks.count)]
    starts.append(manifest.num_nodes)

    rows = _stacked([piece.adjacency for piece in pieces])
    features = _stacked([piece.features for piece in pieces])
    numbers = torch.from_numpy(np.concatenate([piece.numbers for piece in pieces])).to(ranks.device)
    ids = pa.concat_arrays([piece.ids for piece in pieces])
    del pieces
    first, end = starts[ranks.rank], starts[ranks.rank + 1]
    columns = rows.indices
    outside = (columns < first) | (columns >= end)
    needed = np.unique(columns[outside]).astype(np.int64)
    columns = columns.astype(np.int32) if manifest.num_nodes < 2**31 else columns
    columns[outside] = end - first + np.searchsorted(needed, columns[outside])
    columns[~outside] -= first
    columns = columns.astype(np.int32, copy=False)
    boundary = Boundary.settled(ranks, starts, needed)
    degrees = (_row_sums(rows) + 1).astype(np.float32)  # of A + I
    beside = boundary.beside(torch.from_numpy(degrees)[:, None].to(ranks.device))[:, 0].cpu().numpy()
    values = _normalised(rows, columns, beside)
    shape = (end - first, end - first + len(needed))
    matrix = sp.csr_array((values, columns, rows.indptr.astype(np.int32)), shape=shape)
    return LocalGraph(
        ranks, manifest, mine, starts, numbers, ids, features, boundary, beside, shared_operator(matrix, boundary)
    )


def _row_sums(rows: sp.csr_array) -> Float[np.ndarray, "here"]:
    return np.asarray(rows.sum(axis=1), dtype=np.float32).reshape(-1)


def _normalised(rows: sp.csr_array, columns: np.ndarray, degrees: np.ndarray) -> Float[np.ndarray, "entries"]:
    """(A + I) D̃^-1/2 on both sides; the diagonal is stored already."""
    lengths = np.diff(rows.indptr)
    row = np.repeat(np.arange(rows.shape[0], dtype=np.int32), lengths)
    values = rows.data + (columns == row)
    values /= np.sqrt(degrees[row] * degrees[columns])
    return values.astype(np.float32, copy=False)


def _stacked(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    return (
        np.concatenate(pieces) if isinstance(pieces[0], np.ndarray) else sp.csr_array(sp.vstack(pieces, format="csr"))
    )
