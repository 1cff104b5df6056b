"""`read_graph`: edge lists, node tables and label tables as text and in Parquet, and invalid ones."""

import gzip
import logging
import warnings
from datetime import datetime

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.io import csv_table, table
from mtgcn.io.column_table import table_of_array
from mtgcn.io.frames import table_of_frame
from mtgcn.io.options import ROLES, TableOptions
from mtgcn.io.preprocessing import fit_columns
from mtgcn.io.read import read_tables


def read(edges=None, nodes=None, labels=None, **options):
    columns = {role: options.pop(role) for role in ROLES if role in options}
    return read_tables(TableOptions(edges, nodes, labels, columns=columns, **options))


def pairs(arrays):
    """Edges by the ids of their ends."""
    ids = arrays.node_ids.tolist()
    return [(ids[one], ids[other]) for one, other in zip(arrays.sources, arrays.targets, strict=True)]


EDGES = [("a", "b"), ("b", "c"), ("c", "c")]


@pytest.mark.parametrize(
    "text",
    [
        "source,target\na,b\nb,c\nc,c\n",
        "a,b\nb,c\nc,c\n",
        "FROM\tTo\na\tb\nb\tc\nc\tc\n",
        "note,dst,src\nx,b,a\ny,c,b\nz,c,c\n",
        "source,target,kind\na,b,x\nb,c,y\nc,c,z\n",
        "# a comment\n#\n\n  a   b \nb  c\n\nc c\n",
        "# Undirected graph: soc.txt\n# Nodes: 3 Edges: 3\n# FromNodeId\tToNodeId\na\tb\nb\tc\nc\tc\n",
        "% sym unweighted\n%\n% 3 3 3\na\tb\nb\tc\nc\tc\n",
        "#Nodes: 3 Edges: 3\n#made by hand\na\tb\nb\tc\nc\tc\n",
        "%%MatrixMarket matrix coordinate pattern general\n% comment\n9 9 3\na b\nb c\nc c\n",
    ],
)
def test_edge_lists(write, text):
    arrays = read(write("edges.csv", text))
    assert pairs(arrays) == EDGES
    assert arrays.node_ids.tolist() == ["a", "b", "c"]
    assert arrays.weights is None


DELIMITERS = {"spaces": " ", "tabs": "\t", "commas": ",", "semicolons": ";", "bars": "|"}


