"""A whole graph in one file. GraphML and GML are read by networkx, after a look at what it would choke on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

import networkx as nx

from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays
from mtgcn.io.attributed import graph_arrays
from mtgcn.io.columns import Choices
from mtgcn.io.ids import NodeIndex
from mtgcn.io.npz import read_npz
from mtgcn.io.paths import PathLike, readable_file, reason, shown
from mtgcn.io.pt import read_pt
from mtgcn.io.tables import read_labels
from mtgcn.memory import check_fits

DEEPEST_XML = 100  # graphs lie three or four elements deep; far deeper ones exhaust the stack
LARGEST_BYTES = 256 << 20  # tables are for larger graphs
TIMES_THE_FILE = 20  # what networkx takes of memory


def read_graph_file(
    given: PathLike,
    labels: PathLike | None = None,
    *,
    weight: str | Literal[False] | None = None,
    label: str | Literal[False] | None = None,
    features: Sequence[str] | None = None,
    few_labels: bool = False,
) -> GraphArrays:
    """The graph in a file, by its suffix, with the labels of a table beside it if there is one."""
    path = readable_file(given)
    suffix = path.suffix.lower()
    if suffix in FIXED_NAMES:
        if (weight, label, features) != (None, None, None):
            raise InputError(f"{path}: attributes are chosen in GraphML and GML; the names in {suffix} files are fixed")
        arrays = FIXED_NAMES[suffix](path)
    elif suffix in READERS:
        graph = READERS[suffix](path)
        arrays = graph_arrays(graph, str(path), weight=weight, label=label, features=features)
        # Both formats write ids as text; those that are whole numbers are read as such, as in tables.
        arrays = replace(arrays, node_ids=NodeIndex.of(arrays.node_ids).ids())
    else:
        known = ", ".join([*READERS, *FIXED_NAMES])
        raise InputError(f"{path}: unknown suffix {suffix!r}; give {known}, or a table to from_csv")
    if labels is None:
        return arrays
    codes, names = read_labels(labels, arrays.node_ids, Choices(few_labels=few_labels))
    return replace(arrays, labels=codes, class_names=names)


def read_graphml(path: Path) -> Any:
    """The networkx graph in a GraphML file that declares no document type, and so no entities that could grow."""
    _check_size(path)
    _check_xml(path)
    return _read(path, "GraphML", lambda: nx.read_graphml(path))


def read_gml(path: Path) -> Any:
    """The networkx graph in a GML file. A node is called by its `label` where these differ, else by its `id`."""
    _check_size(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        byte = f"byte 0x{problem.object[problem.start]:02x}"
        raise InputError(f"{path} line {line}: {byte} is not UTF-8; save the file as UTF-8") from None
    plain = text.encode("ascii", "xmlcharrefreplace").decode()  # all that networkx reads, and it knows what &#233; is
    graph = _read(path, "GML", lambda: nx.parse_gml(plain, label="id"))
    for node, name in graph.nodes(data="label", default=""):
        if isinstance(name, list):
            raise InputError(f"{path}: node {shown(node)} has {len(name)} labels, which are its names; keep one")
    names = [str(name) for _, name in graph.nodes(data="label", default="")]
    if all(names) and len(set(names)) == len(names):
        graph = nx.relabel_nodes(graph, dict(zip(graph.nodes, names, strict=True)))
    for _, attributes in graph.nodes(data=True):
        attributes.pop("label", None)  # in GML a name, never a class
    return graph


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise InputError(
            f"{path} has {size >> 20} MiB and this format is read up to {LARGEST_BYTES >> 20}; "
            "write the graph as an edge list in Parquet"
        )
    check_fits(TIMES_THE_FILE * size, f"{path}, read in this format,", "write the graph as an edge list in Parquet")


def _check_xml(path: Path) -> None:
    depth = 0

    keys: set[str] = set()  # of the data in the element that is being read

    def enter(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if name.rpartition(":")[2] != "data":
            keys.clear()
        elif (key := attributes.get("key", "")) in keys:
            line = parser.CurrentLineNumber
            raise InputError(f"{path} line {line}: key {shown(key)} is given twice for one element; keep one")
        else:
            keys.add(key)
        if depth > DEEPEST_XML:
            line = parser.CurrentLineNumber
            raise InputError(f"{path} line {line}: elements nested deeper than {DEEPEST_XML}; is this GraphML?")

    def leave(name: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*declared: object) -> None:
        line = parser.CurrentLineNumber
        raise InputError(f"{path} line {line}: a DOCTYPE can declare entities that grow without end; delete it")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as problem:
        what = expat.errors.messages[problem.code]
        raise InputError(
            f"{path} line {problem.lineno} is no well-formed XML ({what}); it may be cut off, write it again"
        ) from None
    except (ValueError, LookupError) as problem:  # an encoding that nobody knows
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{path} cannot be read as XML ({reason(problem)}); save it as UTF-8") from None


def _read(path: Path, kind: str, read: Any) -> Any:
    try:
        return read()
    except MemoryError:
        raise
    except Exception as problem:  # networkx answers a malformed file with whatever its parser stumbled over
        raise InputError(
            f"{path} cannot be read as {kind} ({reason(problem)}); was it cut off? write it again"
        ) from None


# Arrays under names that everybody uses; of the others, attributes of nodes and edges are chosen.
FIXED_NAMES: dict[str, Callable[[Path], GraphArrays]] = {".npz": read_npz, ".pt": read_pt, ".pth": read_pt}
READERS: dict[str, Callable[[Path], Any]] = {".graphml": read_graphml, ".xml": read_graphml, ".gml": read_gml}
