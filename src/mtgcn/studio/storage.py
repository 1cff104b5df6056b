"""What a project stores: a folder with safe names, a lock and atomic writes; `project.json`; `labels.csv`; its graph,
read from a dataset, from copies of files, or from a copy of a saved model."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from mtgcn import datasets
from mtgcn.errors import InputError, check_names, shown
from mtgcn.estimator.inputs import read_graph
from mtgcn.estimator.persistence import load_model, read_card, save_model
from mtgcn.graph import Graph
from mtgcn.io.archives import suffix_of
from mtgcn.io.graph_files import READERS
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.read import read_labels
from mtgcn.io.roles import TABLE_READERS
from mtgcn.labels import UNLABELED, class_named, classes_of, is_missing
from mtgcn.storage.cache import fingerprint
from mtgcn.storage.files import (
    HeldElsewhere,
    check_folder,
    check_no_link,
    check_no_links,
    exclusive_lock,
    force_to_disk,
    read_plain,
    write_file,
)
from mtgcn.workflows.output import collected_notes, table_bytes

LOCK = ".studio.lock"
LOCK_TIMEOUT = 30.0  # seconds; changes of a project take a few seconds at most
MAX_NAME_BYTES = 200  # length of a file name; leaves room for a suffix
MAX_CHANGES = 500  # changes kept for undo
FORBIDDEN_CHARACTERS = '/\\:*?"<>|'  # characters forbidden in file names on some operating system
FILES = "files"  # folder of the file copies, with one folder per load
MAX_UPLOAD_BYTES = 256 << 20  # size limit of one file
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".cites", ".content", *TABLE_READERS)
GRAPH_SUFFIXES = tuple(suffix for suffix in READERS if suffix not in (".pt", ".pth"))  # no pickles
SUFFIXES = {"graph": GRAPH_SUFFIXES, "edges": TABLE_SUFFIXES, "nodes": TABLE_SUFFIXES, "labels": TABLE_SUFFIXES}
# SVG is excluded, since it may contain scripts.
PICTURE = re.compile(r"\S.*\.(png|jpe?g|gif|webp|bmp|avif)([?#].*)?", re.IGNORECASE | re.DOTALL)
ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?")
PICTURE_SHAPES = {"digits": (8, 8)}  # datasets whose features are pixels: rows, columns


def checked_name(name: str) -> str:
    """Return a file name that is safe in a project folder: no path, no hidden file.

    >>> checked_name("my edges.csv")
    'my edges.csv'
    """
    if not name or name != name.strip() or name.startswith(".") or name.endswith("."):
        raise InputError(f"file name {shown(name)}; it must not begin or end with a blank or a dot")
    if any(letter in FORBIDDEN_CHARACTERS or not letter.isprintable() for letter in name):
        raise InputError(f"file name {shown(name)}; remove {FORBIDDEN_CHARACTERS} and control characters")
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise InputError(f"file name {shown(name)} is longer than {MAX_NAME_BYTES} bytes; shorten it")
    return name


class ProjectFolder:
    """A folder with checked file names, atomic writes, and a lock between threads and processes."""

    def __init__(self, folder: str | Path) -> None:
        check_folder(folder, holds="the project")
        self.folder = Path(os.path.realpath(folder))
        check_no_links(self.folder)
        self._thread_lock = Lock()

    def path(self, *names: str) -> Path:
        """The path of a file or folder in the project, which must not be a link."""
        path = self.folder
        for name in names:
            path = path / checked_name(name)
            check_no_link(path)
        return path

    def read(self, *names: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        path = self.path(*names)
        try:
            return read_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; check its permissions") from error

    def write(self, content: bytes, *names: str) -> Path:
        """Write a file atomically and flush it to disk."""
        path = write_file(self.path(*names), content)
        force_to_disk(path.parent)
        return path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the project against changes by other threads and processes."""
        with self._thread_lock:
            try:
                with exclusive_lock(self.folder / LOCK, f"changing the project {self.folder}", LOCK_TIMEOUT):
                    yield
            except HeldElsewhere:
                raise InputError(
                    f"another process has held the project {self.folder} for {LOCK_TIMEOUT:.0f} s; nothing was "
                    "changed; try again"
                ) from None


# project.json, which is validated when it is read, since it may be edited by hand


