"""Sharding: splitting a graph into parts without holding all its edges or features in memory.

1. The node table is read for its ids and to fit the preprocessing (`node_table.py`).
2. The edge list is read once, sorted in buckets on disk, and stored as a matrix in files.
3. The features are computed from the node table, and stored in the same way.
4. The nodes are ordered such that neighbours are close together, and this order is cut into parts.

The order is found by label propagation (Raghavan et al., 2007): several times, each node joins the community to which
most of its edges lead, within a size limit. Communities join larger ones in the same way, level by level. The last few
are ordered by reverse Cuthill-McKee (1969). The members of a community are consecutive at every level, so that
few edges connect different parts. Memory holds a few numbers per node and the links between communities.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mtgcn.distributed.node_table import FittedTable, LargeIndex, fit_table
from mtgcn.distributed.shards import (
    KIND,
    MANIFEST,
    PARTS,
    Part,
    check_replaceable,
    manifest_text,
    part_name,
    write_part,
)
from mtgcn.environment import versions
from mtgcn.errors import InputError
from mtgcn.io.graph_tables import EdgeRows, edge_batches
from mtgcn.io.options import TableOptions
from mtgcn.io.roles import open_table
from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int, Real
from mtgcn.storage.files import HeldElsewhere, updating

MAX_PARTS = 10_000
BYTES_PER_BUCKET = 1 << 24  # bytes of edges per bucket; sorting it needs at most 100 times as much memory
EDGE = np.dtype([("row", np.int64), ("column", np.int64), ("weight", np.float32)])
ORDER_TITLE = "communities of communities by label propagation, the largest ordered by reverse Cuthill-McKee"
ROUNDS = 8  # rounds of label propagation
COMMUNITIES_PER_PART = 16  # fewest communities per part on the first level, so that parts have similar sizes
GROWTH = 4  # growth of the size limit from level to level
MAX_LINKS = 1 << 24  # most links between communities in memory; the weakest are dropped
NODE_COST = 32  # cost of a node in entries of the adjacency

Starts = Int[np.ndarray, "blocks"]  # first rows of the blocks, and the end of the last
RowNumbers = Int[np.ndarray, "rows"]
NodeNumbers = Int[np.ndarray, "nodes"]


def shard_files(edges: Path, nodes: Path, out: Path, parts: int, options: TableOptions) -> dict[str, Any]:
    """Split the graph of an edge list and a node table into parts, and write them to a folder; returns a summary."""
    if not 1 <= parts <= MAX_PARTS:
        raise InputError(f"--parts is {parts}; give 1 to {MAX_PARTS}")
    check_replaceable(out, "shards", MANIFEST, KIND, PARTS)
    edge_table = open_table(edges, options, edges=True)
    table = fit_table(nodes, options)
    if parts > len(table.ids):
        raise InputError(f"--parts is {parts} and exceeds the {len(table.ids)} nodes; give at most {len(table.ids)}")
    old = [path.name for path in out.glob(PARTS)] if out.is_dir() else []
    try:
        with updating(out, sorted({MANIFEST, *old, *map(part_name, range(parts))})) as folder:
            spill = folder / "spill"
            spill.mkdir()
            batches = edge_batches(edge_table, options, LargeIndex(table.ids, str(nodes)), str(nodes))
            buckets = int(min(len(table.ids), 1 + edge_table.path.stat().st_size // BYTES_PER_BUCKET))
            starts = np.linspace(0, len(table.ids), buckets + 1).astype(np.int64)
            adjacency = _stored_adjacency(spill, batches, starts)
            blocks, width = map(sp.csr_array, table.features()), len(table.preprocessing.names)
            features = stored_matrix(spill / "features", blocks, width, len(table.ids) * width)
            if features.shape[0] != len(table.ids):
                raise InputError(f"{nodes} was changed while it was read; try again")
            name = edges.name.encode("utf-8", "backslashreplace").decode()  # the name may not be UTF-8
            summary = _write(folder, table, adjacency, starts, features, parts, name)
            del adjacency, features  # Windows cannot remove mapped files
            shutil.rmtree(spill)
    except HeldElsewhere:
        raise InputError(f"another process is writing to {out}; give another folder") from None
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}; free disk space") from error
    return {"shards": str(out), "parts": parts, **summary, "columns": table.preprocessing.lines()}


def stored_matrix(path: Path, blocks: Iterable[sp.csr_array], width: int, most: int) -> sp.csr_array:
    """A matrix with at most `most` entries, from blocks of consecutive rows. Its arrays are mapped files, so
    that the system may drop unused pages from memory."""
    kind = np.int32 if max(width, most) < 2**31 else np.int64
    counts = [np.zeros(1, np.int64)]
    with open(f"{path}-columns", "wb") as columns, open(f"{path}-values", "wb") as values:
        for block in blocks:
            counts.append(np.diff(block.indptr))
            block.indices.astype(kind).tofile(columns)
            block.data.tofile(values)
    starts = np.cumsum(np.concatenate(counts)).astype(kind)
    shape = len(starts) - 1, width
    if not starts[-1]:
        return sp.csr_array(shape, dtype=np.float32)
    mapped = np.memmap(f"{path}-values", np.float32, "r"), np.memmap(f"{path}-columns", kind, "r")
    return sp.csr_array((*mapped, starts), shape=shape)


def _stored_adjacency(folder: Path, batches: Iterable[tuple[EdgeRows, int]], starts: Starts) -> sp.csr_array:
    """The adjacency of listed edges, sorted in buckets of rows that begin at `starts`. If a pair is listed several
    times, its largest weight is used; edges of weight 0 are dropped."""
    nodes, paths = int(starts[-1]), [folder / f"edges-{number}" for number in range(len(starts) - 1)]
    listed = 0
    for edges, _ in batches:
        records = np.empty(2 * len(edges.sources), dtype=EDGE)  # in both directions
        listed += len(records)
        records["row"] = np.concatenate([edges.sources, edges.targets])
        records["column"] = np.concatenate([edges.targets, edges.sources])
        records["weight"] = 1 if edges.weights is None else np.concatenate([edges.weights, edges.weights])
        bucket = np.searchsorted(starts, records["row"], side="right") - 1
        ends = np.cumsum(np.bincount(bucket, minlength=len(paths)))
        for path, some in zip(paths, np.split(records[np.argsort(bucket, kind="stable")], ends[:-1]), strict=True):
            with path.open("ab") as file:
                some.tofile(file)

    def merged() -> Iterator[sp.csr_array]:
        for path, (first, end) in zip(paths, pairwise(starts.tolist()), strict=True):
            records = np.fromfile(path, EDGE)
            path.unlink()
            records = records[np.lexsort((-records["weight"], records["column"], records["row"]))]
            again = (np.diff(records["row"], prepend=-1) == 0) & (np.diff(records["column"], prepend=-1) == 0)
            records = records[~again & (records["weight"] > 0)]
            row_starts = np.searchsorted(records["row"], np.arange(first, end + 1))
            yield sp.csr_array((records["weight"], records["column"], row_starts), shape=(end - first, nodes))

    return stored_matrix(folder / "adjacency", merged(), nodes, listed)


def _write(
    folder: Path,
    table: FittedTable,
    adjacency: sp.csr_array,
    starts: Starts,
    features: sp.csr_array,
    parts: int,
    name: str,
) -> dict[str, Any]:
    """Write parts and manifest; returns a summary, with the share of the edges that connect different parts."""
    nodes, degrees = len(table.ids), np.diff(adjacency.indptr)
    sparse = sp.issparse(next(table.features()))
    order = local_order(adjacency, starts, parts) if parts > 1 else np.arange(nodes)
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    entries = []
    loops = inside = 0
    for part, (first, end) in enumerate(pairwise(cuts(degrees[order] + NODE_COST, parts).tolist())):
        numbers, here = order[first:end], np.arange(end - first)
        found = adjacency[numbers]
        row, column = np.repeat(here, np.diff(found.indptr)), place[found.indices]
        is_loop = column == first + row
        loops += int(np.count_nonzero(is_loop))
        inside += int(np.count_nonzero((column >= first) & (column < end) & ~is_loop))
        # The diagonal is stored, with 0 where there is no self-loop.
        values = np.append(found.data, np.zeros(len(here), np.float32))
        ends = np.stack([np.append(row, here), np.append(column, first + here)]).astype(found.indices.dtype)
        with_diagonal = sp.coo_array((values, tuple(ends)), shape=(len(here), nodes)).tocsr()
        rows = features[numbers]
        piece = Part(numbers, table.ids.take(pa.array(numbers)), with_diagonal, rows if sparse else rows.toarray())
        entries.append(write_part(folder / part_name(part), piece))
    total = int(degrees.sum())
    summary: dict[str, Any] = {"nodes": nodes, "edges": (total - loops) // 2, "features": features.shape[1]}
    summary["order"] = ORDER_TITLE if parts > 1 else "as in the node table"
    fitted = table.preprocessing
    card = {"name": name, **summary, "entries": total, "feature_names": list(fitted.names), "sparse": sparse}
    card |= {"versions": versions(), "preprocessing": fitted.plain(), "parts": entries}
    (folder / MANIFEST).write_text(manifest_text(card), encoding="utf-8")
    return summary | {"boundary": 1 - inside / max(1, total - loops)}


def local_order(links: sp.csr_array, starts: Starts, parts: int) -> NodeNumbers:
    """The nodes in an order with few edges between this number of parts. Blocks of rows that begin at `starts` are held
    in memory one at a time."""
    nodes = links.shape[0]
    largest = max(1, nodes // (COMMUNITIES_PER_PART * parts))
    levels: list[Int[np.ndarray, "members"]] = []  # the community of each node, then of each community, …
    members = np.ones(nodes, dtype=np.int64)
    while True:
        _, community = np.unique(_communities(links, starts, members, largest), return_inverse=True)
        links = _links(links, starts, community)
        levels.append(community)
        stuck = len(levels) > 1 and links.shape[0] == len(members)
        members = np.bincount(community, weights=members).astype(np.int64)
        if 2 * largest >= nodes or stuck:
            break
        largest *= GROWTH
        starts = np.array([0, links.shape[0]])
    place = np.empty(links.shape[0], dtype=np.int64)
    place[reverse_cuthill_mckee(links, symmetric_mode=True)] = np.arange(len(place))
    for community in reversed(levels):
        order = np.argsort(place[community], kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
    return order


def cuts(cost: Real[np.ndarray, "nodes"], parts: int) -> Int[np.ndarray, "starts"]:
    """The starts of parts with about equal cost, and the end of the last; each part has at least one node."""
    whole = np.cumsum(cost, dtype=np.float64)
    inner = np.searchsorted(whole, whole[-1] * np.arange(1, parts) / parts, side="left") + 1
    inner = np.maximum.accumulate(np.maximum(inner, np.arange(1, parts)) - np.arange(1, parts)) + np.arange(1, parts)
    inner = np.minimum(inner, len(cost) - np.arange(parts - 1, 0, -1))
    return np.concatenate([[0], inner, [len(cost)]]).astype(np.int64)


def _communities(links: sp.csr_array, starts: Starts, members: NodeNumbers, largest: int) -> NodeNumbers:
    """The community, of at most `largest` nodes, of each node (or smaller community of `members` nodes)."""
    community = np.arange(len(members))
    size = members.copy()
    for number in range(ROUNDS):
        for first, end in pairwise(starts.tolist()):
            some = links[first:end]
            # Half of the nodes move at a time, since two nodes that join each other would only swap communities.
            numbers = np.arange(first, end, dtype=np.uint64) + np.uint64(number)
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
    """The community below the size limit to which most edges of each row lead; -1 if its current one is as good."""
    row = np.repeat(np.arange(len(who)), np.diff(some.indptr))
    weights = np.where(some.indices == who[row], 0, some.data.astype(np.float64))
    votes = sp.csr_array((weights, community[some.indices], some.indptr), shape=(len(who), len(community)))
    votes.sum_duplicates()
    row = np.repeat(np.arange(len(who)), np.diff(votes.indptr))
    own = votes.indices == community[who[row]]
    # Ties go to the current community, else to the one with the smallest number.
    votes.data *= np.where(own, 1 + 1e-9, size[votes.indices] < largest)
    order = np.lexsort((votes.indices, -votes.data, row))
    best = order[votes.indptr[:-1][np.diff(votes.indptr) > 0]]
    best = best[(votes.data[best] > 0) & ~own[best]]
    chosen = np.full(len(who), -1)
    chosen[row[best]] = votes.indices[best]
    return chosen


def _within_room(chosen: RowNumbers, members: RowNumbers, size: NodeNumbers, largest: int) -> RowNumbers:
    """The choices that keep communities within the size limit; -1 for all others."""
    order = np.argsort(chosen, kind="stable")
    order = order[np.searchsorted(chosen[order], 0) :]
    target, coming = chosen[order], np.cumsum(members[order])
    first = np.flatnonzero(np.diff(target, prepend=-1))
    before = np.repeat(coming[first] - members[order][first], np.diff(np.append(first, len(target))))
    chosen[order[size[target] + coming - before > largest]] = -1
    return chosen


def _links(adjacency: sp.csr_array, starts: Starts, community: NodeNumbers) -> sp.csr_array:
    """Total edge weights between communities; only the `MAX_LINKS` strongest are kept."""
    count = int(community.max()) + 1
    links = sp.csr_array((count, count), dtype=np.float32)
    for first, end in pairwise(starts.tolist()):
        some = adjacency[first:end]
        row = np.repeat(community[first:end], np.diff(some.indptr))
        links = links + sp.csr_array((some.data, (row, community[some.indices])), shape=(count, count))
        if links.nnz > MAX_LINKS:
            links.data[links.data <= np.partition(links.data, -MAX_LINKS // 2)[-MAX_LINKS // 2]] = 0
            links.eliminate_zeros()
    return sp.csr_array(links.maximum(links.T))