@pytest.mark.parametrize("suffix", [".edgelist", ".txt", ".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("header", ["with", "no"])
@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_downloaded_tables(write, caplog, suffix, header, delimiter):
    """Any delimiter and suffix; one line says what was recognised."""

    def table(name, *rows):
        text = "".join(DELIMITERS[delimiter].join(row) + "\n" for row in rows[header == "no" :])
        return write(name, gzip.compress(text.encode()) if suffix.endswith("gz") else text)

    edges = table(f"edges{suffix}", ("source", "target"), ("12", "7"), ("7", "3"), ("3", "12"))
    labels = table(f"labels{suffix}", ("node", "label"), ("12", "0"), ("3", "1"))
    with caplog.at_level(logging.INFO, "mtgcn"):
        arrays = read(edges, labels=labels)
    assert (pairs(arrays), arrays.labels.tolist()) == ([(12, 7), (7, 3), (3, 12)], [1, -1, 0])
    assert caplog.messages == [
        f"edges{suffix}: edge list, separated by {delimiter}, {header} header; 3 edges",
        f"labels{suffix}: label table, separated by {delimiter}, {header} header; 2 labels",
    ]


def test_recognised_lines_have_thousands(write, write_parquet, caplog):
    with caplog.at_level(logging.INFO, "mtgcn"):
        read(write("e.csv", "1,2\n" * 13_599), write_parquet("n.parquet", id=[1, 2]), write("l.csv", "1,a\n2,b\n"))
    assert caplog.messages[:2] == [
        "n.parquet: node table, Parquet; 2 nodes",
        "e.csv: edge list, separated by commas, no header; 13 599 edges",
    ]


def test_ids_with_number_signs(write):
    assert pairs(read(write("tags.txt", "#rust #python\n#go #rust\n"))) == [("#rust", "#python"), ("#go", "#rust")]
    assert pairs(read(write("tags.txt", "#5 x\ny #5\n"))) == [("#5", "x"), ("y", "#5")]


@pytest.mark.parametrize("delimiter", [" ", ",", "\t"])
def test_edge_lists_of_networkx(tmp_path, delimiter):
    graph = nx.Graph([("a", "b"), ("b", "c")])
    nx.write_edgelist(graph, tmp_path / "g.edgelist", delimiter=delimiter)
    arrays = read(tmp_path / "g.edgelist")
    assert (pairs(arrays), arrays.weights) == ([("a", "b"), ("b", "c")], None)
    nx.set_edge_attributes(graph, {("a", "b"): {"kind": "x, y", "weight": 0.5}, ("b", "c"): {"weight": 2}})
    nx.write_edgelist(graph, tmp_path / "g.edgelist", delimiter=delimiter)
    assert read(tmp_path / "g.edgelist").weights.tolist() == [0.5, 2]
    nx.write_weighted_edgelist(graph, tmp_path / "g.edgelist", delimiter=delimiter)
    assert read(tmp_path / "g.edgelist").weights.tolist() == [0.5, 2]


def test_matrix_market_as_edges(write, tmp_path):
    """Beside a node table; ids are those in the file, from 1."""
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(([2.5], ([0], [2])), shape=(3, 3)))
    arrays = read(tmp_path / "g.mtx", write("nodes.csv", "id,f\n1,0.5\n2,1\n3,4\n"))
    assert (pairs(arrays), arrays.weights.tolist()) == ([(1, 3)], [2.5])
    scipy.io.mmwrite(tmp_path / "g.mtx", np.ones((3, 3)))
    with pytest.raises(InputError, match="holds a dense matrix, not a list of edges; give it as --graph"):
        read(tmp_path / "g.mtx")


@pytest.mark.parametrize("role", ["edges", "nodes", "labels"])
def test_graph_file_as_table(write, role):
    with pytest.raises(InputError, match=r"g.npz is a whole graph, by its suffix; give it as --graph"):
        read(**{"edges": write("edges.csv", "a,b\n")} | {role: write("g.npz", "x")})


USERS = "id,days,mature,note,new_id\n77,2,True,,2\n12,1,True,,0\n30,1,False,,1\n"  # a column is empty


def test_ids_in_another_column(write):
    edges, users = write("edges.csv", "from,to\n0,2\n2,1\n"), write("users.csv", USERS)
    with pytest.raises(
        InputError,
        match=r"line 2: node '0' is not in .*; column 'new_id' of users.csv has the ids: give --column id=new_id$",
    ):
        read(edges, users)
    assert pairs(read(edges, users, id="new_id")) == [(0, 2), (2, 1)]
    nodes = write("nodes.json", '{"0": [1], "1": [0], "2": [1, 0]}')
    for files in ({"edges": edges}, {"edges": edges, "nodes": nodes}):
        with pytest.raises(InputError, match=r"node '77' is not in .*; column 'new_id' of users.csv has the ids"):
            read(**files, labels=users, label="mature")
        assert read(**files, labels=users, label="mature", id="new_id").labels.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="add it there, or use --unknown-nodes drop"):
        read(write("edges.csv", "from,to\n0,5\n"), users)


def test_positions_of_columns(write):
    labels = write("labels.txt", "x 1 cat\ny 2 dog\n")
    with pytest.raises(InputError, match="or give their positions: --column 'id=column 1' --column 'label=column 2'"):
        read(write("edges.csv", "1,2\n"), labels=labels)
    arrays = read(write("edges.csv", "1,2\n"), labels=labels, id="column 2", label="column 3")
    assert arrays.class_names == ("cat", "dog")


@pytest.mark.parametrize("text", ["u,v,weight\n1,2,0.5\n7,1,2\n", "1,2,0.5\n7,1,2\n", "weight,u,v\n0.5,1,2\n2,7,1\n"])
def test_weights_and_integer_ids(write, text):
    arrays = read(write("edges.csv", text))
    assert pairs(arrays) == [(1, 2), (7, 1)]
    assert arrays.weights.tolist() == [0.5, 2]
    assert arrays.node_ids.dtype == np.int64


@pytest.mark.parametrize("ids", [["007", "7"], ["1.0", "2"], ["1e3", "5"], ["-0", "1"], ["9" * 30, "1"]])
def test_text_ids(write, ids):
    assert set(read(write("edges.csv", f"{ids[0]},{ids[1]}\n")).node_ids.tolist()) == set(ids)
    hexadecimal = write("edges.csv", "ab12,cd34\n1234,5678\n99ff,1234\n1234,0ab0\n")
    assert len(pairs(read(hexadecimal))) == 4


def test_given_columns(write):
    path = write("edges.csv", "p,q,strength,source,target\na,b,3,x,y\nc,a,4,x,y\n")
    arrays = read(path, source="p", target=1, weight="strength")
    assert pairs(arrays) == [("a", "b"), ("c", "a")]
    assert arrays.weights.tolist() == [3, 4]
    assert read(write("e.csv", "1,2,x\n"), weight=False).weights is None
    assert pairs(read(write("e.csv", "person,friend\na,b\n"), header=True)) == [("a", "b")]
    assert pairs(read(write("e.csv", "source,target\na,b\n"), header=False)) == [("source", "target"), ("a", "b")]
    assert pairs(read(write("e.csv", "a:b\nb:c\n"), delimiter=":")) == [("a", "b"), ("b", "c")]


