"""Parts together are the graph that is read as a whole: same edges, same features, same ids."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import read_graph
from mtgcn.distributed import sharding
from mtgcn.distributed.sharding import Spill, cut
from mtgcn.distributed.shards import read_manifest, read_part
from mtgcn.errors import GraphNote, InputError
from mtgcn.io.options import TableOptions

CHOICES = TableOptions(may_add_nodes=False)


def whole_of(shards):
    """Ids, adjacency and features of all parts, in the order of the node table."""
    manifest = read_manifest(shards)
    parts = [read_part(manifest, part) for part in range(len(manifest.parts))]
    numbers = np.concatenate([part.numbers for part in parts])
    back = np.argsort(numbers)
    assert sorted(numbers) == list(range(manifest.num_nodes))
    ids = np.concatenate([part.ids.to_pylist() for part in parts])[back]
    adjacency = sp.csr_array(sp.vstack([part.adjacency for part in parts]))
    assert (adjacency.indptr[1:] > adjacency.indptr[:-1]).all()  # the diagonal is stored
    features = np.concatenate([np.asarray(sp.csr_array(part.features).todense()) for part in parts])
    return ids, adjacency.toarray()[np.ix_(back, back)], features[back]


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
    assert manifest.card["edges"] == graph.num_edges
    assert manifest.mean_degree == graph.mean_degree
    assert manifest.preprocessing == graph.preprocessing
    assert manifest.card["sparse"] == sp.issparse(graph.features)


UNTIDY = "from,to,weight\n b,a,2\na,b,3\nb,c,1\nb,c,1\nc,c,4\nalone,c,0\n"


@pytest.fixture
def untidy(tmp_path):
    (tmp_path / "edges.csv").write_text(UNTIDY)
    (tmp_path / "nodes.csv").write_text("id,f1,f2\nc,1,2\nb,3,NA\na,5,6\nalone,7,9\n")
    return tmp_path


@pytest.mark.parametrize("buckets", [1, 4])
def test_edges_listed_twice_and_both_ways_count_once_by_the_larger_weight(untidy, buckets, monkeypatch):
    monkeypatch.setattr(sharding, "BYTES_PER_BUCKET", len(UNTIDY) // buckets + 1 if buckets > 1 else 1 << 20)
    summary = cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", 2, CHOICES)
    ids, adjacency, features = whole_of(untidy / "shards")
    assert ids.tolist() == ["c", "b", "a", "alone"]
    # c with itself 4, b with c 1, a with b 3; an edge of weight 0 is none.
    assert adjacency.tolist() == [[4, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert summary.edges == 2
    assert read_manifest(untidy / "shards").card["entries"] == 5
    with pytest.warns(GraphNote, match="without direction"):
        graph = read_graph(untidy / "edges.csv", nodes=untidy / "nodes.csv")
    np.testing.assert_array_equal(features, graph.features)
    assert not (untidy / "shards" / "waiting").exists()


def test_edges_of_unknown_nodes_are_refused_or_dropped(untidy):
    with (untidy / "edges.csv").open("a") as file:
        file.write("a,stranger,1\n")
    with pytest.raises(InputError, match=r"line 8: node 'stranger' is not in .*drop to leave such edges out$"):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", 2, CHOICES)
    assert not (untidy / "shards").exists()
    drop = TableOptions(unknown_nodes="drop", may_add_nodes=False)
    with pytest.warns(GraphNote, match="edges of 1 ids"):
        summary = cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", 2, drop)
    assert summary.edges == 2


def test_new_shards_replace_old_ones_whole(untidy):
    for parts in (4, 2):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", parts, CHOICES)
    names = {path.name for path in (untidy / "shards").iterdir() if not path.name.startswith(".")}
    assert names == {"manifest.json", "part-00000.npz", "part-00001.npz"}
    (untidy / "nodes.csv").write_text("id,f1\nc,1\nc,2\n")
    with pytest.raises(InputError, match="node 'c' has two rows"):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", 2, CHOICES)
    assert whole_of(untidy / "shards")[0].tolist() == ["c", "b", "a", "alone"]


@pytest.mark.parametrize(("parts", "message"), [(0, "--parts is 0; give 1 to"), (5, "there are 4 nodes; give at most")])
def test_parts_must_be_some_and_not_more_than_nodes(untidy, parts, message):
    with pytest.raises(InputError, match=message):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", parts, CHOICES)


def test_a_file_may_have_a_name_that_is_not_unicode(untidy):
    (untidy / "edges.csv").rename(untidy / "e\udcff.csv")
    cut(untidy / "e\udcff.csv", untidy / "nodes.csv", untidy / "shards", 2, CHOICES)
    assert read_manifest(untidy / "shards").name == "e\\udcff.csv"


def test_a_folder_with_something_else_is_not_touched(untidy):
    with pytest.raises(InputError, match="holds files and no shards"):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy, 2, CHOICES)


def test_a_table_that_grew_meanwhile_is_noticed(untidy, monkeypatch):
    true = sharding._Links.rows

    def grown(self):
        (untidy / "nodes.csv").write_text((untidy / "nodes.csv").read_text() + f"new{id(object())},1,1\n")
        return true(self)

    monkeypatch.setattr(sharding._Links, "rows", grown)
    with pytest.raises(InputError, match="has changed since it was read first"):
        cut(untidy / "edges.csv", untidy / "nodes.csv", untidy / "shards", 2, CHOICES)


RECORD = np.dtype([("row", np.int64), ("values", np.float32, (2,))])


def records(*rows):
    return np.array([(row, (row, row / 2)) for row in rows], dtype=RECORD)


def test_spill_keeps_the_order_of_records(tmp_path):
    spill = Spill(tmp_path / "new", "edges", RECORD, buckets=3)
    spill.add(np.array([2, 0, 2]), records(5, 1, 4))
    spill.add(np.array([0, 2]), records(9, 3))
    np.testing.assert_array_equal(spill.read(0), records(1, 9))
    assert len(spill.read(1)) == 0
    np.testing.assert_array_equal(spill.read(2), records(5, 4, 3))
    spill.remove(0)
    assert len(spill.read(0)) == 0
    spill.add(np.zeros(1, int), records(7))
    np.testing.assert_array_equal(spill.read(0), records(7))
