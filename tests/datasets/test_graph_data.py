"""Archives and Chameleon, by hand on a few nodes."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import SourceUnreachable, files, graph_data, load, where
from mtgcn.datasets.dataset import Dataset
from mtgcn.errors import InputError

EDGES = ((0, 1), (1, 0), (1, 2), (3, 3))  # both ways, one way, and a self-loop; node 3 has no neighbour
MATRIX = sp.csr_matrix((np.ones(4, np.float32), tuple(zip(*EDGES, strict=True))), shape=(4, 4))
FEATURES = sp.csr_matrix(np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, 3]], dtype=np.float32))


def pickled(value: Any) -> bytes:
    """An array of one object, pickled as years ago: numpy and scipy have moved their modules since."""
    array = np.empty((), dtype=object)
    array[()] = value
    content = pickle.dumps(array, protocol=3)
    for now, then in ((b"numpy._core.", b"numpy.core."), (b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")):
        content = content.replace(b"c" + now, b"c" + then)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
    return header.getvalue() + content


def plain(values: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(values))
    return content.getvalue()


def archived(members: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def members(**changed: bytes) -> dict[str, bytes]:
    whole = {"adj_matrix": pickled(MATRIX), "node_attr": pickled(FEATURES), "node_label": plain([2, 1, 5, 2])}
    return {**whole, **changed}


def read(content: bytes) -> Dataset:
    return graph_data.read_archive("small", "small.npz", {"small.npz": content})


def test_archive_edges() -> None:
    dataset = read(archived(members()))
    np.testing.assert_array_equal(
        dataset.graph.adjacency.toarray(), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    )
    assert dataset.edges_listed == 4
    assert dataset.graph.name == "small"
    assert dataset.public_split is None


def test_edges_listed_of_a_symmetric_matrix() -> None:
    dataset = read(archived(members(adj_matrix=pickled(MATRIX.maximum(MATRIX.T).tocsr()))))
    assert (dataset.edges_listed, dataset.graph.num_edges) == (3, 2)


def test_features_are_as_they_are() -> None:
    features = read(archived(members())).graph.features
    assert sp.issparse(features)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features.toarray(), FEATURES.toarray())


def test_classes_may_start_at_1_and_have_gaps() -> None:
    graph = read(archived(members())).graph
    np.testing.assert_array_equal(graph.labels, [1, 0, 2, 1])
    assert graph.class_names == ("1", "2", "5")


def test_archive_class_names() -> None:
    names = np.array(["none", "lenses", "flashes", "-", "-", "tripods"])
    graph = read(archived(members(metadata=pickled({"class_names": names, "more": 1})))).graph
    assert graph.class_names == ("lenses", "flashes", "tripods")


@pytest.mark.parametrize("metadata", [{}, {"class_names": np.array(["too", "few"])}])
def test_metadata_are_not_needed(metadata: dict[str, Any]) -> None:
    assert read(archived(members(metadata=pickled(metadata)))).graph.class_names == ("1", "2", "5")


class Malicious:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("member", ["adj_matrix", "node_attr", "node_label", "metadata"])
def test_archive_code_does_not_run(member: str, tmp_path: Path) -> None:
    victim = tmp_path / "made-by-the-pickle"
    with pytest.raises(InputError, match=r"small\.npz is not an archive of a graph: .*; delete it to fetch it"):
        read(archived(members(**{member: pickled(Malicious(victim))})))
    assert not victim.exists()


def out_of_bounds() -> sp.csr_matrix:
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
def test_invalid_archives(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(content)


def test_archive_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_data, "MEMBER_BYTES", 1000)
    with pytest.raises(InputError, match=r"node_label unpacks to \d+ bytes, more than 1000"):
        read(archived(members(node_label=plain(np.zeros(10_000)))))


class TestArchiveFiles:
    """Where the archives are looked for and fetched from. A folder stands for GitHub."""

    CONTENT = archived(members())

    @pytest.fixture(autouse=True)
    def sums(self, trust: Callable[[str, bytes], None]) -> None:
        for filename in ("dblp.npz", "amazon_photo.npz"):
            trust(filename, self.CONTENT)

    @pytest.fixture
    def world(self, given: Path) -> Path:
        """The folder $MTGCN_DATA/../world."""
        folder = given.parent / "world"
        folder.mkdir()
        return folder

    @pytest.fixture
    def github(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        commit = "f8022c26b917346f2a461ffec0ec5ae24b36de68"
        folder = tmp_path / "github" / "EdisonLeeeee" / "GraphData" / commit / "datasets"
        folder.mkdir(parents=True)
        monkeypatch.setattr(files, "GITHUB", (tmp_path / "github").as_uri())
        return folder

    def test_in_the_given_folder(self, cache: Path, given: Path) -> None:
        (given / "amazon_photo.npz").write_bytes(self.CONTENT)
        assert where("amazon-photo") == given
        assert repr(load("amazon-photo")) == "Graph('amazon-photo', nodes=4, edges=2, features=3, classes=3)"

    def test_in_the_folder_beside_it(self, cache: Path, given: Path, world: Path) -> None:
        (world / "dblp.npz").write_bytes(self.CONTENT)
        assert where("dblp") == world
        assert load("dblp").num_nodes == 4
        assert where("cora") is None  # whose files are not looked for there

    def test_beside_a_folder_that_is_named_relatively(
        self, cache: Path, given: Path, world: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (world / "dblp.npz").write_bytes(self.CONTENT)
        monkeypatch.chdir(given)
        monkeypatch.setenv("MTGCN_DATA", ".")
        assert where("dblp") == world

    def test_the_given_folder_comes_first_and_the_cache_last(self, cache: Path, given: Path, world: Path) -> None:
        cache.mkdir()
        found = []
        for folder in (cache, world, given):
            (folder / "dblp.npz").write_bytes(self.CONTENT)
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


def test_chameleon_edges() -> None:
    dataset = graph_data.read_chameleon(FILES)
    edges = sp.triu(dataset.graph.adjacency).tocoo()
    assert sorted(zip(edges.row.tolist(), edges.col.tolist(), strict=True)) == [(0, 1), (0, 9), (1, 2)]
    assert set(dataset.graph.adjacency.data) == {1.0}
    assert (dataset.graph.num_nodes, dataset.edges_listed) == (10, 5)


def test_chameleon_classes() -> None:
    # Two pages to a fifth: 10 and 20 are the lowest, 90 and 100 the highest.
    np.testing.assert_array_equal(graph_data.read_chameleon(FILES).graph.labels, [4, 0, 1, 0, 4, 2, 2, 3, 3, 1])


def test_chameleon_features() -> None:
    features = graph_data.read_chameleon(FILES).graph.features
    assert sp.issparse(features)
    assert features.shape == (10, 5)  # words 0 to 4, of which no page has 3
    np.testing.assert_array_equal(
        features.toarray()[:5], [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    )


@pytest.fixture
def github(tmp_path: Path, trust: Callable[[str, bytes], None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for GitHub, with the three files."""
    for filename, content in FILES.items():
        trust(filename, content)
    commit = "f8022c26b917346f2a461ffec0ec5ae24b36de68"
    folder = tmp_path / "github" / "EdisonLeeeee" / "GraphData" / commit / "datasets" / "musae" / "chameleon"
    write(folder.parent)
    monkeypatch.setattr(files, "GITHUB", (tmp_path / "github").as_uri())
    return folder


def write(folder: Path) -> None:
    for filename, content in FILES.items():
        (folder / filename).parent.mkdir(parents=True, exist_ok=True)
        (folder / filename).write_bytes(content)


def test_chameleon_is_cached_in_its_folder(github: Path, cache: Path) -> None:
    assert where("chameleon") is None
    assert repr(load("chameleon")) == "Graph('chameleon', nodes=10, edges=3, features=5, classes=5)"
    assert where("chameleon") == cache
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json", "target.csv"]


def test_chameleon_missing_file(github: Path, cache: Path, given: Path) -> None:
    write(given)
    (given / "chameleon" / "target.csv").unlink()
    (github / "target.csv").unlink()
    with pytest.raises(SourceUnreachable, match=r"GitHub: chameleon/target.csv: .* with the files chameleon/\*"):
        load("chameleon")
    # What came is whole and is kept; the next attempt asks for the rest alone.
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json"]