def test_node_table(write):
    nodes = write("nodes.csv", "id,f1,label,f2\nz,1,cat,2\na,3,,4\nb,5,dog,6\nalone,7,,8\n")
    arrays = read(write("edges.csv", "source,target\na,z\nb,a\n"), nodes)
    assert arrays.node_ids.tolist() == ["z", "a", "b", "alone"]
    assert np.allclose(arrays.features, np.array([[-3, -3], [-1, -1], [1, 1], [3, 3]]) / np.sqrt(5))  # standardised
    assert arrays.features.dtype == np.float32
    assert arrays.feature_names == ("f1", "f2")
    assert arrays.labels.tolist() == [0, -1, 1, -1]
    assert arrays.class_names == ("cat", "dog")
    assert pairs(arrays) == [("a", "z"), ("b", "a")]


def test_node_table_without_header(write):
    """The published cora.content looks like this."""
    nodes = write("nodes.content", "31336\t0\t1\tNeural\n1061127\t1\t0\tRules\n13195\t0\t0\tNeural\n")
    arrays = read(write("edges.cites", "31336\t1061127\n13195\t31336\n"), nodes)
    assert arrays.features.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert (arrays.labels.tolist(), arrays.class_names) == ([0, 1, 0], ("Neural", "Rules"))
    unlabelled = read(write("edges.cites", "31336\t1061127\n"), nodes, features=[2], label=False)
    assert unlabelled.features.tolist() == [[1], [0], [0]]
    assert unlabelled.labels is None


def test_ids_only(write):
    arrays = read(write("edges.csv", "a,b\n"), write("nodes.csv", "id\na\nb\nc\n"))
    assert (arrays.features, len(arrays.node_ids)) == (None, 3)


@pytest.mark.parametrize(
    "text",
    ["id,label\nb,x\na,y\nc,\nb,x\n", "label,id\nx,b\ny,a\n,c\n", "b,x\na,y\n", "id,at,class\nb,1,x\na,2,y\n"],
)
def test_label_table(write, text):
    arrays = read(write("edges.csv", "a,b\nb,c\n"), labels=write("labels.csv", text))
    assert (arrays.node_ids.tolist(), arrays.labels.tolist()) == (["a", "b", "c"], [1, 0, -1])
    assert arrays.class_names == ("x", "y")


def test_node_table_only(write):
    nodes = write("nodes.csv", "id,f,label\na,1,x\nb,2,y\n")
    graph = read_graph(None, nodes=nodes)
    assert (graph.num_nodes, graph.num_edges, graph.features.tolist()) == (2, 0, [[-1], [1]])
    assert read_graph(None, nodes=nodes, scale=False).features.tolist() == [[1], [2]]


@pytest.mark.parametrize("kind", ["string", "large_string", "int64", "int32", "uint64", "dictionary", "float64"])
def test_parquet_ids(write_parquet, monkeypatch, kind):
    monkeypatch.setattr(table, "CELLS_AT_ONCE", 4)  # several batches
    numbers = [[10, 2, 2, 3, 10], [2, 3, 10, 3, 10]]
    if kind in ("string", "large_string", "dictionary"):
        columns = [pa.array([str(number) for number in column]) for column in numbers]
        columns = [column.dictionary_encode() if kind == "dictionary" else column.cast(kind) for column in columns]
        ids = ["10", "2", "3"]
    else:
        columns, ids = [pa.array(column).cast(kind) for column in numbers], [2, 3, 10]
    arrays = read(write_parquet("edges.parquet", source=columns[0], target=columns[1]))
    assert arrays.node_ids.tolist() == ids
    expected = [(type(ids[0])(one), type(ids[0])(other)) for one, other in zip(*numbers, strict=True)]
    assert pairs(arrays) == expected


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)] * 2), min_size=1))
def test_any_parquet_ids(write_parquet, edges):
    sources, targets = zip(*edges, strict=True)
    path = write_parquet("edges.parquet", source=pa.array(sources), target=pa.array(targets))
    if any("\0" in node for node in (*sources, *targets)):
        with pytest.raises(InputError, match="a NUL"):
            read(path)
        return
    assert pairs(read(path)) == edges


def test_parquet_nodes(write, write_parquet):
    nodes = write_parquet(
        "nodes.parquet",
        id=[5, 9, 7],
        f1=pa.array([1, 2, 3], pa.int8()),
        f2=[True, False, True],
        f3=[" 1.5", "2", "-3"],
        label=pa.array([1.0, None, 0.0]),  # what pandas makes of whole numbers with a gap
        __index_level_0__=[0, 1, 2],
    )
    arrays = read(write("edges.csv", "5,9\n9,7\n"), nodes, scale=False)
    assert arrays.node_ids.tolist() == [5, 9, 7]
    assert arrays.feature_names == ("f1", "f2", "f3")
    assert arrays.features.tolist() == [[1, 1, 1.5], [2, 0, 2], [3, 1, -3]]
    assert (arrays.labels.tolist(), arrays.class_names) == ([1, -1, 0], ("0", "1"))
    assert pairs(arrays) == [(5, 9), (9, 7)]


