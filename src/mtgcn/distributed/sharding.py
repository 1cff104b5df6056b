"""Sharding: splitting a graph into parts without holding all its edges or features in memory.

1. The node table is read for its ids and to fit the preprocessing (`node_table.py`).
2. The edge list is read once. Each edge is written to disk, in both directions, to the bucket of its row.
3. From these buckets follows an order of the nodes with neighbours near each other, which is cut into parts.
4. Rows of the adjacency, and of the features, which are read from the table again, move to their parts.

The order: a node joins the community that most of its edges lead to, within a size limit, a few times over (label
propagation; Raghavan et al., 2007). Communities join larger ones in the same way, level by level, until few are left,
which are ordered by reverse Cuthill-McKee (1969). The members of a community are consecutive at every level, so that
few edges connect different parts. Memory holds a few numbers per node and the links between communities.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mtgcn.distributed.node_table import FittedTable, LargeIndex, fit_table
from mtgcn.distributed.shards import MANIFEST, PARTS, Part, is_shards, manifest_text, part_name, write_part
from mtgcn.environment import versions
from mtgcn.errors import InputError
from mtgcn.io.graph_tables import edge_batches
from mtgcn.io.options import TableOptions
from mtgcn.io.roles import open_table
from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int, Real
from mtgcn.storage.files import HeldElsewhere, check_folder, has_other_files, updating

MAX_PARTS = 10_000
BYTES_PER_BUCKET = 1 << 24  # of an edge list; sorting a bucket takes at most a hundred times as much
EDGE = np.dtype([("row", np.int64), ("column", np.int64), ("weight", np.float32)])
TRIPLE = np.dtype([("row", np.int64), ("column", np.int32), ("value", np.float32)])
ORDER_TITLE = "communities of communities by label propagation, the largest ordered by reverse Cuthill-McKee"
ROUNDS = 8  # of label propagation
COMMUNITIES_PER_PART = 16  # at least, on the first level, for parts of similar size
GROWTH = 4  # of the size limit from level to level
MAX_LINKS = 1 << 24  # between communities in memory; weaker ones are dropped
NODE_COST = 32  # cost of a node in entries of the adjacency

# Consecutive rows of the adjacency: the number of the first row, and the rows.
Rows = tuple[int, sp.csr_array]
RowNumbers = Int[np.ndarray, "rows"]
NodeNumbers = Int[np.ndarray, "nodes"]


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

    def read(self, bucket: int, *, remove: bool = False) -> np.ndarray:
        """All records of a bucket, which may then be removed from disk."""
        path = self._paths[bucket]
        records = np.fromfile(path, dtype=self.record) if path.exists() else np.zeros(0, dtype=self.record)
        if remove:
            path.unlink(missing_ok=True)
        return records


def shard_files(edges: Path, nodes: Path, out: Path, parts: int, options: TableOptions) -> dict[str, Any]:
    """Split the graph of an edge list and a node table into parts, and write them to a folder; returns a summary."""
    if not 1 <= parts <= MAX_PARTS:
        raise InputError(f"--parts is {parts}; give 1 to {MAX_PARTS}")
    check_folder(out, holds="the shards")
    if out.is_dir() and has_other_files(out) and not is_shards(Path(os.path.abspath(out))):
        raise InputError(f"{out} holds files and no shards; give another folder, nothing was touched")
    edge_table = open_table(edges, options, edges=True)
    table = fit_table(nodes, options)
    if parts > len(table.ids):
        raise InputError(f"--parts is {parts} and exceeds the {len(table.ids)} nodes; give at most {len(table.ids)}")
    old = [path.name for path in out.glob(PARTS)] if out.is_dir() else []
    try:
        with updating(out, sorted({MANIFEST, *old, *map(part_name, range(parts))})) as folder:
            spill = folder / "spill"
            links = _Links(spill, edge_table.path.stat().st_size, len(table.ids))
            for batch, _ in edge_batches(edge_table, options, LargeIndex(table.ids, str(nodes)), str(nodes)):
                links.add(batch.sources, batch.targets, batch.weights)
            name = edges.name.encode("utf-8", "backslashreplace").decode()  # also if it is not UTF-8
            card, boundary = _write(folder, spill, table, links, parts, name)
            shutil.rmtree(spill)
    except HeldElsewhere:
        raise InputError(f"another process is writing to {out}; give another folder") from None
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}; make room, or give another folder") from error
    sizes = {key: card[key] for key in ("nodes", "edges", "features", "order")}
    columns = table.preprocessing.lines()
    return {"shards": str(out), "parts": parts, **sizes, "boundary": boundary, "columns": columns}


class _Links:
    """Edges on disk, in buckets of rows of the node table."""

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

    def rows(self) -> Iterator[Rows]:
        """All rows of the adjacency, a bucket at a time. Of several weights of a pair the largest counts."""
        for bucket in range(self.buckets):
            first, end = int(self.starts[bucket]), int(self.starts[bucket + 1])
            records = self.listed.read(bucket, remove=not self.merged[bucket])
            if not self.merged[bucket]:  # each pair once, with its largest weight, sorted; without weights of 0
                records = records[np.lexsort((-records["weight"], records["column"], records["row"]))]
                again = (np.diff(records["row"], prepend=-1) == 0) & (np.diff(records["column"], prepend=-1) == 0)
                records = records[~again & (records["weight"] > 0)]
                self.listed.add(np.full(len(records), bucket), records)
                self.merged[bucket] = True
            starts = np.searchsorted(records["row"], np.arange(first, end + 1))
            columns, weights = np.ascontiguousarray(records["column"]), np.ascontiguousarray(records["weight"])
            yield first, sp.csr_array((weights, columns, starts), shape=(end - first, self.nodes))


def _write(
    folder: Path, spill: Path, table: FittedTable, links: _Links, parts: int, name: str
) -> tuple[dict[str, Any], float]:
    """Write parts and manifest; returns the manifest and the share of the edges that connect different parts."""
    nodes = links.nodes
    degrees = np.concatenate([np.diff(some.indptr) for _, some in links.rows()])
    order = local_order(links.rows, nodes, parts) if parts > 1 else np.arange(nodes)
    starts = cuts(degrees[order] + NODE_COST, parts)
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)

    moved = Spill(spill, "rows", EDGE, parts)
    loops = inside = 0
    for first, some in links.rows():
        records = _with_diagonal(first, some)
        loops += int(np.count_nonzero((records["row"] == records["column"]) & (records["weight"] > 0)))
        records["row"], records["column"] = place[records["row"]], place[records["column"]]
        mine, theirs = (np.searchsorted(starts, records[end], side="right") - 1 for end in ("row", "column"))
        inside += int(np.count_nonzero((mine == theirs) & (records["row"] != records["column"])))
        moved.add(mine, records)
    features, sparse = _spilled_features(spill, table, place, starts)
    width = len(table.preprocessing.names)

    entries = []
    for part in range(parts):
        first, end = int(starts[part]), int(starts[part + 1])
        numbers = order[first:end]
        adjacency = _csr(moved.read(part, remove=True), "weight", first, end, nodes)
        records = features.read(part, remove=True)
        rows: Any = (
            _csr(records, "value", first, end, width)
            if sparse
            else np.ascontiguousarray(records["values"][np.argsort(records["row"])])
        )
        piece = Part(numbers, table.ids.take(pa.array(numbers)), adjacency, rows)
        entries.append(write_part(folder / part_name(part), piece))
    total = int(degrees.sum())
    card: dict[str, Any] = {"name": name, "nodes": nodes, "edges": (total - loops) // 2, "entries": total}
    card |= {"features": width, "feature_names": list(table.preprocessing.names), "sparse": sparse}
    card |= {"order": ORDER_TITLE if parts > 1 else "as in the node table", "versions": versions()}
    card |= {"preprocessing": table.preprocessing.plain(), "parts": entries}
    (folder / MANIFEST).write_text(manifest_text(card), encoding="utf-8")
    return card, 1 - inside / max(1, total - loops)


def _with_diagonal(first: int, some: sp.csr_array) -> np.ndarray:
    """The entries of these rows, with a stored diagonal of 0 where there is no self-loop."""
    rows = np.arange(first, first + some.shape[0])
    row = np.repeat(rows, np.diff(some.indptr))
    without_loop = np.setdiff1d(rows, row[some.indices == row], assume_unique=True)
    records = np.zeros(len(row) + len(without_loop), dtype=EDGE)
    records["row"] = np.concatenate([row, without_loop])
    records["column"] = np.concatenate([some.indices, without_loop])
    records["weight"][: len(row)] = some.data
    return records


def _csr(records: np.ndarray, values: str, first: int, end: int, width: int) -> sp.csr_array:
    """The rows from `first` up to `end` of records in any order."""
    records = records[np.lexsort((records["column"], records["row"]))]
    starts = np.searchsorted(records["row"], np.arange(first, end + 1))
    kind = np.int32 if max(width, len(records)) < 2**31 else np.int64
    columns = records["column"].astype(kind)
    return sp.csr_array((records[values].copy(), columns, starts.astype(kind)), shape=(end - first, width))


def _spilled_features(folder: Path, table: FittedTable, place: np.ndarray, starts: np.ndarray) -> tuple[Spill, bool]:
    """Rows of features on disk, by part, and whether the preprocessing computes them sparse."""
    width, sparse, done = len(table.preprocessing.names), False, 0
    spill: Spill | None = None
    for some in table.features():
        rows = place[done : done + some.shape[0]]
        done += some.shape[0]
        if done > len(place):
            break
        if isinstance(some, np.ndarray):
            records = np.empty(len(rows), dtype=[("row", np.int64), ("values", np.float32, (width,))])
            records["row"], records["values"] = rows, some
        else:
            sparse, records = True, np.empty(some.nnz, dtype=TRIPLE)
            records["row"] = np.repeat(rows, np.diff(some.indptr))
            records["column"], records["value"] = some.indices, some.data
        spill = spill or Spill(folder, "features", records.dtype, len(starts) - 1)
        spill.add(np.searchsorted(starts, records["row"], side="right") - 1, records)
    if spill is None or done != len(place):
        raise InputError(f"{table.table.path} has changed since it was first read; try again")
    return spill, sparse


def local_order(rows: Callable[[], Iterable[Rows]], nodes: int, parts: int) -> NodeNumbers:
    """The nodes in an order that suits this number of parts. `rows()` iterates over all rows of the adjacency."""
    largest = max(1, nodes // (COMMUNITIES_PER_PART * parts))
    levels: list[Int[np.ndarray, "members"]] = []  # the community of each node, then of each community, …
    members = np.ones(nodes, dtype=np.int64)
    while True:
        _, community = np.unique(_communities(rows, members, largest), return_inverse=True)
        links = _links(rows, community)
        levels.append(community)
        stuck = len(levels) > 1 and links.shape[0] == len(members)
        members = np.bincount(community, weights=members).astype(np.int64)
        if 2 * largest >= nodes or stuck:
            break
        largest *= GROWTH
        rows = partial(lambda some: [(0, some)], links)
    place = np.empty(links.shape[0], dtype=np.int64)
    place[reverse_cuthill_mckee(links, symmetric_mode=True)] = np.arange(len(place))
    for community in reversed(levels):
        order = np.argsort(place[community], kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
    return order


def cuts(cost: Real[np.ndarray, "nodes"], parts: int) -> Int[np.ndarray, "starts"]:
    """The starts of parts of about equal cost, and the end of the last; each has at least one node."""
    whole = np.cumsum(cost, dtype=np.float64)
    inner = np.searchsorted(whole, whole[-1] * np.arange(1, parts) / parts, side="left") + 1
    inner = np.maximum.accumulate(np.maximum(inner, np.arange(1, parts)) - np.arange(1, parts)) + np.arange(1, parts)
    inner = np.minimum(inner, len(cost) - np.arange(parts - 1, 0, -1))
    return np.concatenate([[0], inner, [len(cost)]]).astype(np.int64)


def _communities(rows: Callable[[], Iterable[Rows]], members: NodeNumbers, largest: int) -> NodeNumbers:
    """The community of each node (or smaller community, of `members` nodes), with at most `largest` nodes."""
    community = np.arange(len(members))
    size = members.copy()
    for number in range(ROUNDS):
        for first, some in rows():
            # Half of the nodes at a time, since two nodes that join each other would only swap communities.
            numbers = np.arange(first, first + some.shape[0], dtype=np.uint64) + np.uint64(number)
            movable = np.flatnonzero(splitmix64(numbers) % np.uint64(2) == 0)
            chosen = _most_linked(some[movable], first + movable, community, size, largest)
            chosen = _within_room(chosen, members[first + movable], size, largest)
            joined = chosen >= 0
            who, where = first + movable[joined], chosen[joined]
            np.subtract.at(size, community[who], members[who])
            np.add.at(size, where, members[who])
            community[who] = where
    return community


def _most_linked(
    some: sp.csr_array, who: RowNumbers, community: NodeNumbers, size: NodeNumbers, largest: int
) -> RowNumbers:
    """The community that most edges of each row lead to, among those below the limit; -1 if the own one is as good."""
    row = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
    apart = some.indices != who[row]
    row, target, weight = row[apart], community[some.indices[apart]], some.data[apart].astype(np.float64)
    own = community[who[row]] == target
    row, target, weight, own = (part[own | (size[target] < largest)] for part in (row, target, weight, own))
    order = np.lexsort((target, row))
    row, target, weight, own = row[order], target[order], weight[order], own[order]
    starts = np.flatnonzero(np.diff(row, prepend=-1) | np.diff(target, prepend=-1))
    chosen = np.full(some.shape[0], -1)
    if not len(starts):
        return chosen
    # Of equal communities the own one wins, else the one with the smallest number.
    total = np.add.reduceat(weight, starts) * (1 + 1e-9 * own[starts])
    row, target, own = row[starts], target[starts], own[starts]
    best = np.lexsort((target, -total, row))
    best = best[np.flatnonzero(np.diff(row[best], prepend=-1))]
    best = best[~own[best]]
    chosen[row[best]] = target[best]
    return chosen


def _within_room(chosen: RowNumbers, members: RowNumbers, size: NodeNumbers, largest: int) -> RowNumbers:
    """The choices that keep communities within the limit; -1 for the others."""
    order = np.argsort(chosen, kind="stable")
    order = order[np.searchsorted(chosen[order], 0) :]
    target, coming = chosen[order], np.cumsum(members[order])
    first = np.flatnonzero(np.diff(target, prepend=-1))
    before = np.repeat(coming[first] - members[order][first], np.diff(np.append(first, len(target))))
    chosen[order[size[target] + coming - before > largest]] = -1
    return chosen


def _links(rows: Callable[[], Iterable[Rows]], community: NodeNumbers) -> sp.csr_array:
    """Total weight between communities; at most `MAX_LINKS` of them, the strongest."""
    count = int(community.max()) + 1
    links = sp.csr_array((count, count), dtype=np.float32)
    for first, some in rows():
        row = np.repeat(community[first : first + some.shape[0]], np.diff(some.indptr))
        links = links + sp.csr_array((some.data, (row, community[some.indices])), shape=(count, count))
        if links.nnz > MAX_LINKS:
            links.data[links.data <= np.partition(links.data, -MAX_LINKS // 2)[-MAX_LINKS // 2]] = 0
            links.eliminate_zeros()
    return sp.csr_array(links.maximum(links.T))
