"""Cutting a graph into parts, piece by piece: at no time are its edges or its features in memory as a whole.

1. The node table is read for its ids and for how its columns are prepared (`node_table.py`).
2. The edge list is read once. Each edge waits on disk, in both directions, in the bucket of its row.
3. From these buckets nodes get an order in which neighbours are near each other (`ordering.py`), to be cut into parts.
4. Rows of the buckets, and rows of features, which are read from the table once more, move to their parts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.distributed import ordering
from mtgcn.distributed.id_index import LargeIndex
from mtgcn.distributed.node_table import LearnedTable, learned_table
from mtgcn.distributed.shards import MANIFEST, PARTS, Part, is_shards, manifest_text, part_name, write_part
from mtgcn.environment import versions
from mtgcn.errors import InputError
from mtgcn.io.columns import SOURCE_NAMES, TARGET_NAMES, open_table
from mtgcn.io.graph_tables import edge_batches
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.shapes import Int
from mtgcn.storage.files import check_folder
from mtgcn.storage.folders import has_other_files, updating
from mtgcn.storage.locks import HeldElsewhere

MOST_PARTS = 10_000
BYTES_PER_BUCKET = (
    1 << 24
)  # of an edge list, which Parquet packs; to sort a bucket takes a hundred times as much at most
EDGE = np.dtype([("row", np.int64), ("column", np.int64), ("weight", np.float32)])
TRIPLE = np.dtype([("row", np.int64), ("column", np.int32), ("value", np.float32)])


class Spill:
    """Records of one dtype in buckets on disk, for data that exceeds memory. A bucket keeps the order of insertion."""

    def __init__(self, folder: Path, name: str, record: np.dtype, buckets: int) -> None:
        self.record, self.buckets = record, buckets
        self._paths = [folder / f"{name}-{bucket}" for bucket in range(buckets)]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, bucket: Int[np.ndarray, "rows"], records: np.ndarray) -> None:
        """Append each record to its bucket."""
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.buckets))
        for number, rows in enumerate(np.split(records[order], ends[:-1])):
            if len(rows):
                with self._paths[number].open("ab") as file:
                    file.write(rows.tobytes())

    def read(self, bucket: int) -> np.ndarray:
        """All records of a bucket."""
        path = self._paths[bucket]
        return np.fromfile(path, dtype=self.record) if path.exists() else np.zeros(0, dtype=self.record)

    def remove(self, bucket: int) -> None:
        """Delete a bucket."""
        self._paths[bucket].unlink(missing_ok=True)


@dataclass(frozen=True)
class ShardSummary:
    """What was cut, and how."""

    shards: str
    parts: int
    nodes: int
    edges: int
    features: int
    order: str
    boundary: float  # the share of entries that lead from one part to another
    columns: list[str]


def cut(edges: Path, nodes: Path, out: Path, parts: int, choices: TableOptions) -> ShardSummary:
    """Cut the graph of an edge list and a node table into parts, and write them to a folder."""
    if not 1 <= parts <= MOST_PARTS:
        raise InputError(f"--parts is {parts}; give 1 to {MOST_PARTS}")
    check_destination(out)
    edge_table = open_table(readable_file(edges), [SOURCE_NAMES, TARGET_NAMES], choices)
    table = learned_table(nodes, choices)
    if parts > len(table.ids):
        raise InputError(f"--parts is {parts}, and there are {len(table.ids)} nodes; give at most so many")
    old = [path.name for path in out.glob(PARTS)] if out.is_dir() else []
    names = sorted({MANIFEST, *old, *map(part_name, range(parts))})
    try:
        with updating(out, names) as folder:
            waiting = folder / "waiting"
            links = _Links(waiting, edge_table.path.stat().st_size, len(table.ids))
            for batch, _ in edge_batches(edge_table, choices, LargeIndex(table.ids, str(nodes)), str(nodes)):
                links.add(batch.sources, batch.targets, batch.weights)
            summary = _write(folder, waiting, table, links, parts, _writable(edges.name), out)
            shutil.rmtree(waiting)
    except HeldElsewhere:
        raise InputError(f"another process is writing to {out} and does not end; give another folder") from None
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}; make room, or give another folder") from error
    return summary


def _writable(name: str) -> str:
    """The name of a file as JSON can hold it, also where it is no UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def check_destination(folder: Path) -> None:
    """Refuse a place where shards could not be written, or where something else stands: before time is spent."""
    check_folder(folder, holds="the shards")
    if folder.is_dir() and has_other_files(folder) and not is_shards(Path(os.path.abspath(folder))):
        raise InputError(f"{folder} holds files and no shards; give another folder, nothing was touched")