GOOD = {
    "edges": "source,target,weight\na,b,1\nb,c,2\n",
    "nodes": "id,f1,f2,label\na,1,2,x\nb,3,4,y\nc,5,6,\n",
    "labels": "id,label\na,x\nb,y\n",
}
DAYS = "id,f1\na,2023-02-29\n" + "".join(f"{chr(87 + day)},2024-01-{day}\n" for day in range(11, 30))  # nodes b to t


def assert_fault(write, contents, message, **choices):
    paths = {role: write(f"{role}.csv", content) for role, content in contents.items() if content is not None}
    with pytest.raises(InputError, match=message) as caught:
        read(**paths, **choices)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        ("edges", "source,target\na,b\nb,q\n", "edges.csv line 3: node 'q' is not in .*nodes.csv; add it there"),
        ("edges", "x,y\nq,r\n", r"line 1: node 'x' is not in .* \(2 in all: line 1 'x', line 2 'q'\)"),
        ("edges", "x,a\na,b\n", "line 1: node 'x' is not in .*or --header yes if this line names the columns"),
        ("edges", "source,target\na,b\nb,q\nr,s\n", r"nodes.csv \(2 in all: line 3 'q', line 4 'r'\); add it there"),
        ("edges", "source,target,weight\na,b,1\nb,c,-2\n", "line 3, column 'weight' is -2; weights must be >= 0"),
        ("edges", "source,target,weight\na,b,-1\nb,c,-2\n", r"'weight' is -1 \(2 in all: line 2 -1, line 3 -2\)"),
        ("edges", "source,target,weight\na,b,x\nb,c,y\n", r"'weight' is 'x', not a finite .* \(2 in all: line 2 'x'"),
        ("edges", "source,target\na,b\n,c\n", "line 3, column 'source' is empty; every row needs an id"),
        ("edges", "source,target\n", "edges.csv holds a header and no edge"),
        ("edges", "source\na\n", "has one column"),
        ("edges", "source,target\na\nb,c,d\nc\n", r"has 1 column where line 1 has 2 .* \(3 in all: line 2 has 1"),
        ("edges", "# a comment\n#\n\na b 1\n\nb c\n", "line 6 has 2 columns where line 4 has 3"),
        ("edges", "", "edges.csv is empty"),
        ("nodes", "", "nodes.csv is empty"),
        ("nodes", "id,f1\na,1\nb,red\nc,2\n", r"'f1': 1 of 3 values are not numbers \(line 3 'red'\); correct them"),
        ("nodes", "id,f1\na,1\nb,1e99\nc,2\n", r"column 'f1': 1 of 3 values are not numbers \(line 3 '1e99'\)"),
        ("nodes", DAYS, r"1 of 20 values are not dates \(line 2 '2023-02-29'\); .*, or use --column date=f1"),
        ("nodes", "id,f1\na,1\nb,2\nc,2\na,3\n", "line 5, column 'id': node 'a' is on line 2 already"),
        ("nodes", "id,f1\na,1\nb,2\na,2\nb,3\n", r"on line 2 already \(2 in all: line 4 'a', line 5 'b'\)"),
        ("nodes", "id,f1\n,1\nb,2\n,2\n", r"line 2, column 'id' is empty \(2 in all: line 2, line 4\)"),
        ("nodes", "id,f1\n", "nodes.csv holds a header and no row"),
        ("nodes", "id,f1\n" + "a" * 1001 + ",1\n", "line 2, column 'id': the id 'aaa.* has 1001 characters"),
        ("labels", "id,label\na,x\nq,y\n", "line 3: node 'q' is not in .*nodes.csv; .* or use --unknown-nodes drop"),
        ("labels", "id,label\na,x\nb,y\nc,x\nc,y\n", "two labels for node 'c': .*line 4 has 'x', .*line 5 has 'y'"),
        ("labels", "id,label\na,y\nb,y\n", "two labels for node 'a': .*nodes.csv line 2 has 'x', .*labels.csv line 2"),
        ("labels", "id,label\n", "labels.csv holds a header and no label"),
        ("labels", "p,q,r\na,b,c\n", "has 3 columns, but none is named label"),
        ("labels", "id,label\na,x\n,y\n", "labels.csv line 3, column 'id' is empty"),
        ("labels", b"\xff\xfea", "is not complete UTF-16 text"),
        ("labels", "id,label\nq,x\nr,x\ns,y\nt,y\n", r"\(4 in all: line 2 'q', line 3 'r', line 4 's', …\)"),
        ("edges", "id,user_a,user_b\n1,a,b\n2,b,c\n", "has the columns id, user_a, user_b, but none is named source"),
        ("edges", "source,b,c\na,b,1\n", "none is named source or target; give --column source=NAME --column target"),
        ("labels", "person,when,label\na,1,x\nb,2,y\n", "none is named id; give --column id=NAME"),
        ("nodes", "id,f1,class\na,1,x\nb,3,y\nc,5,x\n", "column 'class' may hold labels or, with a label"),
    ],
)
def test_faults(write, role, text, message):
    assert_fault(write, GOOD | {role: text}, message)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("id,label\na,x\na,y\nb,y\nb,x\n", r"two labels .* \(2 in all: node 'a': 'x' and 'y', node 'b'"),
        ("id,label\na,x\nc,x\n", "labels.csv has one class only, 'x'"),
        ("id,label\na,\nc,\n", "labels.csv: every label is empty; label some nodes"),
    ],
)
def test_label_faults(write, labels, message):
    assert_fault(write, {"edges": GOOD["edges"], "labels": labels}, message)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"source": "sorce"}, "edges.csv: unknown column 'sorce'; did you mean 'source'"),
        ({"source": 7}, "edges.csv has no column 7; it has 3, counted from 0"),
        ({"source": 1}, "need a column each"),
        ({"kinds": {"f1": "nmber"}}, "unknown kind of column 'nmber'; did you mean 'number'"),
        ({"kinds": {"f9": "number"}}, "unknown column 'f9'"),
        ({"kinds": {"f1": "date"}}, "column 'f1' holds numbers, not dates"),
        ({"exclude": ["f9"]}, "unknown column 'f9'"),
        ({"features": ["f9"]}, "unknown column 'f9'"),
        ({"features": ["f1", "f1"]}, "every feature need a column each"),
        ({"label": "labl"}, "unknown column 'labl'"),
        ({"unknown_nodes": "keep"}, "unknown choice of --unknown-nodes 'keep'"),
    ],
)
def test_invalid_options(write, choices, message):
    assert_fault(write, GOOD, message, **choices)


