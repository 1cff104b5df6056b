"""GraphML, GML, node-link JSON, .npz, .mat, .mtx and .pt."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch

from mtgcn import memory, read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.io.graph_files import read_graph_file
from mtgcn.io.options import TableOptions


def read_file(path, features=None, **columns):
    return read_graph_file(TableOptions(graph=path, features=features, columns=columns))


@pytest.fixture
def village():
    graph = nx.Graph()
    people = {"ada": (36, 1.5, "Paris"), "bob": (20, 1.8, "Rome"), "eve": (33, 1.7, "Rome"), "dan": (34, 1.6, "Oslo")}
    for name, (age, height, town) in people.items():
        graph.add_node(name, age=age, height=height, town=town)
    nx.set_node_attributes(graph, {"ada": "x", "bob": "y", "dan": "x"}, "label")
    graph.add_edge("ada", "bob", weight=2.0)
    graph.add_edge("bob", "eve")
    return graph


@pytest.fixture
def village_file(village, tmp_path):
    nx.write_graphml(village, tmp_path / "g.graphml")
    return tmp_path / "g.graphml"


def test_graphml(village_file):
    arrays = read_file(village_file)
    assert arrays.node_ids.tolist() == ["ada", "bob", "eve", "dan"]
    assert (arrays.sources.tolist(), arrays.targets.tolist(), arrays.weights.tolist()) == ([0, 1], [1, 2], [2, 1])
    row = dict(zip(arrays.feature_names, arrays.features[1].tolist(), strict=True))
    assert row == {"age": 20, "height": pytest.approx(1.8)}
    assert (arrays.labels.tolist(), arrays.class_names) == ([0, 1, -1, 0], ("x", "y"))
    assert arrays.directed is False


def test_named_attributes(village_file):
    arrays = read_file(village_file, label="town", features=["age"], weight=False)
    assert arrays.class_names == ("Oslo", "Paris", "Rome")
    assert (arrays.feature_names, arrays.weights) == (("age",), None)


def test_unique_labels_are_names(village, tmp_path):
    for node in village:
        village.nodes[node]["label"] = node.title()
    nx.write_graphml(village, tmp_path / "g.graphml")
    assert read_file(tmp_path / "g.graphml").labels is None


def test_gml(write):
    path = write(
        "g.gml",
        'graph [ node [ id 4 label "ada" class "x" f 1.5 ] node [ id 7 label "zoé &amp; co" class "y" f 2 ] '
        "edge [ source 4 target 7 weight 3 ] ]",
    )
    arrays = read_file(path)
    assert arrays.node_ids.tolist() == ["ada", "zoé & co"]
    assert (arrays.labels.tolist(), arrays.class_names) == ([0, 1], ("x", "y"))
    assert arrays.features.tolist() == [[1.5], [2]]
    assert arrays.weights.tolist() == [3]


def test_label_table(write, save, data):
    path = write("g.gml", "graph [ node [ id 4 ] node [ id 7 ] node [ id 9 ] edge [ source 4 target 7 ] ]")
    graph = read_graph(path, labels=write("labels.csv", "id,label\n9,x\n4,y\n"))
    assert (graph.node_ids.tolist(), graph.labels.tolist(), graph.class_names) == ([4, 7, 9], [1, -1, 0], ("x", "y"))
    with pytest.raises(InputError, match=r"labels.csv line 3: node '5' is not in the graph"):
        read_graph(path, labels=write("labels.csv", "id,label\n9,x\n5,y\n"))
    labels = write("labels.csv", "id,label\n0,cat\n")
    assert read_graph(save(data), labels=labels, few_labels=True).class_names == ("cat",)
    with pytest.raises(InputError, match="one class only"):
        read_graph(save(data), labels=labels)


def test_columns_of_the_label_table(write, village_file):
    labels = write("labels.csv", "name,age,team\nada,36,x\ndan,34,y\n")
    graph = read_graph(village_file, labels=labels, columns={"label": "team", "id": "name"})
    assert (graph.labels.tolist(), graph.class_names) == ([0, -1, -1, 1], ("x", "y"))
    with pytest.raises(InputError, match="has the columns age, team, but none is named label; give --column label="):
        read_graph(village_file, labels=labels, columns={"id": "name"})
    with pytest.raises(InputError, match="unknown role or kind of column 'id'"):
        read_graph(village_file, columns={"id": "name"})


@pytest.mark.parametrize("edges", ["links", "edges"])
def test_node_link(village, tmp_path, edges):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(nx.node_link_data(village, edges=edges)))
    arrays = read_file(path)
    assert arrays.node_ids.tolist() == ["ada", "bob", "eve", "dan"]
    assert (arrays.sources.tolist(), arrays.targets.tolist(), arrays.weights.tolist()) == ([0, 1], [1, 2], [2, 1])
    assert (arrays.feature_names, arrays.labels.tolist()) == (("age", "height"), [0, 1, -1, 0])
    assert read_file(path, label="town").class_names == ("Oslo", "Paris", "Rome")


def test_node_link_without_ids(write):
    """As drawing libraries write it: edges name nodes by position."""
    text = '{"nodes": [{"class": "x"}, {"class": "y"}], "links": [{"source": 0, "target": 1}]}'
    arrays = read_file(write("g.json", text))
    assert (arrays.node_ids.tolist(), arrays.sources.tolist(), arrays.class_names) == ([0, 1], [0], ("x", "y"))


def test_gzip_of_graph_files(village, tmp_path, data):
    for name, write in (
        ("g.graphml", nx.write_graphml),
        ("g.gml", nx.write_gml),
        ("g.json", lambda graph, path: path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))),
        ("g.npz", lambda _, path: np.savez(path, **FORMS["adj"])),
        ("g.mat", lambda _, path: scipy.io.savemat(path, {"A": CSR}, do_compression=True)),
        ("g.mtx", lambda _, path: scipy.io.mmwrite(path, CSR)),
        ("g.pt", lambda _, path: torch.save(data, path)),
    ):
        write(village, tmp_path / name)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        plain, packed = read_file(tmp_path / name), read_file(tmp_path / f"{name}.gz")
        assert np.array_equal(plain.node_ids, packed.node_ids)
        assert np.array_equal(plain.sources, packed.sources)


def test_long_attribute_takes_linear_time(write):
    """In pieces of 64 KiB it took 100 s."""
    text = '<graphml><graph edgedefault="undirected"><node id="b"/><node id="{}"/></graph></graphml>'
    started = time.perf_counter()
    with pytest.raises(InputError, match="has 8000000 characters; give names of at most 1000"):
        read_file(write("g.graphml", text.format("a" * 8_000_000)))
    assert time.perf_counter() - started < 20


MATRIX = b"%%%%MatrixMarket matrix coordinate %s general\n"
BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;">]>
<graphml><graph edgedefault="undirected"><node id="&c;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.graphml", BOMB.encode(), "g.graphml line 2: a DOCTYPE can declare endless entities"),
        ("g.graphml", BOMB.replace("?>", ' encoding="UTF-16"?>', 1).encode("utf-16"), "line 2: a DOCTYPE"),
        ("g.graphml", b'<!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>', "line 1: a DOCTYPE"),
        ("g.graphml", b"<a>" * 5000 + b"</a>" * 5000, "nested deeper than 100"),
        ("g.graphml", b'<?xml version="1.0" encoding="klingon"?><a/>', "cannot be read as XML|not well-formed XML"),
        ("g.graphml", b"<graphml>\n<graph>", "g.graphml line 2 is not well-formed XML"),
        ("g.graphml", b"<graphml/>", "cannot be read as GraphML"),
        ("g.graphml", b"random \xff bytes", "not well-formed XML"),
        ("g.gml", b"graph [ node [ id 1 ", "cannot be read as GML"),
        ("g.gml", b'graph [ \n node [ id 1 label "\xe9" ] ]', "g.gml line 2: byte 0xe9 is not UTF-8"),
        ("g.gml", b"graph [ ]", "g.gml has no nodes"),
        ("g.gml", b"", "g.gml is empty"),
        ("g.gml.gz", gzip.compress(b"", mtime=0), "g.gml.gz is empty"),
        ("g.json", b'{"0": [1, 2]}', "holds no nodes with links or edges; give tables in JSON as --nodes or --edges"),
        ("g.json", b'{"nodes": [{"id": 0}], "links": [{"source": 0}]}', "cannot be read as node-link JSON"),
        ("g.mat", b"no file of MATLAB", "cannot be read as MATLAB .*; save it again with -v7"),
        ("g.mtx", b"1 2\n", "cannot be read as MatrixMarket"),
        ("g.mtx", MATRIX % b"real" + b"3 3 9000000000\n1 2 3\n", "1 entries, but the header announces 9000000000"),
        ("g.mtx", MATRIX % b"real" + b"2 3 1\n1 3 1\n", r"adjacency of shape \(2, 3\); give a square"),
        ("g.mtx", MATRIX % b"real" + b"2 2 1\n1 3 1\n", "cannot be read as MatrixMarket"),
        ("g.mtx", MATRIX % b"complex" + b"2 2 1\n1 2 1 1\n", "is a 'complex' matrix in 'coordinate' form; write a"),
        ("g.mtx", MATRIX.replace(b"coordinate", b"array") % b"real" + b"1 1\n5\n", "a 'real' matrix in 'array' form"),
        ("g.mtx", MATRIX.replace(b"coordinate", b"1" * 5000) % b"real", r"matrix in '1+…' form; write"),
        ("g.mtx", MATRIX % b"pattern" + b"9000000000000 9000000000000 1\n1 2\n", "of memory are free"),
        ("g.dot", b"graph {}", "unknown suffix '.dot'; give .graphml, .xml, .gml, .json, .npz, .mat, .mtx, .pt"),
    ],
)
def test_invalid_files(write, name, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_file(write(name, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.nodes["bob"].update(age="old"), "node 'bob': attribute 'age' is 'old'; give every node a number"),
        (lambda g: g.nodes["bob"].pop("age"), "node 'bob': attribute 'age' is 'None'"),
        (lambda g: g.nodes["eve"].update(age=float("nan")), "node 'eve': attribute 'age' is 'nan'; give finite"),
        (lambda g: g.nodes["eve"].update(height=1e300), "node 'eve': attribute 'height' is '1e.300'; give finite"),
        (lambda g: g.edges["ada", "bob"].update(weight=-1.0), "edge 'ada' - 'bob': weight is '-1.0'; give a finite"),
    ],
)
def test_invalid_attributes(village, tmp_path, change, message):
    change(village)
    nx.write_gml(village, tmp_path / "g.gml")
    with pytest.raises(InputError, match=message):
        read_file(tmp_path / "g.gml")


def test_size_limit(write, monkeypatch):
    monkeypatch.setattr("mtgcn.io.archives.MAX_BYTES", 10)
    with pytest.raises(InputError, match="write the graph as an edge list in Parquet"):
        read_file(write("g.gml", "graph [ node [ id 1 ] ]"))


TRIANGLE = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])


def sparse_parts(prefix, matrix):
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    return {prefix + name: part for name, part in parts.items()}


CSR = sp.csr_array(TRIANGLE)
FORMS = {
    "edge_index": {"edge_index": np.array(CSR.nonzero()), "edge_weight": CSR.data},
    "adjacency": {"adjacency": TRIANGLE},
    "adj": sparse_parts("adj_", CSR),
}


@pytest.mark.parametrize("form", [*FORMS, "csr", "csc"])
def test_npz_formats(tmp_path, form):
    path = tmp_path / "g.npz"
    if form in FORMS:
        np.savez(path, **FORMS[form])
    else:
        sp.save_npz(path, CSR.asformat(form))
    arrays = read_file(path)
    dense = sp.coo_array((arrays.weights, (arrays.sources, arrays.targets)), shape=(3, 3)).toarray()
    assert (dense.tolist(), arrays.node_ids.tolist()) == (TRIANGLE.tolist(), [0, 1, 2])


@pytest.mark.parametrize(
    "arrays",
    [
        {"edges": [[0, 1], [0, 2], [1, 2]], "node_features": np.eye(3), "node_labels": [0, 1, 1]},
        {"edges": [[0, 0, 1], [1, 2, 2]], "x": np.eye(3), "y": [0, 1, 1], "train_masks": np.array([object()])},
        {"adj_matrix": sp.csr_matrix(np.triu(1 - np.eye(3))), "node_attr": sp.csc_matrix(np.eye(3)), "y": [0, 1, 1]},
        {"edge_index": [[0, 0, 1], [1, 2, 2]], "features": np.eye(3), "label": [[1, 0], [0, 1], [0, 1]]},
    ],
)
def test_npz_names(tmp_path, arrays):
    np.savez(tmp_path / "g.npz", **arrays)
    found = read_file(tmp_path / "g.npz")
    assert (found.sources.tolist(), found.targets.tolist()) == ([0, 0, 1], [1, 2, 2])
    assert np.array_equal(sp.csr_array(found.features).toarray(), np.eye(3))
    assert (found.labels.tolist(), found.class_names) == ([0, 1, 1], ("0", "1"))


MATLAB = {
    "network": CSR.astype(np.float64),
    "group": sp.csc_array([[1.0, 0], [0, 1], [0, 0]]),
    "attrb": np.eye(3),
    "other": {"a": np.ones(2)},
}


@pytest.mark.parametrize(
    ("changes", "labels", "names"),
    [
        ({}, [0, 1, -1], ("0", "1")),
        ({"group": None, "gnd": np.array([[2], [1], [2]])}, [1, 0, 1], ("1", "2")),
        ({"group": None, "y": np.array([2, 1, 2])}, [1, 0, 1], ("1", "2")),  # a row, since MATLAB has no single axis
        ({"group": None, "labels": np.array(["cat", "dog", "cat"])}, [0, 1, 0], ("cat", "dog")),
        ({"group": None, "label": np.array(["cat", "hérisson", "cat"], dtype=object)}, [0, 1, 0], ("cat", "hérisson")),
        ({"group": None}, None, ()),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_mat(tmp_path, changes, labels, names, packed):
    variables = {name: part for name, part in (MATLAB | changes).items() if part is not None}
    scipy.io.savemat(tmp_path / "g.mat", variables, do_compression=packed)
    arrays = read_file(tmp_path / "g.mat")
    dense = sp.coo_array((arrays.weights, (arrays.sources, arrays.targets)), shape=(3, 3)).toarray()
    assert (dense.tolist(), arrays.node_ids.tolist()) == (TRIANGLE.tolist(), [0, 1, 2])
    assert (None if arrays.labels is None else arrays.labels.tolist(), arrays.class_names) == (labels, names)
    assert arrays.features.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"group": np.array([[1, 1], [0, 1], [1, 0]])}, r"group of shape \(3, 2\) has several classes for 1 nodes"),
        ({"network": None}, "holds no matrix of edges; name it adjacency, adj_matrix, adj, network, A or W"),
        ({"network": np.ones((2, 3))}, r"network of shape \(2, 3\); give a square matrix"),
        ({"network": np.array([{"a": 1}], dtype=object)}, "holds no matrix of edges"),
        ({"network": CSR * 1j}, "holds no matrix of edges"),
        ({"attrb": np.array(["a", "b", "c"])}, "features is of type <U1"),
        ({"attrb": np.eye(4)}, r"features of shape \(4, 4\) for 3 nodes"),
    ],
)
def test_invalid_mat(tmp_path, variables, message):
    given = {name: part for name, part in (MATLAB | variables).items() if part is not None}
    scipy.io.savemat(tmp_path / "g.mat", given)
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path / "g.mat")


def test_big_endian_mat(write):
    """As some machines wrote it: a variable A of 2 x 2 small integers."""
    flags, sizes = struct.pack(">4I", 6, 8, 6, 0), struct.pack(">2I2i", 5, 8, 2, 2)
    name = struct.pack(">2H4s", 1, 1, b"A")
    variable = flags + sizes + name + struct.pack(">2H4B", 4, 2, 0, 3, 3, 0)
    header = b"MATLAB 5.0".ljust(124) + b"\x01\0MI"
    arrays = read_file(write("g.mat", header + struct.pack(">2I", 14, len(variable)) + variable))
    assert (arrays.sources.tolist(), arrays.targets.tolist(), arrays.weights.tolist()) == ([0, 1], [1, 0], [3, 3])


def test_newer_mat(write):
    """Version 7.3 is HDF5."""
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\x02IM" + b"\x89HDF\r\n" * 100
    with pytest.raises(InputError, match=r"cannot be read as MATLAB .not of version 5 to 7.; save it again with -v7"):
        read_file(write("g.mat", header))


def test_mat_bomb(tmp_path, monkeypatch):
    scipy.io.savemat(tmp_path / "g.mat", {"A": np.zeros((2000, 2000))}, do_compression=True)
    monkeypatch.setattr(memory, "free_bytes", lambda: 10_000_000)
    with pytest.raises(InputError, match=r"g.mat, unpacked so far, takes about \d+ MiB and 10 MiB of memory are free"):
        read_file(tmp_path / "g.mat")


@pytest.mark.parametrize("field", [None, "pattern"])
@pytest.mark.parametrize("symmetry", ["symmetric", "general"])
def test_mtx(tmp_path, field, symmetry):
    path = tmp_path / "g.mtx"
    scipy.io.mmwrite(path, CSR.astype(float), comment="written by scipy", field=field, symmetry=symmetry)
    labels = tmp_path / "labels.txt"
    labels.write_text("1 x\n3 y\n")
    graph = read_graph(path, labels=labels)
    assert np.array_equal(graph.adjacency.toarray(), TRIANGLE if field is None else TRIANGLE > 0)
    assert (graph.node_ids.tolist(), graph.labels.tolist()) == ([1, 2, 3], [0, -1, 1])
    labels.write_text("0 x\n2 y\n")
    with pytest.warns(GraphNote, match=r"g.mtx: nodes are numbered from 0, as in .*labels.txt"):
        graph = read_graph(path, labels=labels)
    assert (graph.node_ids.tolist(), graph.labels.tolist()) == ([0, 1, 2], [0, -1, 1])
    labels.write_text("0 x\n3 y\n")
    with (
        pytest.warns(GraphNote, match="numbered from 0"),
        pytest.raises(InputError, match=r"node '3' is not in the graph .first id '0'."),
    ):
        read_graph(path, labels=labels)


def test_npz_node_arrays(tmp_path):
    path = tmp_path / "g.npz"
    features = sp.csr_array([[1.0, 0], [0, 2], [0, 0]])
    names = {"node_ids": ["a", "b", "c"], "class_names": ["cat", "dog", "owl"]}
    np.savez(path, edge_index=[[0], [1]], labels=[1, -1, 0], **names, **sparse_parts("attr_", features))
    arrays = read_file(path)
    assert np.array_equal(arrays.features.toarray(), features.toarray())
    assert (arrays.labels.tolist(), arrays.class_names) == ([1, -1, 0], ("cat", "dog", "owl"))
    assert arrays.node_ids.tolist() == ["a", "b", "c"]


class Loud:
    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


EDGE = {"edge_index": [[0], [1]]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"edge_index": np.array([[Loud()]], dtype=object)}, "cannot be read as .npz .*without objects"),
        ({"other": [1]}, "holds other; give edge_index, adjacency"),
        ({"edge_index": [[0.5], [1.0]]}, r"g.npz: edge_index of shape \(2, 1\) and type float64; give two rows"),
        ({"edge_index": [0, 1]}, r"edge_index of shape \(2,\)"),
        ({**EDGE, "edge_weight": [1.0, 2.0]}, r"weights of shape \(2,\) for 1 edges"),
        ({**EDGE, "x": [["a"], ["b"]]}, "features is of type <U1"),
        ({**EDGE, "y": [[0, 1], [1, 1]]}, r"y of shape \(2, 2\) has several classes for 1 nodes; give one label per"),
        ({**EDGE, "y": [0, 5], "class_names": ["a", "b"]}, "2 class_names and the labels 0, 5"),
        ({"adjacency": np.ones((2, 3))}, r"adjacency of shape \(2, 3\); give a square matrix"),
        ({"adjacency": np.array("x")}, "adjacency is of type <U1"),
        ({"edge_index": [[0, 1], [1, 0]], "x": np.ones((3, 2)), "y": [0, 1]}, r"labels of shape \(2,\) for 3 nodes"),
        ({"edge_index": [[0, 9], [1, 0]], "x": np.ones((3, 2))}, "g.npz: edge 1 refers to node 9, but the 3 nodes are"),
        ({"adj_data": [1.0]}, "lacks adj_indices, adj_indptr, adj_shape"),
        (sparse_parts("adj_", CSR) | {"adj_indices": [10**6] * 4}, "adj_arrays are not a sparse matrix"),
        (sparse_parts("", CSR) | {"format": b"coo"}, "of format 'coo'; save it as csr"),
    ],
)
def test_invalid_npz(tmp_path, arrays, message):
    path = tmp_path / "g.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message):
        read_graph(path)


def test_damaged_npz(tmp_path):
    path = tmp_path / "g.npz"
    np.savez_compressed(path, adjacency=np.random.default_rng(0).random((50, 50)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cannot be read as .npz"):
        read_file(path)
    lie = io.BytesIO()
    np.lib.format.write_array_header_1_0(lie, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("adjacency.npy", lie.getvalue())
    with pytest.raises(InputError, match=r"cannot be read as .npz"):
        read_file(path)
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match="holds one array and no names"):
        read_file(path)
    with pytest.raises(InputError, match="attributes are chosen in GraphML, GML and JSON"):
        read_file(path, label="y")


pyg = pytest.importorskip("torch_geometric.data")
Data, HeteroData = pyg.Data, pyg.HeteroData
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture
def data():
    return Data(
        x=torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]),
        edge_index=EDGES,
        edge_weight=torch.tensor([0.5, 0.5, 2.0, 2.0]),
        y=torch.tensor([1, 0, -1]),
        train_mask=torch.tensor([True, False, False]),
    )


@pytest.fixture
def save(tmp_path):
    def put(content, **options):
        path = tmp_path / "graph.pt"
        torch.save(content, path, **options)
        return path

    return put


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        lambda data: data.to_dict(),
        lambda data: OrderedDict(data.to_dict()),
        lambda data: (data, None),
        lambda data: (data.to_dict(), {"x": torch.tensor([0, 3])}, Data),  # as PyG keeps a processed dataset
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_pt(save, data, form, zipped):
    graph = read_graph(save(form(data), _use_new_zipfile_serialization=zipped))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]])
    np.testing.assert_array_equal(graph.features, [[1, 0], [0, 2], [3, 3]])
    assert (graph.labels.tolist(), graph.class_names) == ([1, 0, -1], ("0", "1"))


@pytest.mark.slow
def test_pt_without_pyg(save, data):
    program = "import sys; sys.modules['torch_geometric'] = None; import mtgcn; print(mtgcn.read_graph(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, str(save(data))], capture_output=True, text=True, check=True)
    assert done.stdout == "Graph('graph.pt', nodes=3, edges=2, features=2, classes=2)\n"


def test_expanded_tensor(save):
    """A few bytes of storage may have any shape."""
    wide = torch.zeros(1).expand(20_000_000, 50_000)
    with pytest.raises(InputError, match=r"graph.pt, as arrays, takes about 11175.* GiB .*; give a smaller graph"):
        read_graph(save({"edge_index": EDGES, "x": wide}))


def test_pt_num_nodes(save):
    assert read_graph(save(Data(edge_index=EDGES, num_nodes=5))).num_nodes == 5


class Trap:
    """Code in a pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("zipped", [True, False])
