"""Tables in JSON."""

import gzip
import json

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.errors import InputError
from mtgcn.io import json_table
from mtgcn.io.options import TableOptions
from mtgcn.io.read import read_tables

EDGES = "source,target\n0,1\n1,2\n2,7\n"
LISTS = {"2": [3, 0, 3], "0": [1], "1": [], "7": [3]}
DENSE = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("cells", [1, 8, 1 << 20])
def test_feature_lists(write, monkeypatch, cells):
    monkeypatch.setattr(json_table, "BYTES_AT_ONCE", cells)
    arrays = read_tables(TableOptions(write("edges.csv", EDGES), write("nodes.json", json.dumps(LISTS)), scale=False))
    assert arrays.node_ids.tolist() == [2, 0, 1, 7]
    assert arrays.feature_names == ("feature 0", "feature 1", "feature 2", "feature 3")
    assert np.array_equal(arrays.features, DENSE)


def test_feature_lists_of_new_nodes(write):
    """Numbers that the new nodes lack are 0."""
    nodes = write("nodes.json", json.dumps({f"n{node}": [node % 5, 9] for node in range(30)} | {"n30": []}))
    fitted = read_graph(None, nodes=nodes).preprocessing
    new = read_graph(None, nodes=write("new.json", '{"x": [4, 2]}'), preprocessing=fitted)
    assert new.features[0].nonzero()[0].tolist() == [2, 4]
    assert new.feature_names == fitted.names


def test_records(write):
    records = [
        {"id": 10**17 + 1, "age": 30, "city": "Ulm", "label": "a"},
        {"id": 10**17 + 2, "age": None, "city": "Köln", "label": None},
        {"id": 10**17 + 3, "age": 40.5, "label": "b", "city": "Ulm"},
        {"id": 10**17 + 4, "age": 50, "city": "Köln"},
    ]
    edges = write("edges.json", json.dumps([{"source": 10**17 + 1, "target": 10**17 + 3, "weight": 2}]))
    arrays = read_tables(TableOptions(edges, write("nodes.json", json.dumps(records).encode("utf-16")), scale=False))
    assert arrays.node_ids.tolist() == [record["id"] for record in records]
    assert (arrays.sources.tolist(), arrays.targets.tolist(), arrays.weights.tolist()) == ([0], [2], [2])
    assert (arrays.labels.tolist(), arrays.class_names) == ([0, -1, 1, -1], ("a", "b"))
    assert arrays.features[:, arrays.feature_names.index("city=Ulm")].tolist() == [1, 0, 1, 0]


def test_mixed_types_are_text(write):
    nodes = write("nodes.json", json.dumps([{"id": row, "code": row % 2 and "x"} for row in range(4)]))
    assert read_graph(None, nodes=nodes, kinds={"code": "category"}).feature_names == ("code=0", "code=x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"0": [1, 0.5]}', "node '0' has the feature number '0.5'; give whole numbers from 0 to 99998, or values as"),
        ('{"0": [-1]}', "feature number '-1'"),
        ('{"0": [true]}', "feature number 'True'"),
        ('{"0": [99999]}', "feature number '99999'"),
        ('{"0": [1], "0": [2]}', r"nodes.json is not JSON \(key '0' is given twice\)"),
        ('{"nodes": [], "links": []}', "holds nodes and edges; give it as --graph"),
        ('{"0": "cat"}', "give a list of records"),
        ("[]", r"holds '\[\]'; give a list of records"),
        ("[1, 2]", "give a list of records"),
        ('[{"id": 1, "x": [1, 2]}]', "column 'x' is of type list.*; give text or numbers, one column for each feature"),
        ('{"0": [1', "nodes.json is not JSON .*; correct it, or write it again"),
        ("[" * 100_000, "nodes.json is not JSON"),
        (b"\xff\xfe\xff", "nodes.json is not JSON"),
        ('[{"id": "\\ud800"}]', "nodes.json holds an unpaired surrogate"),
        ('{"\\ud800": [1]}', "nodes.json holds an unpaired surrogate"),
    ],
)
def test_invalid_json(write, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_graph(None, nodes=write("nodes.json", content))
    assert "\n" not in str(caught.value)


def test_size_limit(write, monkeypatch):
    monkeypatch.setattr("mtgcn.io.archives.MAX_BYTES", 1000)
    with pytest.raises(InputError, match="more than the 0 of this format"):
        read_graph(None, nodes=write("nodes.json.gz", gzip.compress(b"[" + b" " * 10_000 + b"]")))