def test_missing_tables(write):
    assert_fault(write, {"edges": "a,b\n"}, "has no header to find column 'p' in", source="p")
    assert_fault(write, {"edges": "a,b\n"}, "column 'kind' requires a node or label table", label="kind")
    assert_fault(write, {"labels": GOOD["labels"]}, "neither an edge list nor a node table")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a", "b"], "f": [1.0, np.inf]}, "nodes.parquet row 2, column 'f' is 'inf', not a finite"),
        ({"id": ["a", "b"], "f": [1e99, np.inf]}, r"'f' is '1e\+99', not .* \(2 in all: row 1 '1e\+99', row 2 'inf'\)"),
        ({"id": ["a", "b"], "f": [1.0, 1e300]}, "row 2, column 'f' is '1e.300', not a finite number of single"),
        ({"id": ["a", "b", "c"], "f": ["1", "red", "3"]}, r"1 of 3 values are not numbers \(row 2 'red'\)"),
        ({"id": ["a", "b"], "f": [[1], [2]]}, "column 'f' is of type list.*numbers, one column for each feature"),
        ({"id": ["a", None], "f": [1, 2]}, "row 2, column 'id' is empty"),
        ({"id": [[1], [2]], "f": [1, 2]}, "column 'id' is of type list.*; give text or numbers"),
        ({"id": ["a", "b\0"], "f": [1, 2]}, "row 2, column 'id': the id .*a NUL among them"),
        ({"id": ["a", "a"], "f": [1, 2]}, "row 2, column 'id': node 'a' is on row 1 already"),
        ({"id": pa.array([], pa.string())}, "holds 0 rows"),
    ],
)
def test_parquet_faults(write, write_parquet, columns, message):
    with pytest.raises(InputError, match=message):
        read(write("edges.csv", "a,b\n"), write_parquet("nodes.parquet", **columns))


def test_truncated_parquet(write_parquet):
    path = write_parquet("edges.parquet", source=list(range(1000)), target=list(range(1000)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"edges.parquet cannot be read as Parquet .*write it again"):
        read(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/tmp", "is a folder; name the file in it"),
        ("nowhere.csv", r"nowhere.csv does not exist; check the path"),
        ("a\0b.csv", r"cannot be read|does not exist"),
        ("/dev/null", "/dev/null is not a regular file"),
        (7, "must be a path, not int"),
    ],
)
def test_invalid_paths(path, message):
    with pytest.raises(InputError, match=message):
        read(path)