class _Links:
    """Edges that wait on disk, by their row in the node table."""

    def __init__(self, folder: Path, list_bytes: int, nodes: int) -> None:
        self.nodes = nodes
        self.buckets = int(min(nodes, 1 + list_bytes // BYTES_PER_BUCKET))
        self.starts = np.linspace(0, nodes, self.buckets + 1).astype(np.int64)
        self.listed = Spill(folder, "edges", EDGE, self.buckets)
        self.merged = [False] * self.buckets

    def add(self, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
        records = np.empty(2 * len(sources), dtype=EDGE)
        records["row"] = np.concatenate([sources, targets])
        records["column"] = np.concatenate([targets, sources])
        records["weight"] = 1 if weights is None else np.concatenate([weights, weights])
        self.listed.add(np.searchsorted(self.starts, records["row"], side="right") - 1, records)

    def rows(self) -> Iterator[ordering.Rows]:
        """All rows of the adjacency, some at a time. Of the weights listed for a pair the largest counts."""
        for bucket in range(self.buckets):
            first, end = int(self.starts[bucket]), int(self.starts[bucket + 1])
            records = self.listed.read(bucket)
            if not self.merged[bucket]:
                records = _merged(records)
                self.listed.remove(bucket)
                self.listed.add(np.full(len(records), bucket), records)
                self.merged[bucket] = True
            starts = np.searchsorted(records["row"], np.arange(first, end + 1))
            columns, weights = np.ascontiguousarray(records["column"]), np.ascontiguousarray(records["weight"])
            yield first, sp.csr_array((weights, columns, starts), shape=(end - first, self.nodes))


def _merged(records: np.ndarray) -> np.ndarray:
    """Each pair once, with its largest weight, in order; pairs without weight are none."""
    records = records[np.lexsort((-records["weight"], records["column"], records["row"]))]
    again = (np.diff(records["row"], prepend=-1) == 0) & (np.diff(records["column"], prepend=-1) == 0)
    return records[~again & (records["weight"] > 0)]


def _write(
    folder: Path, waiting: Path, table: LearnedTable, links: _Links, parts: int, name: str, out: Path
) -> ShardSummary:
    nodes = links.nodes
    degrees = np.concatenate([np.diff(some.indptr) for _, some in links.rows()])
    order = ordering.local_order(links.rows, nodes, parts) if parts > 1 else np.arange(nodes)
    starts = ordering.cuts(degrees[order] + ordering.OF_A_NODE, parts)
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)

    moved = Spill(waiting, "rows", EDGE, parts)
    loops = inside = 0
    for first, some in links.rows():
        records = _with_diagonal(first, some)
        loops += int(np.count_nonzero((records["row"] == records["column"]) & (records["weight"] > 0)))
        records["row"], records["column"] = place[records["row"]], place[records["column"]]
        mine, theirs = (np.searchsorted(starts, records[end], side="right") - 1 for end in ("row", "column"))
        inside += int(np.count_nonzero((mine == theirs) & (records["row"] != records["column"])))
        moved.add(mine, records)
    features = _Features(waiting, table, place, starts)

    entries = []
    for part in range(parts):
        first, end = int(starts[part]), int(starts[part + 1])
        numbers = order[first:end]
        piece = Part(
            numbers,
            table.ids.take(pa.array(numbers)),
            _csr(moved.read(part), "weight", first, end, nodes),
            features.taken(part, first, end),
        )
        moved.remove(part)
        entries.append(write_part(folder / part_name(part), piece))
    total = int(degrees.sum())
    card: dict[str, Any] = {
        "name": name,
        "nodes": nodes,
        "edges": (total - loops) // 2,
        "entries": total,
        "features": features.width,
        "feature_names": list(table.preprocessing.names),
        "sparse": features.sparse,
        "preprocessing": table.preprocessing.plain(),
        "order": ordering.TITLE if parts > 1 else "as in the node table",
        "versions": versions(),
        "parts": entries,
    }
    (folder / MANIFEST).write_text(manifest_text(card), encoding="utf-8")
    return ShardSummary(
        shards=str(out),
        parts=parts,
        nodes=nodes,
        edges=card["edges"],
        features=features.width,
        order=card["order"],
        boundary=1 - inside / max(1, total - loops),
        columns=table.preprocessing.lines(),
    )


def _with_diagonal(first: int, some: sp.csr_array) -> np.ndarray:
    """The entries of these rows, and one on the diagonal of weight 0 where there is none."""
    rows = np.arange(first, first + some.shape[0])
    row = np.repeat(rows, np.diff(some.indptr))
    lacking = np.setdiff1d(rows, row[some.indices == row], assume_unique=True)
    records = np.zeros(len(row) + len(lacking), dtype=EDGE)
    records["row"] = np.concatenate([row, lacking])
    records["column"] = np.concatenate([some.indices, lacking])
    records["weight"][: len(row)] = some.data
    return records


def _csr(records: np.ndarray, values: str, first: int, end: int, width: int) -> sp.csr_array:
    """The rows from `first` up to `end`, of records that come in any order."""
    records = records[np.lexsort((records["column"], records["row"]))]
    starts = np.searchsorted(records["row"], np.arange(first, end + 1))
    kind = np.int32 if max(width, len(records)) < 2**31 else np.int64
    columns = records["column"].astype(kind)
    return sp.csr_array((records[values].copy(), columns, starts.astype(kind)), shape=(end - first, width))


class _Features:
    """Rows of features that wait on disk for their parts, sparse or dense as the preprocessing makes them."""

    def __init__(self, folder: Path, table: LearnedTable, place: np.ndarray, starts: np.ndarray) -> None:
        self.width = len(table.preprocessing.names)
        self.sparse = False
        self._spill: Spill | None = None
        done = 0
        for some in table.features():
            rows = place[done : done + some.shape[0]]
            done += some.shape[0]
            if done > len(place):
                break
            records = self._records(some, rows)
            self._spill = self._spill or Spill(folder, "features", records.dtype, len(starts) - 1)
            self._spill.add(np.searchsorted(starts, records["row"], side="right") - 1, records)
        if done != len(place):
            raise InputError(f"{table.table.path} has changed since it was read first; let it be, and try again")

    def _records(self, some: sp.csr_array | np.ndarray, rows: Int[np.ndarray, "rows"]) -> np.ndarray:
        if isinstance(some, np.ndarray):
            records = np.empty(len(rows), dtype=[("row", np.int64), ("values", np.float32, (self.width,))])
            records["row"], records["values"] = rows, some
            return records
        self.sparse = True
        triples = np.empty(some.nnz, dtype=TRIPLE)
        triples["row"] = np.repeat(rows, np.diff(some.indptr))
        triples["column"], triples["value"] = some.indices, some.data
        return triples

    def taken(self, part: int, first: int, end: int) -> sp.csr_array | np.ndarray:
        """The rows of a part, in order; they wait no longer."""
        assert self._spill is not None, "a table has rows"
        records = self._spill.read(part)
        self._spill.remove(part)
        if self.sparse:
            return _csr(records, "value", first, end, self.width)
        return np.ascontiguousarray(records["values"][np.argsort(records["row"])])
