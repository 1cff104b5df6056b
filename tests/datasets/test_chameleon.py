"""Chameleon's three files, by hand on ten pages."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import SourceUnreachable, chameleon, fetch, load, where

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


def test_edges_are_undirected_and_join_two_pages() -> None:
    dataset = chameleon.read(FILES)
    edges = sp.triu(dataset.graph.adjacency).tocoo()
    assert sorted(zip(edges.row.tolist(), edges.col.tolist(), strict=True)) == [(0, 1), (0, 9), (1, 2)]
    assert set(dataset.graph.adjacency.data) == {1.0}
    assert (dataset.graph.num_nodes, dataset.edges_listed) == (10, 5)


def test_a_class_is_a_fifth_of_the_pages_by_traffic() -> None:
    # Two pages to a fifth: 10 and 20 are the lowest, 90 and 100 the highest.
    np.testing.assert_array_equal(chameleon.read(FILES).graph.labels, [4, 0, 1, 0, 4, 2, 2, 3, 3, 1])


def test_features_say_which_words_a_page_has() -> None:
    features = chameleon.read(FILES).graph.features
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
    monkeypatch.setattr(fetch, "GITHUB", (tmp_path / "github").as_uri())
    return folder


def write(folder: Path) -> None:
    for filename, content in FILES.items():
        (folder / filename).parent.mkdir(parents=True, exist_ok=True)
        (folder / filename).write_bytes(content)


def test_a_folder_of_its_own_in_the_cache(github: Path, cache: Path) -> None:
    assert where("chameleon") is None
    assert repr(load("chameleon")) == "Graph('chameleon', nodes=10, edges=3, features=5, classes=5)"
    assert where("chameleon") == cache
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json", "target.csv"]


def test_beside_the_given_folder(github: Path, cache: Path, given: Path) -> None:
    write(given.parent / "world")
    assert where("chameleon") == given.parent / "world"
    assert load("chameleon").num_nodes == 10
    assert not cache.exists()


def test_a_file_that_is_missing_everywhere(github: Path, cache: Path, given: Path) -> None:
    write(given)
    (given / "chameleon" / "target.csv").unlink()
    (github / "target.csv").unlink()
    with pytest.raises(SourceUnreachable, match=r"GitHub: chameleon/target.csv: .* with the files chameleon/\*"):
        load("chameleon")
    # What came is whole and is kept; the next attempt asks for the rest alone.
    assert sorted(path.name for path in (cache / "chameleon").iterdir()) == ["edges.csv", "features.json"]
