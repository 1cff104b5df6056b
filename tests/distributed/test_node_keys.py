"""Keys are those that one process finds, also where nodes are alike and edges lead to themselves."""

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.sharding import cut
from mtgcn.distributed.shards import read_manifest
from mtgcn.io.options import TableOptions
from mtgcn.linalg.node_keys import as_array, node_keys
from thread_ranks import on_ranks


@pytest.fixture
def alike(tmp_path):
    """Rings of three nodes that cannot be told apart, weighted edges, self-loops, and two nodes without any edge."""
    rings = [(3 * ring + a, 3 * ring + (a + 1) % 3, 0.1 * (1 + ring % 2)) for ring in range(6) for a in range(3)]
    edges = [*rings, (0, 0, 2.5), (7, 7, 1 / 3)]
    text = "".join(f"n{a},n{b},{weight}\n" for a, b, weight in edges)
    (tmp_path / "edges.csv").write_text("source,target,weight\n" + text)
    (tmp_path / "nodes.csv").write_text("id,x,y\n" + "".join(f"n{node},{node % 2},{0.5}\n" for node in range(20)))
    cut(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "shards", 4, TableOptions(may_add_nodes=False))
    return tmp_path


@pytest.mark.parametrize("source", ["files", "sparse_files", "alike"])
def test_keys_do_not_depend_on_how_the_graph_is_cut(source, request):
    folder = request.getfixturevalue(source)
    expected = as_array(node_keys(read_graph(folder / "edges.csv", nodes=folder / "nodes.csv")))

    def work(ranks):
        local = read_local_graph(read_manifest(folder / "shards"), ranks)
        found = shared_node_keys(local, local.take_features())
        np.testing.assert_array_equal(found, expected[local.numbers.numpy()])

    for count in (1, 2, 4):
        on_ranks(count, work)
    assert len(set(expected.tolist())) == len(expected)