def test_pt_code_does_not_run(save, data, tmp_path, monkeypatch, zipped):
    sprung = tmp_path / "sprung"
    data.extra = Trap(sprung)
    with pytest.raises(InputError, match=rf"graph.pt names {os.mkdir.__module__}.mkdir") as refused:
        read_graph(save(data, _use_new_zipfile_serialization=zipped))
    assert not sprung.exists()
    message = str(refused.value)
    assert "\n" not in message
    monkeypatch.chdir(tmp_path)
    lines = message.partition("in Python: ")[2].partition(" and give")[0]
    exec(lines, {"torch": torch, "numpy": np})  # noqa: S102 (the remedy in the message works)
    np.testing.assert_array_equal(read_graph(tmp_path / "graph.npz").labels, [1, 0, -1])


def hetero():
    several = HeteroData()
    several["author"].x = torch.ones(2, 2)
    several["author", "knows", "author"].edge_index = torch.tensor([[0], [1]])
    return several


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.nn.Linear(2, 2), "names torch.nn.modules.linear.Linear"),
        (hetero(), "holds no edge_index of a single graph"),
        (torch.ones(3), "holds no edge_index of a single graph"),
        ((Data(edge_index=EDGES), {"edge_index": torch.tensor([0, 2, 4])}), "holds no edge_index of a single graph"),
        (Data(x=torch.ones(3, 2)), "holds no edge_index of a single graph"),
        (Data(edge_index=torch.ones(3, 4)), r"edge_index of shape \(3, 4\) and type float32"),
        (Data(edge_index=torch.ones(2, 4)), "type float32; give two rows of whole numbers"),
        (Data(edge_index=EDGES, x=torch.ones(2, 2)), "but the 2 nodes"),
        (Data(edge_index=EDGES, x=torch.ones(4, 2), y=torch.arange(3)), r"labels of shape \(3,\) for 4 nodes"),
        (Data(edge_index=-EDGES, num_nodes=3), "node -"),
    ],
)
def test_invalid_pt(save, content, message):
    with pytest.raises(InputError, match=message):
        read_graph(save(content))


@pytest.mark.parametrize("keep", [20, 700])
def test_truncated_pt(save, data, keep):
    path = save(data)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"graph\.pt is not a complete file of torch\.save .* write it again"):
        read_graph(path)
