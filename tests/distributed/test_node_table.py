"""Node tables read in batches, and the index of ids."""

import numpy as np
import pyarrow as pa
import pytest

from mtgcn import read_graph
from mtgcn.distributed import node_table
from mtgcn.distributed.node_table import LargeIndex, fit_table
from mtgcn.errors import GraphNote, InputError
from mtgcn.io import csv_table
from mtgcn.io.column_table import MISSING
from mtgcn.io.options import TableOptions
from mtgcn.io.table import Coded

ROWS = 200


@pytest.fixture
def table(tmp_path):
    """Numbers with gaps, decimal commas, a category with a rare value, dates, free text, and a label."""
    random = np.random.default_rng(0)
    lines = ["id;age;income;colour;since;note;label"]
    for row in range(ROWS):
        income = "" if row % 17 == 0 else f"{random.lognormal(10, 2):.2f}".replace(".", ",")
        colour = ("red", "green", "blue", "NA")[row % 4] if row != 150 else "mauve"
        lines.append(f"v{row};{20 + row % 50};{income};{colour};2024-01-{1 + row % 28:02d};text{row};{'ab'[row % 2]}")
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def features_of(fitted):
    return np.concatenate([np.asarray(some) for some in fitted.features()])


@pytest.mark.parametrize("block", [500, 1 << 24])
def test_features_match_read_graph(table, block, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", block)
    with pytest.warns(GraphNote, match="column 'label' holds labels"):
        fitted = fit_table(table, TableOptions())
    whole = read_graph(None, nodes=table)
    assert fitted.preprocessing == whole.preprocessing
    assert fitted.ids.to_pylist() == whole.node_ids.tolist()
    np.testing.assert_array_equal(features_of(fitted), whole.features)


def test_preprocessing_is_fitted_to_a_sample(table, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", 500)
    monkeypatch.setattr(node_table, "MAX_ROWS", 60)
    monkeypatch.setattr(node_table, "MIN_ROWS", 1)
    with pytest.warns(GraphNote, match="fitted to 60 of 200 rows, drawn at random"):
        fitted, again = (fit_table(table, TableOptions(columns={"label": False})) for _ in range(2))
    assert fitted.preprocessing == again.preprocessing
    table_of_features = features_of(fitted)
    assert table_of_features.shape == (ROWS, len(fitted.preprocessing.names))
    assert np.isfinite(table_of_features).all()
    age = next(column for column in fitted.preprocessing.columns if column.name == "age")
    assert age.centre == pytest.approx(44.5, abs=6)  # a sample, not the first rows


def test_column_that_turns_out_to_be_text(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", 300)
    path = tmp_path / "nodes.csv"
    rows = [f"{row},{row % 7},{row % 3 if row < 80 else 'low'}" for row in range(120)]
    path.write_text("id,size,grade\n" + "\n".join(rows) + "\n")
    fitted = fit_table(path, TableOptions(kinds={"grade": "category"}))
    assert "grade=low" in fitted.preprocessing.names
    found = fit_table(path, TableOptions())
    whole = read_graph(None, nodes=path)
    assert found.preprocessing == whole.preprocessing
    np.testing.assert_array_equal(features_of(found), whole.features)


def test_invalid_tables_are_refused(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,size\na,1\n,2\n")
    with pytest.raises(InputError, match=r"nodes.csv line 3, column 'id' is empty"):
        fit_table(path, TableOptions())
    path.write_text("id\na\nb\n")
    with pytest.raises(InputError, match="has no feature columns"):
        fit_table(path, TableOptions())
    path.write_text("id,size\na,1\nb,1\n")
    with pytest.raises(InputError, match="no column yields a feature"):
        fit_table(path, TableOptions())


IDS = pa.array(["b", "a", "ab", "ba", "007", "7", "Äpfel", "a" * 900])


@pytest.mark.parametrize("at_once", [3, 1 << 16])
def test_ids_are_found(at_once, monkeypatch):
    monkeypatch.setattr(node_table, "IDS_AT_ONCE", at_once)
    index = LargeIndex(IDS, "nodes.csv")
    assert len(index) == 8
    assert index.find(Coded(np.arange(8), IDS)).tolist() == list(range(8))
    asked = Coded(np.array([1, 0, 2, 1]), pa.array(["7", "007", "c"]))
    assert index.find(asked).tolist() == [4, 5, MISSING, 4]
    assert index.knows("ab")
    assert not index.knows("abb")


def test_numeric_ids_are_found_by_their_text():
    index = LargeIndex(pa.array(["12", "-3"]), "nodes.csv")
    assert index.find(Coded(np.arange(3), pa.array([-3, 12, 3]))).tolist() == [1, 0, MISSING]


def test_duplicate_ids_are_refused():
    with pytest.raises(InputError, match=r"nodes.csv: node 'x' has two rows, numbers 2 and 4; keep one"):
        LargeIndex(pa.array(["a", "x", "b", "x"]), "nodes.csv")
    with pytest.raises(InputError, match=r"node 'a' has two rows, numbers 1 and 3 \(and 1 more\)"):
        LargeIndex(pa.array(["a", "x", "a", "x"]), "nodes.csv")


def test_equal_hashes(monkeypatch):
    monkeypatch.setattr(node_table, "_hashes", lambda ids: np.full(len(ids), 7))
    assert not LargeIndex(pa.array(["a"]), "nodes.csv").knows("b")
    with pytest.raises(InputError, match="the ids 'a' and 'b' have the same hash"):
        LargeIndex(pa.array(["a", "b"]), "nodes.csv")


def test_text_is_left_out(tmp_path):
    rows = [f"n{row};{row % 7};some words about topic {row}" for row in range(30)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id;size;note", *rows, ""]))
    fitted = fit_table(tmp_path / "nodes.csv", TableOptions())
    assert fitted.preprocessing.lines() == ["size: standardised", "note: left out, text"]
