"""Sharding: the parts together are the graph, and the order of nodes keeps communities together."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import read_graph
from mtgcn.distributed import sharding
from mtgcn.distributed.communicator import Ranks
from mtgcn.distributed.sharding import cuts, local_order, shard_files, stored_matrix
from mtgcn.distributed.shards import read_local_graph, read_manifest
from mtgcn.errors import GraphNote, InputError
from mtgcn.io.options import TableOptions

OPTIONS = TableOptions(may_add_nodes=False)


def whole_of(shards):
    """Ids, adjacency and features of all parts, in the order of the node table."""
    graph = read_local_graph(read_manifest(shards), Ranks())
    back = np.argsort(graph.numbers)
    assert graph.numbers[back].tolist() == list(range(graph.num_nodes))
    assert np.all(np.diff(graph.adjacency.indptr) > 0)  # the diagonal is stored
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    return np.array(graph.ids.to_pylist())[back], graph.adjacency.toarray()[np.ix_(back, back)], features[back]


@pytest.mark.parametrize("name", ["files", "sparse_files"])
def test_all_parts_are_the_graph(name, request):
    folder = request.getfixturevalue(name)
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv")
    ids, adjacency, features = whole_of(folder / "shards")
    assert ids.tolist() == graph.node_ids.tolist()
    np.testing.assert_array_equal(adjacency, graph.adjacency.toarray())
    whole = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    np.testing.assert_array_equal(features, whole)
    manifest = read_manifest(folder / "shards")
    assert manifest.num_edges == graph.num_edges
    assert manifest.entries / manifest.num_nodes == graph.mean_degree
    assert manifest.preprocessor == graph.preprocessing
    assert manifest.sparse == sp.issparse(graph.features)


UNTIDY = "from,to,weight\n b,a,2\na,b,3\nb,c,1\nb,c,1\nc,c,4\nalone,c,0\n"


@pytest.fixture
def untidy(tmp_path):
    (tmp_path / "edges.csv").write_text(UNTIDY)
    (tmp_path / "nodes.csv").write_text("id,f1,f2\nc,1,2\nb,3,NA\na,5,6\nalone,7,9\n")
    return tmp_path


@pytest.fixture
def shard(untidy):
    """Shards the untidy files."""

    def run(parts=2, options=OPTIONS, edges="edges.csv"):
        return shard_files(untidy / edges, untidy / "nodes.csv", untidy / "shards", parts, options)

    return run


@pytest.mark.parametrize("buckets", [1, 4])
def test_edges_listed_twice_and_both_ways_count_once_by_the_larger_weight(untidy, shard, buckets, monkeypatch):
    monkeypatch.setattr(sharding, "BYTES_PER_BUCKET", len(UNTIDY) // buckets + 1 if buckets > 1 else 1 << 20)
    summary = shard()
    ids, adjacency, features = whole_of(untidy / "shards")
    assert ids.tolist() == ["c", "b", "a", "alone"]
    # c with itself 4, b with c 1, a with b 3; an edge of weight 0 is none.
    assert adjacency.tolist() == [[4, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert summary["edges"] == 2
    assert read_manifest(untidy / "shards").entries == 5
    with pytest.warns(GraphNote, match="without direction"):
        graph = read_graph(untidy / "edges.csv", nodes=untidy / "nodes.csv")
    np.testing.assert_array_equal(features, graph.features)
    assert not (untidy / "shards" / "spill").exists()


def test_unknown_nodes(untidy, shard):
    with (untidy / "edges.csv").open("a") as file:
        file.write("a,stranger,1\n")
    with pytest.raises(InputError, match=r"line 8: node 'stranger' is not in .*drop to leave such edges out$"):
        shard()
    assert not (untidy / "shards").exists()
    drop = TableOptions(unknown_nodes="drop", may_add_nodes=False)
    with pytest.warns(GraphNote, match="edges of 1 ids"):
        summary = shard(options=drop)
    assert summary["edges"] == 2


def test_new_shards_replace_old_ones(untidy, shard):
    for parts in (4, 2):
        shard(parts)
    names = {path.name for path in (untidy / "shards").iterdir() if not path.name.startswith(".")}
    assert names == {"manifest.json", "part-00000.npz", "part-00001.npz"}
    (untidy / "nodes.csv").write_text("id,f1\nc,1\nc,2\n")
    with pytest.raises(InputError, match="node 'c' has two rows"):
        shard()
    assert whole_of(untidy / "shards")[0].tolist() == ["c", "b", "a", "alone"]


@pytest.mark.parametrize(
    ("parts", "message"), [(0, "--parts is 0; give 1 to"), (5, "exceeds the 4 nodes; give at most")]
)
def test_invalid_numbers_of_parts(shard, parts, message):
    with pytest.raises(InputError, match=message):
        shard(parts)


def test_file_name_that_is_not_unicode(untidy, shard):
    (untidy / "edges.csv").rename(untidy / "e\udcff.csv")
    shard(edges="e\udcff.csv")
    assert read_manifest(untidy / "shards").name == "e\\udcff.csv"


def test_other_folders_are_not_touched(untidy):
    with pytest.raises(InputError, match="is not empty and contains no shards"):
        shard_files(untidy / "edges.csv", untidy / "nodes.csv", untidy, 2, OPTIONS)


def test_changed_table_is_refused(untidy, shard, monkeypatch):
    true = sharding._stored_adjacency

    def grown(*given):
        (untidy / "nodes.csv").write_text((untidy / "nodes.csv").read_text() + "new,1,1\n")
        return true(*given)

    monkeypatch.setattr(sharding, "_stored_adjacency", grown)
    with pytest.raises(InputError, match="was changed while it was read"):
        shard()


def cliques(count, size, seed=0):
    """Cliques in a ring, linked by one edge each, their nodes shuffled; and the clique of each node."""
    nodes = count * size
    clique = np.arange(nodes) // size
    dense = (clique[:, None] == clique).astype(np.float32)
    for one in range(count):
        a, b = one * size, (one + 1) % count * size + 1
        dense[a, b] = dense[b, a] = 1
    np.fill_diagonal(dense, 0)
    shuffle = np.random.default_rng(seed).permutation(nodes)
    return sp.csr_array(dense[np.ix_(shuffle, shuffle)]), clique[shuffle]


@pytest.mark.parametrize("pieces", [10, 160])
def test_cliques_stay_together(pieces):
    adjacency, clique = cliques(count=8, size=20)
    order = local_order(adjacency, np.arange(0, 161, pieces), parts=1)
    assert sorted(order) == list(range(160))
    changes = np.count_nonzero(np.diff(clique[order]))
    assert changes == 7


def test_few_edges_connect_parts():
    adjacency, _ = cliques(count=32, size=32)
    order = local_order(adjacency, np.array([0, 300, 1024]), parts=4)
    part = np.empty(1024, int)
    part[order] = np.arange(1024) // 256
    entries = adjacency.tocoo()
    across = np.count_nonzero(part[entries.row] != part[entries.col])
    unordered = np.count_nonzero(np.arange(1024)[entries.row] // 256 != entries.col // 256)
    assert across < 0.05 * unordered


def test_own_community_wins_if_it_is_as_good():
    rows = sp.csr_array(np.array([[0, 1, 1, 0], [1, 0, 1, 1]], dtype=np.float32))
    community, size = np.array([3, 3, 2, 2]), np.array([0, 0, 2, 2])
    assert sharding._most_linked(rows, np.arange(2), community, size, largest=3).tolist() == [-1, 2]
    assert sharding._most_linked(rows, np.arange(2), community, size, largest=2).tolist() == [-1, -1]


def test_order_without_edges():
    order = local_order(sp.csr_array((10, 10), dtype=np.float32), np.array([0, 4, 10]), parts=3)
    assert sorted(order) == list(range(10))


def test_order_with_few_links(monkeypatch):
    monkeypatch.setattr(sharding, "MAX_LINKS", 40)
    adjacency, _ = cliques(count=8, size=20)
    assert sorted(local_order(adjacency, np.array([0, 50, 160]), parts=2)) == list(range(160))


def test_cuts_are_even_and_leave_no_part_empty():
    for parts in (1, 2, 3, 7):
        starts = cuts(np.ones(20), parts)
        assert (starts[0], starts[-1]) == (0, 20)
        sizes = np.diff(starts)
        assert sizes.min() >= 20 // parts - 1
        assert sizes.max() <= 20 // parts + 2
    for cost in ([100, 1, 1, 1], [1, 1, 1, 100], [1, 100, 100, 1]):
        assert cuts(np.array(cost), 4).tolist() == [0, 1, 2, 3, 4]


def is_mapped(array):
    return isinstance(array, np.memmap) or (array is not None and is_mapped(array.base))


def test_stored_matrix(tmp_path):
    matrix = sp.random_array((9, 5), density=0.4, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    for most in (45, 2**31):
        stored = stored_matrix(tmp_path / "matrix", (matrix[rows] for rows in (slice(0, 4), slice(4, 9))), 5, most)
        np.testing.assert_array_equal(stored[[7, 2, 2]].toarray(), matrix.toarray()[[7, 2, 2]])
        assert is_mapped(stored.data)
        assert is_mapped(stored.indices)
    empty = stored_matrix(tmp_path / "empty", [sp.csr_array((3, 5), dtype=np.float32)], 5, 15)
    assert (empty.shape, empty.nnz) == ((3, 5), 0)