class Record(BaseModel):
    """A frozen record on disk; unknown and mistyped fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


FileName = Annotated[str, AfterValidator(checked_name)]
Role = Literal["graph", "edges", "nodes", "labels", "model"]  # "model" is a model folder


class Source(Record):
    """Where the graph comes from: a built-in dataset, or copies of files."""

    dataset: str | None = None
    files: dict[Role, FileName] = {}
    options: dict[str, Any] = {}  # how to read the files: knn, metric, columns, …
    pictures: str = ""  # the folder that paths of pictures are relative to; "": none are shown
    given: str = ""  # identifies what was loaded, so that it is not loaded again; independent of roles


class Change(Record):
    """A change by the user, with the values before and after."""

    title: str  # "labelled 17 as cat"
    window: str = ""  # the browser window of the change
    labels: Mapping[str, tuple[str | None, str | None]] = {}  # node -> label before, label after
    classes: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # before and after
    skipped: str | None = None  # the skipped node
    renamed: tuple[str, str] | None = None  # a renamed or merged class, before and after
    opened: int | None = None  # the load that was open before another graph was loaded


class State(Record):
    """The project without its labels."""

    format: Literal[1] = 1
    load: int = 0  # the number of the load, which is also the folder of its file copies
    source: Source | None = None
    # A load takes two steps. Before the second, labels and model of this load are not set aside yet.
    unsettled: int = 0
    classes: tuple[str, ...] = ()  # in the order of their keys; classes that occur only in labels.csv follow
    skipped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # old and new class names since the model was fitted
    history: tuple[Change, ...] = ()  # the last changes, for undo

    @property
    def title(self) -> str:
        """The dataset or the main file; empty if no graph is loaded."""
        source = self.source
        if source is None:
            return ""
        return source.dataset or next(source.files[role] for role in get_args(Role) if role in source.files)

    def current_name(self, name: str) -> str:
        """The current name of a class of the model."""
        for before, after in self.renamed:
            name = after if name == before else name
        return name

    @staticmethod
    def from_json(content: bytes | None) -> State:
        """Read `project.json`; without content, return the state of a new project."""
        if content is None:
            return State()
        try:
            return State.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"project.json is not a project of the studio ({where}: {first['msg']}); correct it, or remove it and "
                "load the graph again: labels.csv stays"
            ) from None


# labels.csv


def read_label_file(path: Path, ids: Sequence[str]) -> dict[str, str]:
    """The label of each labelled node, in node order, read as by `mtgcn fit --labels`."""
    codes, names = read_labels(path, np.array(ids, dtype=object), TableOptions(few_labels=True))
    return {ids[node]: names[codes[node]] for node in np.flatnonzero(codes != UNLABELED).tolist()}


def label_table(labels: Mapping[str, str]) -> bytes:
    """The content of `labels.csv`."""
    return table_bytes(("id", "label"), labels.items())


def checked_class(name: str, known: Sequence[str] = ()) -> str:
    """Normalise the name of a new class, so that `labels.csv` preserves it.

    >>> checked_class(" big  cat "), checked_class("2.0"), checked_class("007", ["7"])
    ('big cat', '2', '007')
    """
    name = class_named(" ".join(name.split()), ())
    check_names([name], "class")
    if is_missing(name):
        raise InputError(f"class {shown(name)} means a missing label; choose another name")
    if not name.isprintable():
        raise InputError(f"class {shown(name)} contains a control character; choose another name")
    if name in known:
        raise InputError(f"class {shown(name)} exists; choose another name, or merge the classes")
    return name


# The graph


@dataclass(eq=False)
class LoadedGraph:
    """A graph with the labels of its files; labels of a dataset stay hidden."""

    graph: Graph
    notes: Sequence[str] = ()  # notes of the readers
    files: TableOptions | None = None  # the copies, if the graph was read from tables
    picture_shape: tuple[int, int] | None = None  # rows and columns, if features are pixels
    pictures: Path | None = None  # the folder that paths of pictures are relative to
    picture_columns: Collection[str] = ()  # chosen columns; otherwise pictures are recognised by suffix
    truth: Sequence[str] = ()  # the hidden class of each node of a dataset, for practice; methods never see it
    _named: Graph | None = None  # unlabelled, with the classes of the last call of `labelled`

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(map(str, self.graph.node_ids.tolist()))

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of a node by its id."""
        return {node: number for number, node in enumerate(self.ids)}

    def picture(self, column: str, value: str) -> Path | str | None:
        """The picture named by a cell: an address, or a file inside the picture folder."""
        if not (column in self.picture_columns or PICTURE.fullmatch(value)):
            return None
        if re.match("https?://", value, re.IGNORECASE):
            return value
        if self.pictures is None or not PICTURE.fullmatch(value) or "\0" in value:
            return None
        folder = self.pictures.resolve()
        path = (folder / value).resolve()  # resolves links, which must not lead out of the folder
        return path if path.is_relative_to(folder) and path.is_file() else None

    @cached_property
    def picture_origins(self) -> list[str]:
        """The servers from which the page may load pictures."""
        table, found = self.graph.cells, set()
        for column in () if table is None else table.column_names:
            for value in table[column].unique().to_pylist():
                if value and isinstance(address := self.picture(column, value), str):
                    parts = urlsplit(address)
                    found.add(f"{parts.scheme}://{parts.netloc}")
        return sorted(origin for origin in found if ORIGIN.fullmatch(origin))

    @cached_property
    def fingerprint(self) -> str:
        """An identifier of the graph, to recognise a model of another graph."""
        return fingerprint(self.ids, self.graph.adjacency, self.graph.features)

    @property
    def labels(self) -> dict[str, str]:
        return {self.ids[node]: self.graph.class_names[self.graph.labels[node]] for node in self.graph.known}

    def labelled(self, labels: Mapping[str, str]) -> Graph:
        """The graph with these labels; classes in the order of `mtgcn fit`. Results cached per graph are shared between
        graphs with the same classes."""
        _, names = classes_of(sorted(set(labels.values())))
        number = {name: code for code, name in enumerate(names)}
        codes = np.array([number.get(labels.get(node, ""), UNLABELED) for node in self.ids])
        if self._named is None or self._named.class_names != names:
            self._named = replace(unlabelled(self.graph), class_names=names)
        return self._named.with_labels(codes)