def test_unknown_nodes(write):
    paths = {
        "edges": write("edges.csv", "source,target\na,b\nb,q\nq,r\n"),
        "nodes": write("nodes.csv", "id,f1,city\na,1.5,Ulm\nb,3,Hof\nc,5,Ulm\n"),
        "labels": write("labels.csv", "id,label\na,x\nb,y\nz,x\n"),
    }
    with pytest.warns(GraphNote) as notes:
        dropped = read(**paths, unknown_nodes="drop")
    assert [str(note.message).partition(": ")[2] for note in notes] == [
        f"edges of 2 ids that are not in {paths['nodes']} are left out",
        f"labels of 1 ids that are not in {paths['nodes']} are left out",
    ]
    assert (dropped.node_ids.tolist(), pairs(dropped)) == (["a", "b", "c"], [("a", "b")])
    with pytest.warns(GraphNote, match="are added as nodes without features"):
        added = read(**paths, unknown_nodes="add")
    assert added.node_ids.tolist() == ["a", "b", "c", "q", "r", "z"]
    assert pairs(added) == [("a", "b"), ("b", "q"), ("q", "r")]
    assert added.labels.tolist() == [0, 1, -1, -1, -1, 0]
    missing = [name.endswith("missing") for name in added.feature_names]
    assert (added.features[:, missing] == np.array([0, 0, 0, 1, 1, 1])[:, None]).all()


def test_added_nodes_have_zero_words(write):
    words = "".join(f"{row}," + ",".join("1" if row == word else "0" for word in range(40)) + "\n" for row in range(9))
    with pytest.warns(GraphNote, match="added as nodes"):
        arrays = read(write("edges.csv", "0,1\n1,77\n"), write("nodes.csv", words), unknown_nodes="add")
    assert np.array_equal(arrays.features.toarray(), np.eye(10, 40)[:10] * (np.arange(10) < 9)[:, None])


@pytest.mark.parametrize("header", ["name,friend", "Kunde,kennt"])
def test_header_found_by_node_ids(write, header):
    nodes = write("nodes.csv", "id,f\nanna,1\nbert,2\ncleo,3\n")
    edges, labels = write("edges.csv", f"{header}\nanna,bert\n"), write("labels.csv", "name,team\nanna,x\nbert,y\n")
    with pytest.warns(GraphNote, match="is read as the header; use --header no if it is data"):
        arrays = read(edges, nodes, labels)
    assert (pairs(arrays), arrays.class_names) == ([("anna", "bert")], ("x", "y"))
    with pytest.raises(InputError, match="--header yes if this line names the columns"):
        read(edges, nodes, labels, header=False)


def test_header_above_ids(write):
    rows = "".join(f"K{number},{number % 2 or 'Ulm'}\n" for number in range(6))
    with pytest.warns(GraphNote, match=r"the first line \('Kunde', 'Stadt'\) is read as the header"):
        found = read(None, write("nodes.csv", "Kunde,Stadt\n" + rows), id=0)
    assert found.node_ids.tolist() == [f"K{n}" for n in range(6)]


def test_decimal_commas(write):
    nodes = write("nodes.csv", "id;income;points\na;1234,50;1.5\nb;-3,5;20\nc;7,25;300\n")
    edges = write("edges.csv", "source;target;weight\na;b;0,5\nb;c;2\n")
    arrays = read(edges, nodes, scale=False)
    assert arrays.features.tolist() == [[1234.5, 1.5], [-3.5, 20], [7.25, 300]]
    assert arrays.weights.tolist() == [0.5, 2]
    with pytest.raises(InputError, match="line 3, column 'weight' is 'x', not a finite"):
        read(write("edges.csv", "source;target;weight\na;b;0,5\nb;c;x\n" + "a;b;0,5\n" * 60), nodes)
    arrays = read(None, write("nodes.csv", "a;1,5;2,5;3,5\nb;2,5;3,5;4,5\n"), scale=False)  # more commas
    assert arrays.features.tolist() == [[1.5, 2.5, 3.5], [2.5, 3.5, 4.5]]


def test_late_text(write, monkeypatch):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", 64)
    rows = "".join(f"n{row},{row % 3},{'x' if row == 59 else row % 2}\n" for row in range(60))
    arrays = read(None, write("nodes.csv", "id,f,code\n" + rows), kinds={"code": "category"})
    assert {"code=0", "code=1"} < set(arrays.feature_names)
    with pytest.raises(InputError, match=r"column 'code': 1 of 60 values are not numbers \(line 61 'x'\)"):
        read(None, write("nodes.csv", "id,f,code\n" + rows))


def test_given_preprocessing(write, write_parquet):
    nodes = write("nodes.csv", "id,f,when,city\na,1,2024-01-01,Ulm\nb,2.5,2024-01-02,Hof\nc,3,,Ulm\nd,9,,Hof\n")
    first = read(None, nodes)
    columns = {"city": ["Hof", "Bonn"], "f": ["3", None], "more": [1, 2], "when": ["2024-01-03", ""]}
    new = write_parquet("new.parquet", id=["x", "y"], **columns)
    with pytest.warns(GraphNote, match="1 of 2 values of 'city' are unknown to the fit"):
        again = read(None, new, preprocessing=first.preprocessing)
    assert again.feature_names == first.feature_names
    assert again.features[0, first.feature_names.index("f")] == first.features[2, first.feature_names.index("f")]
    assert again.features[:, first.feature_names.index("city=Hof")].tolist() == [1, 0]
    assert again.features[:, first.feature_names.index("when missing")].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"fitted with the columns 'when', 'city', which .*nodes.csv lacks"):
        read(None, write("nodes.csv", "id,f\na,1\n"), preprocessing=first.preprocessing)


