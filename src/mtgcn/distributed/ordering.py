"""An order of nodes in which neighbours stand near each other, found without holding the graph.

Communities first: a node joins the one that most of its edges lead to, as long as there is room, a few times over
(label propagation; Raghavan et al., 2007). Communities join to larger ones in the same way, level upon level, until few
are left, which are put in order by reverse Cuthill-McKee (1969). Nodes of a community stand together, and so do the
communities of a larger one, so that wherever the order is cut few edges are. All that is kept in memory are a few
numbers for each node, and the links of communities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int, Real

TITLE = "communities of communities by label propagation, the largest ordered by reverse Cuthill-McKee"
ROUNDS = 8  # of joining
COMMUNITIES_PER_PART = 16  # at least so many at first, so that parts can be cut of like size
GROWTH = 4  # how much larger communities may be on the next level
MOST_LINKS = 1 << 24  # of communities that are kept in memory; weaker ones are forgotten
OF_A_NODE = 32  # what a node costs beside its entries, in entries

# Rows of the adjacency, next to each other: the number of the first, and the rows.
Rows = tuple[int, sp.csr_array]


def local_order(rows: Callable[[], Iterable[Rows]], nodes: int, parts: int) -> Int[np.ndarray, "nodes"]:
    """The nodes in an order that suits cutting them into so many parts. `rows` gives all rows of the adjacency, some at
    a time, whenever it is asked."""
    largest = max(1, nodes // (COMMUNITIES_PER_PART * parts))
    levels: list[Int[np.ndarray, "members"]] = []  # the community of each node, then that of each community, …
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
        rows = _all_at_once(links)
    place = np.empty(links.shape[0], dtype=np.int64)
    place[reverse_cuthill_mckee(links, symmetric_mode=True)] = np.arange(len(place))
    for community in reversed(levels):
        order = np.argsort(place[community], kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
    return order


def _all_at_once(links: sp.csr_array) -> Callable[[], Iterable[Rows]]:
    return lambda: [(0, links)]


def cuts(cost: Real[np.ndarray, "nodes"], parts: int) -> Int[np.ndarray, "starts"]:
    """Where parts begin, and the last one ends, if they are to cost about the same; each has a node at least."""
    whole = np.cumsum(cost, dtype=np.float64)
    inner = np.searchsorted(whole, whole[-1] * np.arange(1, parts) / parts, side="left") + 1
    inner = np.maximum.accumulate(np.maximum(inner, np.arange(1, parts)) - np.arange(1, parts)) + np.arange(1, parts)
    inner = np.minimum(inner, len(cost) - np.arange(parts - 1, 0, -1))
    return np.concatenate([[0], inner, [len(cost)]]).astype(np.int64)


def _communities(
    rows: Callable[[], Iterable[Rows]], members: Int[np.ndarray, "nodes"], largest: int
) -> Int[np.ndarray, "nodes"]:
    """The community of each node, or of each community with so many members, none of them larger than that."""
    community = np.arange(len(members))
    size = members.copy()
    for number in range(ROUNDS):
        for first, some in rows():
            # Half of the nodes at a time: two that join each other at once would only change places.
            turn = splitmix64(np.arange(first, first + some.shape[0], dtype=np.uint64) + np.uint64(number)) % np.uint64(
                2
            )
            movable = np.flatnonzero(turn == 0)
            chosen = _most_linked(some[movable], first + movable, community, size, largest)
            chosen = _within_room(chosen, members[first + movable], size, largest)
            joined = chosen >= 0
            who, where = first + movable[joined], chosen[joined]
            np.subtract.at(size, community[who], members[who])
            np.add.at(size, where, members[who])
            community[who] = where
    return community


def _most_linked(
    some: sp.csr_array,
    who: Int[np.ndarray, "rows"],
    community: Int[np.ndarray, "nodes"],
    size: Int[np.ndarray, "nodes"],
    largest: int,
) -> Int[np.ndarray, "rows"]:
    """The community that most edges of each row lead to, of those with room; -1 where the own one is as good."""
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
    # Of equally many edges the own community wins, else the one with the smallest number.
    total = np.add.reduceat(weight, starts) * (1 + 1e-9 * own[starts])
    row, target, own = row[starts], target[starts], own[starts]
    best = np.lexsort((target, -total, row))
    best = best[np.flatnonzero(np.diff(row[best], prepend=-1))]
    best = best[~own[best]]
    chosen[row[best]] = target[best]
    return chosen


def _within_room(
    chosen: Int[np.ndarray, "rows"], members: Int[np.ndarray, "rows"], size: Int[np.ndarray, "nodes"], largest: int
) -> Int[np.ndarray, "rows"]:
    """Of those who would join a community, as many as it has room for; -1 for the others."""
    order = np.argsort(chosen, kind="stable")
    order = order[np.searchsorted(chosen[order], 0) :]
    target, coming = chosen[order], np.cumsum(members[order])
    first = np.flatnonzero(np.diff(target, prepend=-1))
    before = np.repeat(coming[first] - members[order][first], np.diff(np.append(first, len(target))))
    chosen[order[size[target] + coming - before > largest]] = -1
    return chosen


def _links(rows: Callable[[], Iterable[Rows]], community: Int[np.ndarray, "nodes"]) -> sp.csr_array:
    """How strongly communities are linked; of too many links, the strongest."""
    count = int(community.max()) + 1
    links = sp.csr_array((count, count), dtype=np.float32)
    for first, some in rows():
        row = np.repeat(community[first : first + some.shape[0]], np.diff(some.indptr))
        links = links + sp.csr_array((some.data, (row, community[some.indices])), shape=(count, count))
        if links.nnz > MOST_LINKS:
            links.data[links.data <= np.partition(links.data, -MOST_LINKS // 2)[-MOST_LINKS // 2]] = 0
            links.eliminate_zeros()
    return sp.csr_array(links.maximum(links.T))
