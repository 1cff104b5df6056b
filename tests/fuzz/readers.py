"""Files, malformed or not: tables in CSV, Parquet and JSON, GraphML, GML, JSON, `.mtx`, `.mat`, `.npz` and `.pt`."""

import json
import re
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from pyarrow import parquet
from scipy.io import savemat

from fuzz import malformed
from fuzz.case import require_sound_graph
from mtgcn import read_graph

NODES = 8
EDGE_INDEX = np.array([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
FEATURES = np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3)
LABELS = np.array([0, 1, -1, -1, 0, 1, -1, -1])


def random_case(random):
    kinds = (_csv, _csv, _csv, _parquet, _json, _text_file, _text_file, _npz, _npz, _mat, _pt)
    return random.choice(kinds)(random)


TABLES = {
    "edges": [["source", "target", "weight"], *([str(i), str((i * 3 + 1) % 8), str(i / 2 + 1)] for i in range(8))],
    "nodes": [["id", "size", "kind"], *([str(i), str(i * 1.5), ("a", "b", "")[i % 3]] for i in range(NODES))],
    "labels": [["id", "label"], *([str(i), ("red", "blue")[i % 4 // 2]] for i in range(0, NODES, 2))],
}
WORDS = ("int", "string", "boolean", "directed", "undirected", "multigraph 1", "[ a 1 ]", '"a"', '"&#55296;"', "label")


def _changed_text(random, text):
    """Text with some of its words, or of what is between them, replaced."""
    parts = re.split(r"([\w.-]+)", text)
    for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3, 8))):
        other = malformed.text(random) if random.random() < 0.8 else random.choice(WORDS)
        parts[random.randrange(len(parts))] = other
    return "".join(parts)


def _csv(random):
    delimiter = random.choice((",", ",", ";", "\t", " ", "|"))
    newline = random.choice(("\n", "\n", "\r\n", "\r"))
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "cp1252", "utf-16"))
    header = int(random.random() < 0.3)
    files = {}
    for name, rows in TABLES.items():
        text = newline.join(delimiter.join(row) for row in rows[header:])
        files[name] = (_changed_text(random, text) if random.random() < 0.4 else text).encode(encoding, "replace")
    return _read_tables(random, files, ".csv")


def _json(random):
    lists = {str(node): [node, 3] for node in range(NODES)}
    contents = {name: [dict(zip(head, row, strict=True)) for row in rows] for name, (head, *rows) in TABLES.items()}
    contents["nodes"] = random.choice((contents["nodes"], lists))
    files = {name: _changed_text(random, json.dumps(content)) for name, content in contents.items()}
    return _read_tables(random, {name: one.encode("utf-8", "replace") for name, one in files.items()}, ".json")


def _parquet(random):
    files = {}
    for name, (head, *rows) in TABLES.items():
        columns = dict(zip(head, map(pa.array, zip(*rows, strict=True)), strict=True))
        if random.random() < 0.6:
            columns[random.choice(list(columns))] = _arrow_column(random, len(rows))
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table(columns), sink)
        files[name] = sink.getvalue().to_pybytes()
    return _read_tables(random, files, ".parquet")


def _arrow_column(random, rows):
    texts = [malformed.text(random) for _ in range(rows)]
    extreme = [random.choice((0.0, 1e300, float("nan"), float("inf"), 1e-300)) for _ in range(rows)]
    kinds = (
        *(pa.array([text.replace("\x00", "")[:2000] for text in texts]), pa.array(["x"] * rows, pa.large_string())),
        pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.binary()),
        *(pa.array(extreme), pa.array(np.arange(rows, dtype=np.float16)), pa.array(range(rows), pa.decimal128(30, 4))),
        pa.array([random.choice((0, 2**63, 2**64 - 1)) for _ in range(rows)], pa.uint64()),
        *(pa.array([[1, 2]] * rows), pa.array([{"a": 1}] * rows), pa.nulls(rows), pa.array([True, None] * rows)[:rows]),
        *(pa.array([-(2**40)] * rows, pa.timestamp("s")), pa.array(range(rows), pa.date32())),
        pa.array([10**18] * rows, pa.timestamp("ns", tz="Europe/Berlin")),
        *(pa.array(["a", "b"] * rows).dictionary_encode()[:rows], pa.array(range(rows), pa.duration("us"))),
        pa.array(range(rows), pa.time32("s")),
    )
    return random.choice(kinds)


