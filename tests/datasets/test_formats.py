"""Planetoid's files, Cora as text, archives, MUSAE's graphs, Minesweeper and airports."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import SourceUnreachable, catalogue, describe, formats, load, where
from mtgcn.labels import UNLABELED
from mtgcn.splits import SPLIT_PARTS

EDGES = ((0, 1), (1, 0), (1, 2), (3, 3))  # both ways, one way, and a self-loop; node 3 has no neighbour
MATRIX = sp.csr_matrix((np.ones(4, np.float32), tuple(zip(*EDGES, strict=True))), shape=(4, 4))
FEATURES = sp.csr_matrix(np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, 3]], dtype=np.float32))


def as_years_ago(pickled):
    """numpy and scipy have moved their modules since."""
    for now, then in ((b"numpy._core.", b"numpy.core."), (b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")):
        pickled = pickled.replace(b"c" + now, b"c" + then)
    return pickled


def pickled(value):
    """An array of one object, pickled as years ago."""
    array = np.empty((), dtype=object)
    array[()] = value
    content = as_years_ago(pickle.dumps(array, protocol=3))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
    return header.getvalue() + content


def plain(values):
    content = io.BytesIO()
    np.save(content, np.asarray(values))
    return content.getvalue()


def archived(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def members(**changed):
    whole = {"adj_matrix": pickled(MATRIX), "node_attr": pickled(FEATURES), "node_label": plain([2, 1, 5, 2])}
    return {**whole, **changed}


def read(content):
    return formats.read_archive("small", "small.npz", {"small.npz": content})


def test_archive():
    dataset = read(archived(members()))
    graph = dataset.graph
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert (dataset.edges_listed, dataset.public_split, graph.name) == (4, None, "small")
    assert sp.issparse(graph.features)
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES.toarray())
    assert (graph.labels.tolist(), graph.class_names) == ([1, 0, 2, 1], ("1", "2", "5"))


def test_edges_listed_of_a_symmetric_matrix():
    dataset = read(archived(members(adj_matrix=pickled(MATRIX.maximum(MATRIX.T).tocsr()))))
    assert (dataset.edges_listed, dataset.graph.num_edges) == (3, 2)


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"class_names": np.array(["-", "lenses", "flashes", "-", "-", "tripods"])}, ("lenses", "flashes", "tripods")),
        ({"class_names": np.array(["too", "few"])}, ("1", "2", "5")),
        ({}, ("1", "2", "5")),
    ],
)
def test_archive_class_names(metadata, names):
    assert read(archived(members(metadata=pickled(metadata)))).graph.class_names == names


@pytest.mark.parametrize("relative", [True, False])
def test_search_order(cache, given, trust, monkeypatch, relative):
    """Of datasets that are not in the paper, also in folders next to $MTGCN_DATA."""
    trust("dblp.npz", archived(members()))
    world, kinds = given.parent / "world", given.parent / "kinds"
    if relative:
        monkeypatch.chdir(given)
        monkeypatch.setenv("MTGCN_DATA", ".")
    found = []
    for folder in (cache, kinds, world, given):
        folder.mkdir(exist_ok=True)
        (folder / "dblp.npz").write_bytes(archived(members()))
        found.append(where("dblp").resolve())
    assert found == [cache, kinds, world, given]
    assert repr(load("dblp")) == "Graph('dblp', nodes=4, edges=2, features=3, classes=3)"
    for filename in formats.planetoid_files("cora"):
        (world / filename).write_bytes(b"")
    assert where("cora") is None


def read_as(name, contents):
    [form] = catalogue._FORMATS[name]
    return form.read(contents)


MUSAE = "EdisonLeeeee/GraphData/f8022c26b917346f2a461ffec0ec5ae24b36de68/datasets/musae"
TRAFFIC = (90, 10, 30, 20, 100, 60, 50, 80, 70, 40)  # of pages 0 to 9
WORDS = {"3": [4, 0], "0": [1], "1": [], "2": [4], **{str(page): [2] for page in range(4, 10)}}
FILES = {
    "chameleon/edges.csv": b"id1,id2\n0,1\n1,0\n1,2\n3,3\n9,0\n",
    "chameleon/features.json": json.dumps(WORDS).encode(),
    # Not in the order of pages.
    "chameleon/target.csv": (
        "id,target\n" + "".join(f"{page},{TRAFFIC[page]}\n" for page in range(9, -1, -1))
    ).encode(),
}


def test_chameleon(github, cache):
    github(MUSAE, FILES)
    assert where("chameleon") is None
    graph = load("chameleon")
    assert where("chameleon") == cache
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json", "target.csv"]
    edges = sp.triu(graph.adjacency).tocoo()
    assert sorted(zip(edges.row.tolist(), edges.col.tolist(), strict=True)) == [(0, 1), (0, 9), (1, 2)]
    assert set(graph.adjacency.data) == {1.0}
    assert (graph.num_nodes, describe("chameleon").edges_listed) == (10, 5)
    # Two pages in each fifth: 10 and 20 are the lowest, 90 and 100 the highest.
    assert graph.labels.tolist() == [4, 0, 1, 0, 4, 2, 2, 3, 3, 1]
    assert sp.issparse(graph.features)
    assert graph.features.shape == (10, 5)  # words 0 to 4; no page has 3
    words = [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    assert graph.features.toarray()[:5].tolist() == words


def test_chameleon_missing_file(github, cache, given):
    github(given, FILES)
    (github(MUSAE, FILES) / "chameleon/target.csv").unlink()
    (given / "chameleon/target.csv").unlink()
    with pytest.raises(SourceUnreachable, match=r"GitHub: chameleon/target.csv: .* with chameleon/edges.csv, "):
        load("chameleon")
    # Complete files are kept; the next attempt fetches the rest only.
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json"]


USERS = {
    "DE_edges.csv": b"from,to\n0,2\n2,0\n1,1\n",
    "DE.json": b'{"2": [0, 3, 3], "0": [1]}',  # twice the same, and nothing of user 1
    "DE_target.csv": b"id,days,mature,new_id\n77,1,True,2\n12,1,True,0\n30,1,False,1\n",
}
MUSAE_INPUT = "benedekrozemberczki/MUSAE/5f901232957b6c9985d750aac48cda39a4b24285/input"


def test_twitch_is_fetched_and_numbered_by_new_id(github, cache):
    for filename, folder in (("DE_edges.csv", "edges"), ("DE.json", "features"), ("DE_target.csv", "target")):
        github(f"{MUSAE_INPUT}/{folder}", {filename: USERS[filename]})
    graph = load("twitch-de")
    assert {path.name for path in cache.iterdir()} == {*USERS}
    assert graph.adjacency.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert (graph.labels.tolist(), graph.class_names) == ([1, 0, 1], ("False", "True"))
    assert graph.features.toarray().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]


def test_facebook_pages():
    dataset = read_as(
        "facebook-pages",
        {
            "facebook_edges.csv": b"id_1,id_2\n0,1\n1,1\n",
            "facebook.json": b'{"0": [1], "1": [0]}',
            "facebook_target.csv": 'id,page_name,page_type\n0,"Müller, ""M""",tvshow\n1,x,company\n'.encode(),
        },
    )
    assert (dataset.edges_listed, dataset.graph.num_edges) == (2, 1)
    assert (dataset.graph.labels.tolist(), dataset.graph.class_names) == ([1, 0], ("company", "tvshow"))