def unlabelled(graph: Graph) -> Graph:
    return replace(graph, labels=np.full(graph.num_nodes, UNLABELED))


def read_source(source: Source, folder: ProjectFolder, load: int) -> LoadedGraph:
    """Read the graph of a source."""
    if source.dataset:
        graph = datasets.load(source.dataset)
        truth = [graph.class_names[code] if code != UNLABELED else "" for code in graph.labels.tolist()]
        return LoadedGraph(unlabelled(graph), picture_shape=PICTURE_SHAPES.get(source.dataset), truth=truth)
    paths: dict[str, Any] = {role: folder.path(FILES, str(load), name) for role, name in source.files.items()}
    if "model" in paths:
        return LoadedGraph(load_model(paths["model"]).graph_)
    files = TableOptions(**paths, **source.options, few_labels=True)
    with collected_notes() as notes:
        graph = read_graph(files)
    columns = [str(column) for column, kind in files.kinds.items() if kind == "picture"]
    return LoadedGraph(graph, notes, files, None, Path(source.pictures) if source.pictures else None, columns)


def copy_files(files: TableOptions, folder: ProjectFolder, load: int, pictures: Path | None = None) -> Source:
    """Copy plain files of limited size into the project."""
    paths: dict[Role, Path] = {role: Path(path) for role in get_args(Role) if (path := getattr(files, role, None))}
    contents: dict[str, bytes] = {}
    for role, path in paths.items():
        if suffix_of(path) not in SUFFIXES[role]:
            raise InputError(f"{role} file {shown(path.name)}; give one of {', '.join(SUFFIXES[role])}")
        name = checked_name(path.name)
        try:
            content = read_plain(readable_file(path), MAX_UPLOAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot copy {path}: {error.strerror}; give a smaller file, or use mtgcn fit") from error
        if contents.setdefault(name, content) != content:
            raise InputError(f"two different files are named {shown(name)}; rename one")
    for name, content in contents.items():
        folder.write(content, FILES, str(load), name)
    left_out = {*SUFFIXES, "few_labels", "preprocessing"}
    options = {key: value for key, value in asdict(files).items() if key not in left_out}
    where = "" if pictures is None else str(pictures.resolve())
    names = {role: path.name for role, path in paths.items()}
    given = fingerprint((names, options, where, [sha256(content).hexdigest() for content in contents.values()]))
    return Source(files=names, options=options, pictures=where, given=given)


def copy_model(model: Path, folder: ProjectFolder, load: int) -> Source:
    """Copy a saved model into the project."""
    name = checked_name(model.resolve().name)
    save_model(load_model(model), folder.path(FILES, str(load), name))
    return Source(files={"model": name}, given=read_card(model)["sha256"])
