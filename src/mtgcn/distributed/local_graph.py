"""The part of a graph that one rank holds: a `Graph` with its nodes, their features and their rows of A."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from mtgcn.distributed.communicator import RankCommunicator, Ranks
from mtgcn.distributed.shards import Manifest, read_part
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Float, Int
from mtgcn.task import Nodes, Task, run_seed


class LocalGraph(Graph):
    """The nodes of one rank. Sizes are those of the whole graph; rows of tables are those of this rank's nodes.

    Columns of the adjacency are this rank's nodes, then its boundary. The diagonal is stored, zeros included.
    """

    communicator: RankCommunicator  # type: ignore[misc]
    ranks: Ranks
    manifest: Manifest
    parts: range  # of this rank
    numbers: Int[np.ndarray, "here"]  # rows in the node table
    ids: pa.Array

    def __init__(self, communicator: RankCommunicator, manifest: Manifest, parts: range, read: _Parts) -> None:
        shape = (communicator.here, communicator.here + communicator.boundary_size)
        labels = np.full(communicator.here, UNLABELED)
        vars(self).update(  # the parts were checked when they were read, and a graph is frozen
            adjacency=sp.csr_array((read.values, read.columns, read.row_starts), shape=shape),
            features=read.features,
            labels=labels,
            class_names=(),
            name=manifest.name,
            communicator=communicator,
            ranks=communicator.ranks,
            manifest=manifest,
            parts=parts,
            numbers=read.numbers,
            ids=pa.concat_arrays(read.ids),
        )

    @property
    def num_nodes(self) -> int:
        return self.manifest.num_nodes

    @property
    def mean_degree(self) -> float:
        return self.manifest.mean_degree

    @property
    def with_self_loops(self) -> sp.csr_array:
        """A + I, with the same index arrays."""
        adjacency = self.adjacency
        row = np.repeat(np.arange(adjacency.shape[0], dtype=np.int32), np.diff(adjacency.indptr))
        values = adjacency.data + (adjacency.indices == row)
        return sp.csr_array((values.astype(np.float32), adjacency.indices, adjacency.indptr), shape=adjacency.shape)

    def task(self, labels: Int[np.ndarray, "here"], class_names: tuple[str, ...], seed: int) -> Task:
        """The task with these labels of this rank's nodes, in the order of the node table."""
        vars(self)["class_names"] = class_names
        index = np.flatnonzero(labels != UNLABELED)
        index = index[np.argsort(self.numbers[index])]
        labelled = Nodes(torch.from_numpy(index)[None], torch.from_numpy(labels[index].astype(np.int64))[None])
        device = self.ranks.device
        return Task(self, labelled.to(device), seeds=(run_seed(seed, 0),), device=device, seed=seed)


def parts_of(rank: int, ranks: int, parts: int) -> range:
    """The parts of a rank: consecutive ones, since their nodes are neighbours."""
    return range(rank * parts // ranks, (rank + 1) * parts // ranks)


def read_local_graph(manifest: Manifest, ranks: Ranks) -> LocalGraph:
    """Read this rank's share of the shards. All ranks call this."""
    count = len(manifest.parts)
    if ranks.count > count:
        raise InputError(
            f"{ranks.count} ranks for {count} parts; start at most {count} ranks, or shard again with more --parts"
        )
    mine = parts_of(ranks.rank, ranks.count, count)
    firsts = np.cumsum([0, *(part.nodes for part in manifest.parts)])
    starts = [int(firsts[parts_of(rank, ranks.count, count).start]) for rank in range(ranks.count)]
    starts.append(manifest.num_nodes)
    read = ranks.together(lambda: _Parts.read(manifest, mine))
    boundary, columns = _renumbered(read.columns, starts[ranks.rank], starts[ranks.rank + 1])
    communicator = RankCommunicator(ranks, starts, read.numbers, boundary)
    return LocalGraph(communicator, manifest, mine, replace(read, columns=columns))


@dataclass(frozen=True, eq=False)
class _Parts:
    """The parts of a rank, read one by one into arrays for all of them, to save memory."""

    numbers: Int[np.ndarray, "here"]
    ids: list[pa.Array]
    features: Any
    row_starts: Int[np.ndarray, "here_and_one"]
    columns: Int[np.ndarray, "entries"]  # positions in the order of all nodes
    values: Float[np.ndarray, "entries"]  # of A, the diagonal stored

    @staticmethod
    def read(manifest: Manifest, parts: range) -> _Parts:
        nodes = sum(manifest.parts[part].nodes for part in parts)
        entries = sum(manifest.parts[part].entries for part in parts)
        sparse: list[sp.csr_array] = []
        read = _Parts(
            numbers=np.empty(nodes, dtype=np.int64),
            ids=[],
            features=None if manifest.sparse else np.empty((nodes, manifest.num_features), dtype=np.float32),
            row_starts=np.zeros(nodes + 1, dtype=np.int32 if entries < 2**31 else np.int64),
            columns=np.empty(entries, dtype=np.int32 if manifest.num_nodes < 2**31 else np.int64),
            values=np.empty(entries, dtype=np.float32),
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
            if read.features is None:
                sparse.append(part.features)
            else:
                read.features[rows] = part.features
        return replace(read, features=sp.csr_array(sp.vstack(sparse, format="csr"))) if sparse else read


ENTRIES_AT_ONCE = 1 << 21  # entries for which temporary arrays are held


def _renumbered(columns: Int[np.ndarray, "entries"], first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The boundary, sorted, and the columns, in place: this rank's nodes count from 0, then the boundary."""
    blocks = [slice(start, start + ENTRIES_AT_ONCE) for start in range(0, len(columns), ENTRIES_AT_ONCE)]
    outside = [np.unique(some[(some < first) | (some >= end)]) for some in (columns[block] for block in blocks)]
    boundary = np.unique(np.concatenate([*outside, np.zeros(0, columns.dtype)])).astype(np.int64)
    for block in blocks:
        some = columns[block]
        is_outside = (some < first) | (some >= end)
        columns[block] = np.where(is_outside, end - first + np.searchsorted(boundary, some), some - first)
    return boundary, columns.astype(np.int32, copy=False)
