"""A table read in batches gives what it gives read as a whole; preprocessing is learned from rows that memory holds."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import read_graph
from mtgcn.distributed.node_table import learned_table
from mtgcn.errors import GraphNote, InputError
from mtgcn.io import csv_table
from mtgcn.io.options import TableOptions

ROWS = 200


@pytest.fixture
def table(tmp_path):
    """Numbers with gaps, decimal commas, a category with a rare value, dates, free text, and a label."""
    random = np.random.default_rng(0)
    lines = ["id;age;income;colour;since;note;label"]
    for row in range(ROWS):
        income = "" if row % 17 == 0 else f"{random.lognormal(10, 2):.2f}".replace(".", ",")
        colour = ("red", "green", "blue", "NA")[row % 4] if row != 150 else "mauve"
        lines.append(f"v{row};{20 + row % 50};{income};{colour};2024-01-{1 + row % 28:02d};text {row};{'ab'[row % 2]}")
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def features_of(learned):
    return np.concatenate([np.asarray(some) for some in learned.features()])


@pytest.mark.parametrize("block", [500, 1 << 24])
def test_features_are_those_of_a_table_read_as_a_whole(table, block, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", block)
    with pytest.warns(GraphNote, match="column 'label' holds labels and is no feature"):
        learned = learned_table(table, TableOptions())
    whole = read_graph(None, nodes=table)
    assert learned.preprocessing == whole.preprocessing
    assert learned.ids.to_pylist() == whole.node_ids.tolist()
    np.testing.assert_array_equal(features_of(learned), whole.features)


def test_preparation_is_learned_from_some_rows_of_many(table, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 500)
    with pytest.warns(GraphNote, match="learned from 60 of 200 rows, drawn at random"):
        learned = learned_table(table, TableOptions(columns={"label": False}), most_rows=60)
    with pytest.warns(GraphNote):
        again = learned_table(table, TableOptions(columns={"label": False}), most_rows=60)
    assert learned.preprocessing == again.preprocessing
    table_of_features = features_of(learned)
    assert table_of_features.shape == (ROWS, len(learned.preprocessing.names))
    assert np.isfinite(table_of_features).all()
    age = next(column for column in learned.preprocessing.columns if column.name == "age")
    assert age.centre == pytest.approx(44.5, abs=6)  # the mean of a quarter of the rows, not of the first ones


def test_a_column_that_turns_out_to_be_words_further_down_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 300)
    path = tmp_path / "nodes.csv"
    rows = [f"{row},{row % 7},{row % 3 if row < 80 else 'low'}" for row in range(120)]
    path.write_text("id,size,grade\n" + "\n".join(rows) + "\n")
    learned = learned_table(path, TableOptions(kinds={"grade": "category"}))
    assert "grade=low" in learned.preprocessing.names
    found = learned_table(path, TableOptions())
    whole = read_graph(None, nodes=path)
    assert found.preprocessing == whole.preprocessing
    np.testing.assert_array_equal(features_of(found), whole.features)


def test_a_table_of_words_stays_sparse(sparse_files):
    learned = learned_table(sparse_files / "nodes.csv", TableOptions())
    whole = read_graph(None, nodes=sparse_files / "nodes.csv")
    assert learned.sparse
    rows = sp.vstack(list(learned.features()))
    assert (rows != whole.features).nnz == 0


def test_rows_without_an_id_and_tables_without_features_are_refused(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,size\na,1\n,2\n")
    with pytest.raises(InputError, match=r"nodes.csv line 3, column 'id' is empty"):
        learned_table(path, TableOptions())
    path.write_text("id\na\nb\n")
    with pytest.raises(InputError, match="no column that could be a feature"):
        learned_table(path, TableOptions())
    path.write_text("id,size\na,1\nb,1\n")
    with pytest.raises(InputError, match="nothing can be learned from its columns"):
        learned_table(path, TableOptions())