def test_booleans_of_both_formats(write, write_parquet):
    typed = write_parquet("a.parquet", id=["a", "b", "c"], f=[1.5, 2, 4], vip=[True, False, True])
    written = write("b.csv", "id,f,vip\na,1.5,True\nb,2,False\nc,4,True\n")
    numbers = write("c.csv", "id,f,vip\na,1.5,1\nb,2,0\nc,4,1\n")
    for first in (typed, written, numbers):
        learned = read(None, first)
        assert learned.preprocessing.lines()[1] == "vip: yes or no"
        for other in (typed, written, numbers):
            again = read(None, other, preprocessing=learned.preprocessing)
            assert np.array_equal(again.features, learned.features)


def test_last_column_beside_label_table(write):
    nodes = write("nodes.csv", "a,1,Ulm\nb,2,Hof\nc,3,Ulm\nd,5,Hof\n")
    assert read(None, nodes).class_names == ("Hof", "Ulm")
    arrays = read(None, nodes, write("labels.csv", "a,x\nb,y\n"))
    assert arrays.class_names == ("x", "y")
    assert arrays.feature_names == ("column 2", "column 3=Hof", "column 3=Ulm")


def test_read_graph(write):
    edges = write("edges.csv", "source,target,weight\na,b,2\nb,a,3\nb,c,1\nb,c,1\nc,c,4\n")
    nodes = write("nodes.csv", "id,f1,f2\nc,1,2\nb,3,4\na,5,6\nalone,7,8\n")
    with pytest.warns(GraphNote, match=r"edges.csv: 2 of 2 edges go one way, or weigh more one way") as notes:
        graph = read_graph(edges, nodes=nodes, labels=write("labels.csv", "id,label\na,dog\nc,cat\nb,\n"), name="zoo")
    assert [one.filename for one in notes] == [__file__]
    assert graph.node_ids.tolist() == ["c", "b", "a", "alone"]
    assert graph.adjacency.toarray().tolist() == [[4, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert (graph.labels.tolist(), graph.class_names) == ([0, -1, 1, -1], ("cat", "dog"))
    assert (graph.feature_names, graph.without_labels.feature_names) == (("f1", "f2"), ("f1", "f2"))
    assert graph.name == "zoo"


@pytest.mark.parametrize("text", ["a,b\nb,c\n", "a,b\nb,a\nb,c\nc,b\n", "a,b\na,b\nb,c\n"])
def test_undirected_lists(write, text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(write("edges.csv", text)).num_edges == 2


def test_directed_list(write):
    with pytest.warns(GraphNote, match="1 of 2 edges go one way"):
        read_graph(write("edges.csv", "a,b\nb,a\nb,c\n"))


@pytest.mark.parametrize(("labels", "counts"), [("id,label\na,x", {"x": 1}), ("id,label\n", {}), ("id,label\na,", {})])
def test_few_labels(write, labels, counts):
    edges, table = write("edges.csv", "source,target\na,b\nb,c\n"), write("labels.csv", labels)
    graph = read_graph(edges, labels=table, few_labels=True)
    assert dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)) == counts
    with pytest.raises(InputError, match="label"):
        read_graph(edges, labels=table)


MOMENTS = [f"2024-03-01T12:{row // 60:02d}:{row % 60:02d}" for row in range(100)]
SECONDS = [1_700_000_000 + 2 * row for row in range(100)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_close_moments(write, write_parquet, unit):
    """The same table gives the same features from CSV and from Parquet, also if moments differ by seconds only."""
    cells = enumerate(zip(MOMENTS, SECONDS, strict=True))
    rows = "".join(f"n{row},{moment},{seconds}\n" for row, (moment, seconds) in cells)
    csv = read_graph(None, nodes=write("nodes.csv", "id,at,seconds\n" + rows))
    moments = pa.array([datetime.fromisoformat(moment) for moment in MOMENTS], pa.timestamp(unit))
    ids = [f"n{row}" for row in range(100)]
    parquet = read_graph(None, nodes=write_parquet("nodes.parquet", id=ids, at=moments, seconds=SECONDS))
    frame = table_of_frame(pa.table({"at": moments, "seconds": SECONDS}).to_pandas())
    expected = (np.arange(100) - 49.5) / np.arange(100).std()
    for features in (csv.features, parquet.features, fit_columns(frame).matrix(frame)):
        np.testing.assert_allclose(features, np.stack([expected, expected], axis=1), atol=1e-6)
        np.testing.assert_array_equal(features, csv.features)


@pytest.mark.parametrize("start", [1.7e9, 1.7e12, -2e9])
@pytest.mark.parametrize("step", [1, 977])
def test_start_of_timestamps(write, write_parquet, start, step):
    """Seconds since 1970 are as informative as seconds since the first row, in CSV as in Parquet."""
    seconds = np.array([step * (node + node % 3) for node in range(24)], np.float64)

    def features(path):
        return read_graph(None, nodes=path).features

    def text(column):
        return "id,time\n" + "".join(f"n{node},{time:.0f}\n" for node, time in enumerate(column))

    expected = features(write("a.csv", text(seconds)))
    np.testing.assert_allclose(features(write("b.csv", text(start + seconds))), expected, atol=1e-3)
    parquet = write_parquet("c.parquet", id=[f"n{node}" for node in range(24)], time=start + seconds)
    np.testing.assert_allclose(features(parquet), expected, atol=1e-3)


def test_almost_equal_numbers(write):
    """Only equal values are called constant."""
    rows = "".join(f"{node},7,{1e6 + offset},{0.1 + offset * 1e-17}\n" for node, offset in (("a", 0), ("b", 1e-4)))
    graph = read_graph(None, nodes=write("nodes.csv", "id,seven,close,rounded\n" + rows))
    found = graph.preprocessing.lines()
    assert found == ["seven: left out, always 7", "close: standardised", "rounded: left out, always 0.1"]
    table = table_of_array(np.array([[0.3], [0.1 + 0.2]]), ["sum"])
    assert fit_columns(table).lines() == ["sum: left out, values differ by rounding only"]


NODES = "id,f\n" + "".join(f"{name},{place}\n" for place, name in enumerate(["root", *(f"n{row}" for row in range(9))]))


@pytest.mark.parametrize(
    ("edges", "known", "guess"),
    [
        ("root,n1\nn1,n2\nn2,n3\nn3,n4\nn4,n5\nn5,n6\n", False, "data"),  # n1 looks like n2, n3, …
        ("root,n1\nn1,n2\nn2,n3\nn3,n4\nn4,n5\nn5,n6\n", True, "data"),
        ("root,leaf\nn1,n2\nn2,n3\nn3,n4\nn4,n5\nn5,root\nn7,n8\n", False, "data"),  # root is below
        ("person,friend\nn1,n2\nn2,n3\nn3,n4\nn4,n5\nn5,n6\n", False, "the header"),
        ("person,friend\nn1,n2\n", True, "the header"),
        ("root,5\n1,2\n2,3\n", False, "data"),
        ("u,v,weight\n1,2,0.5\n7,1,2\n", False, None),
    ],
)
def test_header_guess(write, edges, known, guess):
    paths = {"edges": write("edges.csv", edges)} | ({"nodes": write("nodes.csv", NODES)} if known else {})
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        arrays = read(**paths)
    lines = edges.count("\n")
    has_header = guess == "the header" or edges.startswith("u,")
    assert len(arrays.sources) == lines - has_header
    found = [str(note.message) for note in notes]
    assert [message.partition("is read as ")[2].partition(";")[0] for message in found] == ([guess] if guess else [])
    if not known and guess:
        assert [len(read(**paths, header=choice).sources) for choice in ("yes", "no")] == [lines - 1, lines]


def test_first_label_of_a_known_node(write):
    labels = "root,x\nn1,y\nn2,x\nn3,y\nn4,x\nn5,x\n"
    with pytest.warns(GraphNote, match=r"labels.csv: the first line \('root', 'x'\) is read as data; use --header yes"):
        arrays = read(nodes=write("nodes.csv", NODES), labels=write("labels.csv", labels))
    assert np.count_nonzero(arrays.labels >= 0) == 6


def test_class_as_a_feature(write):
    paths = {name: write(f"{name}.csv", text) for name, text in GOOD.items()}
    paths["nodes"] = write("nodes.csv", "id,f1,class\na,1,first\nb,3,third\nc,5,first\nd,6,third\n")
    for options in ({"kinds": {"class": "category"}}, {"exclude": ["class"]}, {"features": ["class"]}):
        arrays = read(**paths, **options)
        assert arrays.class_names == ("x", "y")
        assert any("class" in name for name in arrays.feature_names) == ("exclude" not in options)
    paths["labels"] = write("labels.csv", "id,label\nc,third\n")
    with pytest.raises(InputError, match="two labels for node 'c'"):
        read(**paths, label="class")


def test_unused_edge_columns(write):
    path = write("edges.csv", "source,target,amount\na,b,5\nb,c,7\n")
    with pytest.warns(GraphNote, match="edges.csv: column 'amount' is not used; --column weight=amount uses it as"):
        assert read(path).weights is None
    assert read(path, weight="amount").weights.tolist() == [5, 7]
    assert read(path, weight=False).weights is None
