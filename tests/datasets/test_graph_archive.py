"""Archives as the public repository has them, by hand on four nodes."""

import io
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import SourceUnreachable, fetch, graph_archive, load, where
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
    return graph_archive.read("small", "small.npz", {"small.npz": content})


def test_edges_lose_their_direction_and_self_loops_are_dropped() -> None:
    dataset = read(archived(members()))
    np.testing.assert_array_equal(
        dataset.graph.adjacency.toarray(), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    )
    assert dataset.edges_listed == 4
    assert dataset.graph.name == "small"
    assert dataset.public_split is None


def test_weights_are_dropped() -> None:
    weighted = MATRIX * np.float32(7)
    np.testing.assert_array_equal(
        read(archived(members(adj_matrix=pickled(weighted)))).graph.adjacency.toarray(),
        read(archived(members())).graph.adjacency.toarray(),
    )


def test_a_symmetric_matrix_lists_every_edge_twice_but_a_self_loop_once() -> None:
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


def test_classes_are_called_what_the_metadata_say() -> None:
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
def test_code_in_an_archive_does_not_run(member: str, tmp_path: Path) -> None:
    victim = tmp_path / "made-by-the-pickle"
    with pytest.raises(InputError, match=r"small\.npz is not an archive of a graph: .*; delete it, and it is fetched"):
        read(archived(members(**{member: pickled(Malicious(victim))})))
    assert not victim.exists()


def test_what_a_pickle_asks_for_is_said() -> None:
    with pytest.raises(InputError, match=r"adj_matrix of small\.npz is not .* asks for (posix|nt)\.mkdir, which graph"):
        read(archived(members(adj_matrix=pickled(Malicious(Path("victim"))))))


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
def test_what_is_no_archive_of_a_graph(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(content)


def test_what_unpacks_to_more_than_any_graph_needs_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_archive, "MEMBER_BYTES", 1000)
    with pytest.raises(InputError, match=r"node_label unpacks to \d+ bytes, more than 1000"):
        read(archived(members(node_label=plain(np.zeros(10_000)))))


class TestFinding:
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
        monkeypatch.setattr(fetch, "GITHUB", (tmp_path / "github").as_uri())
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

    def test_a_damaged_file_is_an_error(self, cache: Path, given: Path, world: Path) -> None:
        (world / "dblp.npz").write_bytes(self.CONTENT[:-1])
        with pytest.raises(InputError, match=r"world/dblp.npz is damaged: .* delete it, and it is fetched anew"):
            load("dblp")

    def test_fetched_into_the_cache(self, cache: Path, github: Path) -> None:
        (github / "dblp.npz").write_bytes(self.CONTENT)
        assert where("dblp") is None
        assert load("dblp").num_nodes == 4
        assert where("dblp") == cache
        assert [path.name for path in cache.iterdir()] == ["dblp.npz"]

    def test_a_wrong_sum_is_an_error_and_is_not_kept(self, cache: Path, github: Path) -> None:
        (github / "dblp.npz").write_bytes(b"a login page")
        with pytest.raises(InputError, match=r"dblp.npz as it came from GitHub is damaged"):
            load("dblp")
        assert not cache.exists()

    def test_no_source_reachable(self, cache: Path, given: Path, world: Path, github: Path) -> None:
        with pytest.raises(SourceUnreachable) as caught:
            load("dblp")
        message = str(caught.value)
        assert message.startswith(
            f"dblp is neither in {given} nor in {world} nor in {cache} nor to be fetched (GitHub: "
        )
        assert message.endswith(
            "; the package index does not have it); set MTGCN_DATA to a folder with the file dblp.npz"
        )
        assert "\n" not in message
        assert not cache.exists()