CELLS = {"node_features": plain(np.eye(3)), "node_labels": plain([0, 1, 1]), "edges": plain([[0, 1], [2, 1]])}


def test_minesweeper():
    dataset = read_as("minesweeper", {"minesweeper.npz": archived(CELLS)})
    assert (dataset.graph.labels.tolist(), dataset.graph.features.tolist()) == ([0, 1, 1], np.eye(3).tolist())
    assert dataset.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert dataset.edges_listed == 2


def test_airports():
    labels = b"node label\n20 1\n10 0\n30 3\n"
    files = {"usa-airports.edgelist": b"30 10\n20 30\n30 20\n10 10\n", "labels-usa-airports.txt": labels}
    dataset = read_as("airports-usa", files)
    graph = dataset.graph
    assert (graph.node_ids.tolist(), graph.labels.tolist(), graph.features) == ([10, 20, 30], [0, 1, 3], None)
    assert graph.adjacency.toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert dataset.edges_listed == 4


def test_planetoid_rows_are_placed_by_index(monkeypatch):
    """Six nodes on a path."""
    parts = {
        "allx": sp.csr_matrix(np.array([[1, 0], [2, 0], [3, 0]], dtype=np.float32)),
        "tx": sp.csr_matrix(np.array([[0, 4], [0, 5]], dtype=np.float32)),
        "ally": np.array([[1, 0], [0, 1], [0, 0]]),  # node 2 has a row, but no class in it
        "ty": np.array([[0, 1], [1, 0]]),
        "y": np.array([[1, 0]]),
        "graph": {node: [other for other in (node - 1, node + 1) if 0 <= other < 6] for node in range(6)},
    }
    parts["x"] = parts["allx"][:1]
    files = {f"ind.small.{name}": as_years_ago(pickle.dumps(part, protocol=3)) for name, part in parts.items()}
    monkeypatch.setattr(formats, "_planetoid_split", lambda train, test: (train, test.tolist()))
    dataset = formats.read_planetoid("small", files | {"ind.small.test.index": b"5\n3\n"})
    graph = dataset.graph
    np.testing.assert_array_equal(graph.features.toarray(), [[1, 0], [2, 0], [3, 0], [0, 5], [0, 0], [0, 4]])
    np.testing.assert_array_equal(graph.labels, [0, 1, UNLABELED, 0, UNLABELED, 1])
    assert (graph.features.dtype, graph.num_edges, dataset.edges_listed) == (np.float32, 5, 5)
    assert dataset.public_split == (1, [5, 3])


@pytest.mark.data
def test_both_formats_of_cora_agree(real_files):
    pickled = formats.read_planetoid("cora", real_files[0], formats.CORA_CLASSES)
    text = formats.read_cora_text(real_files[1])
    for one, other in (
        *((getattr(pickled.graph, part), getattr(text.graph, part)) for part in ("labels", "node_ids", "class_names")),
        *((getattr(pickled.public_split, part), getattr(text.public_split, part)) for part in SPLIT_PARTS),
    ):
        np.testing.assert_array_equal(one, other)
    assert (pickled.graph.adjacency != text.graph.adjacency).nnz == 0
    assert (pickled.graph.features != text.graph.features).nnz == 0
    assert pickled.edges_listed == text.edges_listed == 5429
