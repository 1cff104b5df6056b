"""A whole graph in one file: GraphML, GML and node-link JSON (read by networkx), `.npz`, MATLAB, MatrixMarket, and
`.pt` with a PyG `Data`.

To add a format, write a function from a path to `GraphArrays` or a networkx graph and register its suffix in `READERS`.

A `.pt` file is a pickle, which may run any code. torch's reader for weights builds only tensors and plain containers;
the classes of a `Data` are replaced by inert placeholders, so PyG need not be installed.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, as_input_error, log_file, reason, shown
from mtgcn.graph import GraphArrays, id_array, networkx_arrays
from mtgcn.graph_checks import as_array, checked_count, checked_edge_index, compressed_matrix
from mtgcn.io.archives import COPIES, content_of, npz_arrays, opened, suffix_of, unpacked_size
from mtgcn.io.json_table import read_json
from mtgcn.io.matlab import mat_arrays
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.table import NodeIndex
from mtgcn.labels import UNLABELED, encoded_labels
from mtgcn.memory import check_fits

MAX_XML_DEPTH = 100  # graphs are three or four elements deep; far deeper ones exhaust the stack
GRAPHML = b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'  # some programs omit the namespace
SPARSE_PARTS = ("data", "indices", "indptr", "shape")
# The usual names of arrays in `.npz` and `.mat`; the first one in a file is used.
MATRIX_NAMES = ("adjacency", "adj_matrix", "adj", "network", "A", "W")
FEATURE_NAMES = ("features", "x", "node_features", "node_attr", "attributes", "attrb", "attr", "X", "fea")
LABEL_NAMES = ("labels", "y", "node_labels", "node_label", "label", "group", "gnd")
EDGE_NAMES = ("edge_index", "edges", "edge_weight", *MATRIX_NAMES)
GRAPH_NAMES = (*EDGE_NAMES, *FEATURE_NAMES, *LABEL_NAMES, "node_ids", "class_names")
SPARSE_NAMES = ("format", *(prefix + part for prefix in ("", "adj_", "attr_") for part in SPARSE_PARTS))
NPZ_NAMES = {*GRAPH_NAMES, *SPARSE_NAMES}
PYG_ARRAYS = ("edge_index", "edge_weight", "x", "y")
# The classes of a pickled Data besides tensors.
PYG_CLASSES = (
    *(f"torch_geometric.data.data.{name}" for name in ("Data", "DataEdgeAttr", "DataTensorAttr")),
    *(f"torch_geometric.data.storage.{kind}Storage" for kind in ("Base", "Edge", "Global", "Node")),
)


def read_graph_file(options: TableOptions) -> GraphArrays:
    """The graph in `options.graph`, by its suffix."""
    path = readable_file(options.graph or "")
    suffix = suffix_of(path)
    if suffix not in READERS:
        raise InputError(f"{path}: unknown suffix {suffix!r}; give {', '.join(READERS)}, or a table as --edges")
    if suffix not in WITH_ATTRIBUTES and (options.columns or options.features is not None):
        raise InputError(f"{path}: attributes are chosen in GraphML, GML and JSON; names in {suffix} files are fixed")
    arrays = READERS[suffix](path)
    if not isinstance(arrays, GraphArrays):
        chosen: dict[str, Any] = {**options.columns, "features": options.features}
        arrays = networkx_arrays(arrays, str(path), **chosen, from_file=True)
        # Whole numbers become integers, as in tables: most formats write ids as text.
        arrays = replace(arrays, node_ids=NodeIndex.of(arrays.node_ids).ids())
        _log(path, ("features",) * (arrays.features is not None) + ("labels",) * (arrays.labels is not None), arrays)
    return arrays


def _log(path: Path, parts: Sequence[str], arrays: GraphArrays) -> None:
    form = f"graph with {', '.join(parts)}" if parts else "graph"
    log_file(path, form, nodes=len(arrays.node_ids), edges=len(arrays.sources))


def read_graphml(path: Path) -> Any:
    """The networkx graph in a GraphML file. A DOCTYPE, whose entities could expand without end, is rejected."""
    import networkx as nx

    content = content_of(path)  # parsed at once: in pieces, a long attribute would be read again with each piece
    _check_xml(path, content)
    with _readable(path, "GraphML"):
        return nx.parse_graphml(content.replace(b"<graphml>", GRAPHML, 1))


def read_gml(path: Path) -> Any:
    """The networkx graph in a GML file. Node ids are the `label`s if these are unique, otherwise the `id`s."""
    import networkx as nx

    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        byte = f"byte 0x{problem.object[problem.start]:02x}"
        raise InputError(f"{path} line {line}: {byte} is not UTF-8; save the file as UTF-8") from None
    plain = text.encode("ascii", "xmlcharrefreplace").decode()  # networkx reads ASCII and decodes &#233;
    with _readable(path, "GML"):
        graph = nx.parse_gml(plain, label="id")
    names = {node: attributes.pop("label", "") for node, attributes in graph.nodes(data=True)}  # never a class
    for node, name in names.items():
        if isinstance(name, list):
            raise InputError(f"{path}: node {shown(node)} has {len(name)} labels; keep one")
    names = {node: str(name) for node, name in names.items()}
    are_ids = all(names.values()) and len(set(names.values())) == len(names)
    return nx.relabel_nodes(graph, names) if are_ids else graph


def read_node_link(path: Path) -> Any:
    """The networkx graph in JSON, as `networkx.node_link_data` and D3 write it: `nodes`, and `links` or `edges`."""
    import networkx as nx

    content = read_json(path)
    edges = next((name for name in ("links", "edges") if isinstance(content, dict) and name in content), None)
    if edges is None or "nodes" not in content:
        raise InputError(f"{path} holds no nodes with links or edges; give tables in JSON as --nodes or --edges")
    with _readable(path, "node-link JSON"):
        return nx.node_link_graph(content, edges=edges)


def _check_xml(path: Path, content: bytes) -> None:
    open_elements: list[str] = []
    parser = expat.ParserCreate()

    def refuse(why: str) -> None:
        raise InputError(f"{path} line {parser.CurrentLineNumber}: {why}")

    def enter(name: str, attributes: dict[str, str]) -> None:
        open_elements.append(name)
        if len(open_elements) > MAX_XML_DEPTH:
            refuse(f"elements nested deeper than {MAX_XML_DEPTH}; is this GraphML?")

    parser.StartDoctypeDeclHandler = lambda *_: refuse("a DOCTYPE can declare endless entities; delete it")
    parser.StartElementHandler = enter
    parser.EndElementHandler = lambda _: open_elements.pop()
    with _readable(path, "XML", "save it as UTF-8"):  # an unknown encoding
        try:
            parser.Parse(content, True)
        except expat.ExpatError as problem:
            what = f"line {problem.lineno} is not well-formed XML ({expat.errors.messages[problem.code]})"
            raise InputError(f"{path} {what}; it may be cut off, write it again") from None


def _readable(
    path: Path,
    kind: str,
    remedy: str = "was it cut off? write it again",
    kept: tuple[type[Exception], ...] = (MemoryError,),
) -> AbstractContextManager[None]:
    """Turns errors of a reader into an `InputError`; libraries raise any exception on malformed files."""
    return as_input_error(f"{path} cannot be read as {kind}", remedy, Exception, kept=kept)


def read_npz(path: Path) -> GraphArrays:
    """Edges from `edge_index`, `edges`, `adjacency`, `adj_data` … or scipy's `save_npz`; optionally `features`,
    `labels`, `node_ids` and `class_names`, or other usual names."""
    # A wrong header may request more memory than is available.
    with _readable(path, ".npz", "write it again, without objects", kept=()), opened(path) as file:
        arrays = npz_arrays(file, str(path), NPZ_NAMES)
    for name, array in arrays.items():
        if name in NPZ_NAMES and not isinstance(array, np.ndarray | sp.sparray):
            raise InputError(f"{path}: {shown(name)} is not an array; write the file with numpy.savez")
    for prefix, key, name in (("", "format", "adjacency"), ("adj_", "adj_data", "adj"), ("attr_", "attr_data", "attr")):
        if key in arrays:
            arrays[name] = _sparse(path, arrays, prefix)
    return _from_arrays(path, arrays)


def read_mat(path: Path) -> GraphArrays:
    """A matrix of weights, features and labels in a MATLAB file, by their usual names."""
    with _readable(path, "MATLAB", "save it again with -v7"):
        arrays = mat_arrays(path, {*MATRIX_NAMES, *FEATURE_NAMES, *LABEL_NAMES})
    if not any(name in arrays for name in MATRIX_NAMES):
        raise InputError(
            f"{path} holds no matrix of edges; name it {', '.join(MATRIX_NAMES[:-1])} or {MATRIX_NAMES[-1]}"
        )
    return _from_arrays(path, arrays)


def read_mtx(path: Path) -> GraphArrays:
    """The graph of a square matrix in a MatrixMarket file, which numbers nodes from 1. (scipy's reader ends the process
    on some malformed files.)"""
    with _readable(path, "MatrixMarket"), opened(path) as file:
        _, _, layout, kind, *_ = file.readline().decode().split()
        if layout != "coordinate" or kind == "complex":
            kind, layout = shown(kind), shown(layout)
            raise InputError(f"{path} is a {kind} matrix in {layout} form; write a sparse matrix of real numbers")
        sizes = next(line for line in file if line.strip() and not line.startswith(b"%"))
        rows, columns, count = map(int, sizes.split())
        entries = np.loadtxt(file, ndmin=2) if count else np.empty((0, 2))
        if len(entries) != count:
            raise ValueError(f"{len(entries)} entries, but the header announces {count}")
        ends, given = entries[:, :2].T, entries[:, 2] if entries.shape[1] == 3 else np.ones(count)
        checked_count(max(rows, columns), str(path))
        matrix = sp.coo_array((given, ends.astype(np.int64) - 1), shape=(rows, columns))
    arrays = _from_arrays(path, {"adjacency": matrix})
    return replace(arrays, node_ids=arrays.node_ids + 1)


def _from_arrays(path: Path, arrays: Mapping[str, Any], nodes: int | None = None) -> GraphArrays:
    """A graph from the arrays of a file, by their names."""
    sources, targets, weights, size = _edges(path, arrays)
    nodes = size if nodes is None else nodes
    features = next((arrays[name] for name in FEATURE_NAMES if name in arrays), None)
    labels, class_names = _labels(path, arrays)
    ids = arrays.get("node_ids")
    if nodes is None:
        sized = [part.shape[0] for part in (features, labels, ids) if part is not None and part.ndim]
        nodes = sized[0] if sized else int(max(sources.max(initial=-1), targets.max(initial=-1))) + 1
    nodes = checked_count(nodes, str(path))
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuUS"):
        raise InputError(f"{path}: node_ids are {_described(ids)}; give one whole number or text per node")
    found = GraphArrays(
        node_ids=np.arange(nodes) if ids is None else id_array(_texts(path, "node_ids", ids), str(path)),
        sources=sources,
        targets=targets,
        weights=weights,
        features=None if features is None else _numeric(path, "features", features),
        labels=labels if class_names else None,
        class_names=class_names,
    )
    _log(path, [name for name in arrays if name in GRAPH_NAMES], found)
    return found


def _edges(path: Path, arrays: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int | None]:
    """Sources, targets, weights and, from a matrix, the number of nodes."""
    edges = arrays.get("edge_index", arrays.get("edges"))
    if edges is not None:
        if "edge_index" not in arrays and edges.ndim == 2 and edges.shape[1] == 2:  # one row per edge
            edges = edges.T
        sources, targets = checked_edge_index(edges, f"{path}: ")
        weights = arrays.get("edge_weight")
        return sources, targets, None if weights is None else _numeric(path, "edge_weight", weights), None
    name = next((name for name in MATRIX_NAMES if name in arrays), None)
    if name is None:
        named = ", ".join(sorted(arrays)[:8]) or "nothing"
        raise InputError(f"{path} holds {named}; give edge_index, adjacency or what scipy.sparse.save_npz writes")
    given = _numeric(path, name, arrays[name])
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise InputError(f"{path}: {name} of shape {given.shape}; give a square matrix, one row per node")
    matrix = sp.coo_array(given)
    matrix.sum_duplicates()
    return matrix.row.astype(np.int64), matrix.col.astype(np.int64), matrix.data, matrix.shape[0]


def _sparse(path: Path, arrays: Mapping[str, Any], prefix: str) -> sp.csr_array:
    """A matrix from its three arrays, whose indices are checked."""
    layout = "csr" if prefix else "".join(map(str, _texts(path, "format", arrays["format"].reshape(-1)[:1])))
    if layout not in ("csr", "csc"):
        raise InputError(f"{path}: a sparse matrix of format {shown(layout)}; save it as csr")
    missing = [prefix + part for part in SPARSE_PARTS if prefix + part not in arrays]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; a sparse matrix needs {', '.join(SPARSE_PARTS)}")
    data, indices, indptr, shape = (arrays[prefix + part] for part in SPARSE_PARTS)
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        raise InputError(f"{path}: {prefix}shape is {_described(shape)}; give two whole numbers, as scipy writes them")
    numbers = _numeric(path, f"{prefix}data", data)
    with as_input_error(f"{path}: {prefix or 'its '}arrays are not a sparse matrix", "save it again", ValueError):
        return compressed_matrix(numbers, indices, indptr, tuple(shape.tolist()), by_column=layout == "csc")


def _labels(path: Path, arrays: Mapping[str, Any]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    name = next((name for name in LABEL_NAMES if name in arrays), None)
    if name is None:
        return None, ()
    given = _one_label_per_node(path, name, arrays[name])
    if given.dtype.kind not in "biufUS" or given.ndim > 2:
        raise InputError(f"{path}: labels are {_described(given)}; give one number or text per node")
    codes, names = encoded_labels(given)
    if "class_names" not in arrays:
        return codes, names
    given_names = tuple(map(str, _texts(path, "class_names", np.atleast_1d(arrays["class_names"]).ravel())))
    if not {*names} <= {*map(str, range(len(given_names)))}:
        raise InputError(
            f"{path}: {len(given_names)} class_names and the labels {', '.join(names[:8])}; give class numbers from 0"
        )
    return np.array([*map(int, names), UNLABELED], dtype=np.int64)[codes], given_names


def _one_label_per_node(path: Path, name: str, given: Any) -> np.ndarray:
    """One label per node, from a row, a column or a one-hot matrix."""
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        return given
    if 1 in given.shape:
        return given.toarray().ravel() if sp.issparse(given) else given.ravel()
    members = sp.csr_array(given)
    members.eliminate_zeros()
    classes = np.diff(members.indptr)
    if (classes > 1).any() or (members.data != 1).any():
        several = f"{name} of shape {given.shape} has several classes for {np.count_nonzero(classes > 1)} nodes"
        raise InputError(f"{path}: {several}; give one label per node, or 1 for its class and 0 for the others")
    labels = np.full(len(classes), UNLABELED)
    labels[classes == 1] = members.indices
    return labels


def _texts(path: Path, name: str, values: np.ndarray) -> list[Any]:
    """The values as a list, bytes decoded."""
    if values.dtype.kind != "S":
        return values.tolist()
    try:
        return [value.decode() for value in values.tolist()]
    except UnicodeDecodeError:
        raise InputError(f"{path}: {name} are not UTF-8; write them as text") from None


def _numeric(path: Path, name: str, values: Any) -> Any:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: {name} is {_described(values)}; give numbers")
    return values.astype(np.result_type(values.dtype, np.float32))


def _described(array: np.ndarray) -> str:
    return f"of type {array.dtype} and shape {array.shape}"


def read_pt(path: Path) -> GraphArrays:
    """The graph in a `.pt` file: a `Data`, a dictionary with `edge_index`, or a processed PyG dataset of one graph."""
    parts = _parts(_loaded(path))
    if parts is None or parts.get("edge_index") is None:
        raise _not_read(path, "holds no edge_index of a single graph")
    try:
        arrays = {name: as_array(parts[name]) for name in PYG_ARRAYS if parts.get(name) is not None}
        arrays |= {name: np.asarray(array) for name, array in arrays.items() if name != "x"}  # x may be sparse
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise _not_read(path, f"has parts that are not arrays ({reason(error)})") from error
    # By shapes: an expanded tensor takes a few bytes of the file.
    size = sum(max(array.itemsize, 4) * array.size for array in arrays.values() if isinstance(array, np.ndarray))
    check_fits(COPIES * size, f"{path}, as arrays,", "give a smaller graph, or features as a sparse tensor")
    nodes = parts.get("num_nodes")
    return _from_arrays(path, arrays, nodes if isinstance(nodes, int) and not isinstance(nodes, bool) else None)


def _loaded(path: Path) -> Any:
    import torch

    allowed: list[Any] = torch.serialization.get_safe_globals()  # PyG's own if it is imported
    known = {one[1] if isinstance(one, tuple) else f"{one.__module__}.{one.__qualname__}" for one in allowed}
    placeholders = [(type(name.rpartition(".")[2], (), {}), name) for name in PYG_CLASSES if name not in known]
    try:
        unpacked = unpacked_size(path)
        with opened(path) as file:
            if zipfile.is_zipfile(file):  # the old format is not a zip file
                with zipfile.ZipFile(file) as archive:
                    unpacked = sum(member.file_size for member in archive.infolist())
            check_fits(COPIES * unpacked, f"{path}, unpacked,", "give a smaller graph, or features as a sparse tensor")
            file.seek(0)
            with torch.serialization.safe_globals(placeholders):  # type: ignore[arg-type]
                return torch.load(file, map_location="cpu", weights_only=True)
    except (MemoryError, InputError):
        raise
    except Exception as error:  # torch raises any exception on malformed files
        named = str(error).partition("GLOBAL ")[2].partition(" ")[0]
        if isinstance(error, pickle.UnpicklingError) and named:
            raise _not_read(path, f"names {named}") from None
        raise InputError(
            f"{path} is not a complete file of torch.save ({reason(error)}); was it cut off? write it again"
        ) from None


def _parts(content: Any) -> Mapping[str, Any] | None:
    """The arrays of a single graph by name, or None."""
    if isinstance(content, tuple | list):  # a processed dataset: graphs and their slices
        slices = content[1] if len(content) > 1 else None
        several = isinstance(slices, Mapping) and any(np.size(as_array(starts)) != 2 for starts in slices.values())
        return None if several or not content else _parts(content[0])
    if isinstance(content, Mapping):
        return content
    kept = vars(vars(content).get("_store", content)).get("_mapping") if hasattr(content, "__dict__") else None
    return kept if isinstance(kept, Mapping) else None


def _not_read(path: Path, why: str) -> InputError:
    target = path.with_suffix(".npz").name
    return InputError(
        f"{path} {why}; only a PyG Data is read, since a .pt file may run any code. If you trust it, "
        f'convert it in Python: data = torch.load("{path.name}", weights_only=False); '
        f'numpy.savez("{target}", edge_index=data.edge_index, x=data.x, y=data.y) and give --graph {target}'
    )


# A reader returns the arrays of a graph, or a networkx graph, whose attributes can be chosen.
READERS: dict[str, Callable[[Path], Any]] = {
    ".graphml": read_graphml,
    ".xml": read_graphml,
    ".gml": read_gml,
    ".json": read_node_link,
    ".npz": read_npz,
    ".mat": read_mat,
    ".mtx": read_mtx,
    ".pt": read_pt,
    ".pth": read_pt,
}
WITH_ATTRIBUTES = (".graphml", ".xml", ".gml", ".json")
