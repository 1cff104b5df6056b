"""GraphML, GML, .npz and .pt."""

import io
import os
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn import read_graph
from mtgcn.errors import InputError
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


def test_long_attribute_takes_linear_time(write):
    """In pieces of 64 KiB it took 100 s."""
    text = '<graphml><graph edgedefault="undirected"><node id="b"/><node id="{}"/></graph></graphml>'
    started = time.perf_counter()
    with pytest.raises(InputError, match="has 8000000 characters; give names of at most 1000"):
        read_file(write("g.graphml", text.format("a" * 8_000_000)))
    assert time.perf_counter() - started < 20


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;">]>
<graphml><graph edgedefault="undirected"><node id="&c;"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.graphml", BOMB.encode(), "g.graphml line 2: a DOCTYPE can declare entities"),
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
        ("g.dot", b"graph {}", "unknown suffix '.dot'; give .graphml, .xml, .gml, .npz, .pt, .pth, or a table"),
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
    monkeypatch.setattr("mtgcn.io.graph_files.MAX_BYTES", 10)
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
        ({**EDGE, "y": [[0, 1], [1, 0]]}, "one label per node"),
        ({**EDGE, "y": [0, 5], "class_names": ["a", "b"]}, "2 class_names and the labels 0, 5"),
        ({"adjacency": np.ones((2, 3))}, r"adjacency of shape \(2, 3\); give a square matrix"),
        ({"adjacency": np.array("x")}, "adjacency is of type <U1"),
        ({"edge_index": [[0, 1], [1, 0]], "x": np.ones((3, 2)), "y": [0, 1]}, r"labels of shape \(2,\) for 3 nodes"),
        ({"edge_index": [[0, 9], [1, 0]], "x": np.ones((3, 2))}, "g.npz: edge 1 ends in node 9 and there are 3"),
        ({"adj_data": [1.0]}, "lacks adj_indices, adj_indptr, adj_shape"),
        (
            {"adj_data": [1.0], "adj_indices": [10**6], "adj_indptr": [0, 1, 1], "adj_shape": [2, 2]},
            "adj_arrays are not a sparse matrix",
        ),
        (
            {"format": b"coo", "data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 1]},
            "in the form 'coo'; save it as csr",
        ),
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
    with pytest.raises(InputError, match="attributes are chosen in GraphML and GML"):
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
    program = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from mtgcn import read_graph; print(read_graph(sys.argv[1]))"
    )
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
        (Data(edge_index=EDGES, x=torch.ones(2, 2)), "there are 2"),
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