def _read_tables(random, files, suffix):
    if random.random() < 0.3:
        name = random.choice(list(files))
        files[name] = malformed.changed_bytes(random, files[name])
    given = {"edges", *random.choice((("nodes", "labels"), ("labels",), ("nodes",), ("nodes", "labels")))}
    options = {}
    if random.random() < 0.3:
        options["unknown_nodes"] = random.choice(("error", "drop", "add"))
    if random.random() < 0.1:
        options["header"] = random.choice((True, False, "yes", "no", "x"))
    if random.random() < 0.1:
        options["kinds"] = {random.choice(("kind", "size", 1)): random.choice(("number", "category", "date", "text"))}
    return _tables_of({key: files[key] for key in given}, suffix, options)


def _tables_of(files, suffix, options=None):
    def case(folder):
        for name, content in files.items():
            (folder / f"{name}{suffix}").write_bytes(content)
        require_sound_graph(read_graph(**{name: folder / f"{name}{suffix}" for name in files}, **(options or {})))

    return case


GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/><key id="x" for="node" attr.name="x" attr.type="double"/>
<key id="c" for="node" attr.name="class" attr.type="string"/>
<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>"""
TEXTS = {
    "a.graphml": GRAPHML.format(
        nodes="".join(
            f'<node id="{i}"><data key="x">1</data><data key="c">{"ab"[i % 2]}</data></node>\n' for i in range(NODES)
        ),
        edges="".join(
            f'<edge source="{i}" target="{(i + 1) % NODES}"><data key="w">2</data></edge>\n' for i in range(NODES)
        ),
    ),
    "a.gml": "graph [\n"
    + "".join(f'node [ id {i} label "n{i}" x 1.5 class {i % 2} ]\n' for i in range(NODES))
    + "".join(f"edge [ source {i} target {(i + 1) % NODES} weight 2 ]\n" for i in range(NODES))
    + "]",
    "a.json": json.dumps(
        {
            "nodes": [{"id": i, "x": 1.5, "class": "ab"[i % 2]} for i in range(NODES)],
            "links": [{"source": i, "target": (i + 1) % NODES, "weight": 2} for i in range(NODES)],
        }
    ),
    "a.mtx": f"%%MatrixMarket matrix coordinate real symmetric\n{NODES} {NODES} {NODES - 1}\n"
    + "".join(f"{i + 1} {i} 2.5\n" for i in range(1, NODES)),
}


def _text_file(random):
    name = random.choice(list(TEXTS))
    content = _changed_text(random, TEXTS[name]).encode("utf-8", "surrogatepass")
    return _written(name, lambda path: path.write_bytes(content), random, 0.4)


def _written(name, write, random=None, damaged=0.0):
    """Write a file, damage its bytes by chance, and read it as a graph."""

    def case(folder):
        write(folder / name)
        if random:
            malformed.damage(random, folder / name, damaged)
        require_sound_graph(read_graph(folder / name))

    return case


def _arrays(random):
    """A graph in one of the forms that `.npz` files have."""
    arrays = {}
    matrix = np.eye(NODES, k=1, dtype=np.float32) + np.eye(NODES, k=-1, dtype=np.float32)
    form = random.randrange(4)
    if form == 0:
        arrays |= {"edge_index": EDGE_INDEX, "edge_weight": np.ones(7)}
    elif form == 1:
        arrays["adjacency"] = matrix
    else:
        prefix = "adj_" if form == 2 else ""
        places = np.nonzero(matrix)
        starts = np.searchsorted(places[0], np.arange(NODES + 1))
        arrays |= {f"{prefix}data": matrix[places], f"{prefix}indices": places[1], f"{prefix}indptr": starts}
        arrays[f"{prefix}shape"] = np.array(matrix.shape)
        if form == 3:
            arrays["format"] = np.array(random.choice((b"csr", b"csr", b"csc", b"coo", b"\xff")))
    if random.random() < 0.7:
        arrays["features"] = FEATURES
    if random.random() < 0.7:
        arrays["labels"] = random.choice((LABELS, np.array(list("abababab")), np.array([b"x", b"y"] * 4)))
    if random.random() < 0.3:
        arrays["node_ids"] = np.array([f"n{i}" for i in range(NODES)])
    if random.random() < 0.2:
        arrays["class_names"] = np.array(["red", "blue"])
    for _ in range(random.choice((0, 1, 1, 2))):
        name = random.choice(list(arrays))
        arrays[name] = malformed.array(random, arrays[name])
    return arrays


def _npz(random):
    arrays, save = _arrays(random), random.choice((np.savez, np.savez_compressed))
    return _written("a.npz", lambda path: save(path, allow_pickle=False, **arrays), random, 0.25)


def _mat(random):
    matrix = np.eye(NODES, k=1)
    arrays = {"network": random.choice((matrix, sp.csc_array(matrix))), "X": FEATURES, "group": LABELS}
    if random.random() < 0.4:
        name = random.choice(("X", "group"))
        arrays[name] = malformed.array(random, arrays[name])

    def write(path):
        try:
            savemat(path, arrays, do_compression=random.random() < 0.5)
        except (TypeError, ValueError, UnicodeError):  # of arrays that MATLAB does not have
            path.write_bytes(b"MATLAB")

    return _written("a.mat", write, random, 0.6)


def _pt(random):
    parts = {"edge_index": EDGE_INDEX, "x": FEATURES, "y": LABELS, "edge_weight": np.ones(7)}
    name = random.choice(list(parts))
    if random.random() < 0.6:
        changed = malformed.array(random, parts[name])
        parts[name] = changed if changed.dtype.kind in "bifc" or changed.dtype == np.uint8 else changed.tolist()
    elif random.random() < 0.5:
        parts[name] = malformed.json_value(random)
    if random.random() < 0.2:
        parts["num_nodes"] = malformed.number(random)
    if random.random() < 0.1:
        del parts[name]
    tensors = {k: torch.from_numpy(np.array(one)) if isinstance(one, np.ndarray) else one for k, one in parts.items()}
    forms = (tensors, tensors, (tensors, {"x": [0, 8]}), [tensors], (tensors, malformed.json_value(random)))
    content = random.choice(forms)
    return _written("a.pt", lambda path: torch.save(content, path), random, 0.25)


def _file(name, content):
    """A file of these bytes, of this text, or of anything else as torch saves it."""
    if isinstance(content, bytes | str):
        content = content if isinstance(content, bytes) else content.encode()
        return _written(name, lambda path: path.write_bytes(content))
    return _written(name, lambda path: torch.save(content, path))


def _npz_with(**arrays):
    given = {name: array for name, array in ({"edge_index": EDGE_INDEX} | arrays).items() if array is not None}
    return _written("a.npz", lambda path: np.savez(path, allow_pickle=False, **given))


def _tables(**tables):
    return _tables_of({name: text.encode() for name, text in tables.items()}, ".csv")


def _gml_of(node="", edge="", more=""):
    return f"graph [ node [ id 0 {node} ] node [ id 1 x 2 class 2 ] {more} edge [ source 0 target 1 {edge} ] ]"


def _many_nodes(first):
    return _gml_of(first, more="".join(f'node [ id {i} label "n{i}" ] ' for i in range(2, 1500)))


def _inflating(path):
    path.write_bytes(malformed.archive_of_zeros({"features.npy": 3480}))
    with zipfile.ZipFile(path, "a") as archive, archive.open("edge_index.npy", "w") as member:
        np.save(member, EDGE_INDEX)


def _twice_in_an_archive(path):
    np.savez(path, edge_index=EDGE_INDEX)
    content = zipfile.ZipFile(path).read("edge_index.npy")
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr("edge_index.npy", content)


def _no_array_in_an_archive(path):
    np.savez(path, edge_index=EDGE_INDEX)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("features.npy", b"no array")


# None removes the default edge index.
_PLACES = np.nonzero(np.eye(NODES, k=1) + np.eye(NODES, k=-1))
COMPRESSED = {"edge_index": None, "format": np.array(b"csr"), "data": np.ones(14, np.float32), "indices": _PLACES[1]}
COMPRESSED |= {"indptr": np.searchsorted(_PLACES[0], np.arange(NODES + 1)), "shape": np.array([NODES, NODES])}
EDGES = "source,target\n1,2\n2,3\n"
KEY_TWICE = GRAPHML.format(
    nodes='<node id="a"><data key="x">1</data><data key="x">5</data></node><node id="b"/>',
    edges='<edge source="a" target="b"/>',
)
TENSORS = {"edge_index": torch.from_numpy(EDGE_INDEX)}
REGRESSIONS = {
    "an attribute of 400 digits": _file("a.gml", _gml_of("x " + "9" * 400)),
    "an edge weight of 400 digits": _file("a.gml", _gml_of(edge="weight " + "9" * 400)),
    "half a surrogate pair in a name": _file("a.gml", _gml_of('label "a&#55296;"').replace("x 2", 'label "b"')),
    "half a surrogate pair in a class": _file("a.gml", _gml_of('class "a&#55296;"')),
    "a class given twice": _file("a.gml", _gml_of("class 1 class 2")),
    "a name given twice": _file("a.gml", _gml_of('label "a" label "b"').replace("x 2", 'label "c"')),
    "an id of 2 MB among many": _file("a.gml", _many_nodes(f'label "{"x" * 2_000_000}"')),
    "a class of 2 MB among many": _file("a.gml", _many_nodes(f'label "n0" class "{"x" * 2_000_000}"')),
    "a key given twice": _file("a.graphml", KEY_TWICE),
    "a class of 2 MB": _tables(edges=EDGES, labels=f"id,label\n1,{'x' * 2_000_000}\n2,b\n"),
    "a column called by 2 MB": _tables(edges=EDGES, nodes=f"id,{'x' * 2_000_000}\n1,1\n2,3\n3,4\n"),
    "eight million columns": _tables(edges=EDGES, nodes="id" + ",a" * 8_000_000 + "\n1\n"),
    "a hundred thousand columns of one name": _tables(edges=EDGES, nodes="id" + ",a" * 99_990 + "\n1\n"),
    "a cell of 5001 digits where numbers are": _tables(
        edges=EDGES,
        nodes="id,a,b\n1,1,x\n2,2,y\n3,1" + "0" * 5000 + ",z\n" + "".join(f"{i},{i},x\n" for i in range(4, 30)),
    ),
    "a node numbered 10^12": _npz_with(edge_index=EDGE_INDEX + 10**12),
    "a node numbered beyond 2^63": _npz_with(edge_index=EDGE_INDEX.astype(np.uint64) + 2**63),
    "bytes that are no text as labels": _npz_with(labels=np.array([b"a", b"\xff"] * 4)),
    "half a surrogate pair in an id of an array": _npz_with(node_ids=np.array(["a\ud800", *"bcdefgh"])),
    "half a surrogate pair in a class of an array": _npz_with(labels=np.array(["a\ud800", *"bcdefgh"])),
    "features without a column": _npz_with(features=np.zeros((8, 0)), labels=LABELS),
    "labels of structured type": _npz_with(labels=np.zeros(8, [("a", int)])),
    "a form of matrix that is no text": _npz_with(**COMPRESSED | {"format": np.array(b"\xff")}),
    "a form of matrix of no letters": _npz_with(**COMPRESSED | {"format": np.zeros((0, 2), "S3")}),
    "10^15 rows of nothing": _npz_with(**COMPRESSED | {"shape": np.array([10**15, 10**15])}),
    "an adjacency of three axes": _npz_with(edge_index=None, adjacency=np.ones((4, 4, 4))),
    "an archive of 3 MB that unpacks to 3.4 GiB": _written("a.npz", _inflating),
    "an array twice in an archive": _written("a.npz", _twice_in_an_archive),
    "a member that is not an array": _written("a.npz", _no_array_in_an_archive),
    "an archive cut short": _file("a.pt", b"PK\x05\x06" + bytes(18)),
    "no archive after all": _file("a.pt", b"PK\x01\x02\xff" * 20 + b"PK\x05\x06" + b"\x01" * 18),
    "a node numbered 10^12 in a tensor": _file("a.pt", {"edge_index": torch.from_numpy(EDGE_INDEX + 10**12)}),
    "10^12 nodes": _file("a.pt", TENSORS | {"num_nodes": 10**12}),
    "10^400 nodes": _file("a.pt", TENSORS | {"num_nodes": 10**400}),
    "fewer than no nodes": _file("a.pt", TENSORS | {"num_nodes": -1}),
    "slices that are numbers": _file("a.pt", (TENSORS, {"x": 5})),
    **{
        f"{part} that is {what!r}": _file("a.pt", TENSORS | {part: what})
        for part in ("edge_index", "x", "y", "edge_weight")
        for what in ({"a": 1}, "text", 5, [1, [2]], set(), torch.zeros(8, 0), torch.zeros(8, dtype=torch.bfloat16))
    },
}
