"""Communities stay together, and parts are of like size."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.distributed import ordering
from mtgcn.distributed.ordering import cuts, local_order


def in_pieces(adjacency, size):
    return lambda: [(start, adjacency[start : start + size]) for start in range(0, adjacency.shape[0], size)]


def cliques(count, size, seed=0):
    """Cliques in a ring, linked by one edge each, their nodes in no order; and the clique of each node."""
    nodes = count * size
    clique = np.arange(nodes) // size
    dense = (clique[:, None] == clique).astype(np.float32)
    for one in range(count):
        a, b = one * size, (one + 1) % count * size + 1
        dense[a, b] = dense[b, a] = 1
    np.fill_diagonal(dense, 0)
    shuffle = np.random.default_rng(seed).permutation(nodes)
    return sp.csr_array(dense[np.ix_(shuffle, shuffle)]), clique[shuffle]


@pytest.mark.parametrize("pieces", [7, 200])
def test_cliques_are_not_torn_apart(pieces):
    adjacency, clique = cliques(count=8, size=20)
    order = local_order(in_pieces(adjacency, pieces), 160, parts=1)
    assert sorted(order) == list(range(160))
    changes = np.count_nonzero(np.diff(clique[order]))
    assert changes == 7  # each clique is one stretch


def test_parts_of_a_ring_of_cliques_are_linked_by_few_edges():
    adjacency, _ = cliques(count=32, size=32)
    order = local_order(in_pieces(adjacency, 300), 1024, parts=4)
    part = np.empty(1024, int)
    part[order] = np.arange(1024) // 256
    entries = adjacency.tocoo()
    across = np.count_nonzero(part[entries.row] != part[entries.col])
    anyhow = np.count_nonzero(np.arange(1024)[entries.row] // 256 != entries.col // 256)
    assert across < 0.05 * anyhow


def test_a_graph_without_edges_keeps_its_order_of_nodes():
    order = local_order(in_pieces(sp.csr_array((10, 10), dtype=np.float32), 4), 10, parts=3)
    assert sorted(order) == list(range(10))


def test_links_that_are_too_many_are_forgotten_from_the_weakest_on(monkeypatch):
    monkeypatch.setattr(ordering, "MOST_LINKS", 40)
    adjacency, _ = cliques(count=8, size=20)
    assert sorted(local_order(in_pieces(adjacency, 50), 160, parts=2)) == list(range(160))


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_cuts_are_even_and_leave_no_part_empty(parts):
    starts = cuts(np.ones(20), parts)
    assert starts[0] == 0
    assert starts[-1] == 20
    sizes = np.diff(starts)
    assert sizes.min() >= 20 // parts - 1
    assert sizes.max() <= 20 // parts + 2


@pytest.mark.parametrize("cost", [[100, 1, 1, 1], [1, 1, 1, 100], [1, 100, 100, 1]])
def test_one_node_that_costs_more_than_a_part_has_one_of_its_own(cost):
    starts = cuts(np.array(cost), 4)
    assert starts.tolist() == [0, 1, 2, 3, 4]
