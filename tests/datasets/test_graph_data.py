"""Archives and Chameleon, by hand on a few nodes."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import SourceUnreachable, graph_data, load, where
from mtgcn.errors import InputError

EDGES = ((0, 1), (1, 0), (1, 2), (3, 3))  # both ways, one way, and a self-loop; node 3 has no neighbour
MATRIX = sp.csr_matrix((np.ones(4, np.float32), tuple(zip(*EDGES, strict=True))), shape=(4, 4))
FEATURES = sp.csr_matrix(np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, 3]], dtype=np.float32))


def pickled(value):
    """An array of one object, pickled as years ago: numpy and scipy have moved their modules since."""
    array = np.empty((), dtype=object)
    array[()] = value
    content = pickle.dumps(array, protocol=3)
    for now, then in ((b"numpy._core.", b"numpy.core."), (b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")):
        content = content.replace(b"c" + now, b"c" + then)
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
    return graph_data.read_archive("small", "small.npz", {"small.npz": content})


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


class Malicious:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("member", ["adj_matrix", "node_attr", "node_label", "metadata"])
def test_archive_code_does_not_run(member, tmp_path):
    victim = tmp_path / "made-by-the-pickle"
    with pytest.raises(InputError, match=r"small\.npz is not an archive of a graph: .*; delete it to fetch it"):
        read(archived(members(**{member: pickled(Malicious(victim))})))
    assert not victim.exists()


def out_of_bounds():
    matrix = MATRIX.copy()
    matrix.indices[0] = 1_000_000
    return matrix


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip file", "not a zip file"),
        (archived({"node_label": plain([0])}), "no item named 'adj_matrix.npy'"),
        (archived(members(adj_matrix=b"no array")), "magic string is not correct"),
        (archived(members(adj_matrix=pickled(np.eye(4)))), "adj_matrix is of type ndarray, not a sparse matrix"),
        (archived(members(adj_matrix=pickled(out_of_bounds()))), "must be < 4"),
        (archived(members(node_label=plain([0, 1, 0, 1])[:-3])), "expected 32 bytes got 29"),
    ],
)
def test_invalid_archives(content, message):
    with pytest.raises(InputError, match=message):
        read(content)


def test_archive_size_limit(monkeypatch):
    monkeypatch.setattr(graph_data, "MEMBER_BYTES", 1000)
    with pytest.raises(InputError, match=r"node_label unpacks to \d+ bytes, more than 1000"):
        read(archived(members(node_label=plain(np.zeros(10_000)))))


CONTENT = archived(members())


@pytest.fixture
def world(given, trust):
    """The folder $MTGCN_DATA/../world; the content of two archives is trusted."""
    for filename in ("dblp.npz", "amazon_photo.npz"):
        trust(filename, CONTENT)
    folder = given.parent / "world"
    folder.mkdir()
    return folder


def test_given_folder(cache, given, world):
    (given / "amazon_photo.npz").write_bytes(CONTENT)
    assert where("amazon-photo") == given
    assert repr(load("amazon-photo")) == "Graph('amazon-photo', nodes=4, edges=2, features=3, classes=3)"


@pytest.mark.parametrize("relative", [True, False])
def test_folder_beside_the_given_one(cache, given, world, monkeypatch, relative):
    (world / "dblp.npz").write_bytes(CONTENT)
    if relative:
        monkeypatch.chdir(given)
        monkeypatch.setenv("MTGCN_DATA", ".")
    assert (where("dblp"), load("dblp").num_nodes) == (world, 4)
    assert where("cora") is None  # whose files are not searched there


def test_search_order(cache, given, world):
    cache.mkdir()
    found = []
    for folder in (cache, world, given):
        (folder / "dblp.npz").write_bytes(CONTENT)
        found.append(where("dblp"))
    assert found == [cache, world, given]


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


def test_chameleon():
    dataset = graph_data.read_chameleon(FILES)
    graph = dataset.graph
    edges = sp.triu(graph.adjacency).tocoo()
    assert sorted(zip(edges.row.tolist(), edges.col.tolist(), strict=True)) == [(0, 1), (0, 9), (1, 2)]
    assert set(graph.adjacency.data) == {1.0}
    assert (graph.num_nodes, dataset.edges_listed) == (10, 5)
    # Two pages in each fifth: 10 and 20 are the lowest, 90 and 100 the highest.
    assert graph.labels.tolist() == [4, 0, 1, 0, 4, 2, 2, 3, 3, 1]
    assert sp.issparse(graph.features)
    assert graph.features.shape == (10, 5)  # words 0 to 4; no page has 3
    words = [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    assert graph.features.toarray()[:5].tolist() == words


MUSAE = "EdisonLeeeee/GraphData/f8022c26b917346f2a461ffec0ec5ae24b36de68/datasets/musae"


def test_chameleon_is_cached_in_its_folder(github, cache):
    github(MUSAE, FILES)
    assert where("chameleon") is None
    assert repr(load("chameleon")) == "Graph('chameleon', nodes=10, edges=3, features=5, classes=5)"
    assert where("chameleon") == cache
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json", "target.csv"]


def test_chameleon_missing_file(github, cache, given):
    github(given, FILES)
    (github(MUSAE, FILES) / "chameleon/target.csv").unlink()
    (given / "chameleon/target.csv").unlink()
    with pytest.raises(SourceUnreachable, match=r"GitHub: chameleon/target.csv: .* with the files chameleon/\*"):
        load("chameleon")
    # Complete files are kept; the next attempt fetches the rest only.
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json"]
