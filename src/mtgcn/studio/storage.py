"""Files of a project: a folder with safe names, a lock and atomic writes; `labels.csv`; the JSON records; the graph.

`project.json` holds a `State` and `history.json` a list of `Change`s. Both are validated when they are read, since they
may be edited by hand. The graph is read from a dataset, from copies of files, or from a copy of a saved model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from mtgcn import datasets
from mtgcn.errors import InputError, check_names, shown
from mtgcn.estimator.persistence import load_model, save_model
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.read import read_labels
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
from mtgcn.workflows.inputs import read_graph
from mtgcn.workflows.output import collected_notes, table_bytes

FILES = "files"  # the folder of the copies, with one folder per load
LOCK = ".studio.lock"
LOCK_TIMEOUT = 30.0  # seconds; another process changes a project within a few
MAX_NAME_BYTES = 200  # leaves room for a suffix
MAX_UPLOAD_BYTES = 256 << 20  # of one file
MAX_CHANGES = 500  # kept for undo
FORBIDDEN_CHARACTERS = '/\\:*?"<>|'  # in file names, on any operating system
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".cites", ".content", ".parquet", ".pq")
GRAPH_SUFFIXES = (".graphml", ".gml", ".npz")  # not .pt, which is a pickle
PICTURE_SHAPES = {"digits": (8, 8)}  # datasets whose features are pixels: rows, columns


def checked_name(name: str) -> str:
    """Check that a file name is safe in a project folder: no path, no hidden file.

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
    """Files by checked names, atomic writes, and a lock between threads and processes."""

    def __init__(self, root: str | Path) -> None:
        check_folder(root, holds="the project")
        self.root = Path(os.path.realpath(root))
        check_no_links(self.root)
        self._thread_lock = RLock()
        self._depth = 0

    def path(self, *names: str) -> Path:
        """The path of a file or folder in the project, which must not be a link."""
        path = self.root
        for name in names:
            path = path / checked_name(name)
            check_no_link(path)
        return path

    def read(self, *names: str, at_most: int | None = None) -> bytes | None:
        """The content of a file; None if it does not exist."""
        path = self.path(*names)
        try:
            return read_plain(path, at_most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; check its permissions") from error

    def write(self, content: bytes, *names: str) -> Path:
        """Write a file atomically and flush it to disk."""
        with self.locked():
            path = write_file(self.path(*names), content)
            force_to_disk(path.parent)
        return path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the project exclusively: no other thread or process changes it. Re-entrant."""
        with self._thread_lock:
            if self._depth:
                yield
                return
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot make folder {self.root}: {error.strerror}; give another folder") from error
            try:
                with exclusive_lock(self.root / LOCK, f"changing the project {self.root}", LOCK_TIMEOUT):
                    self._depth += 1
                    try:
                        yield
                    finally:
                        self._depth -= 1
            except HeldElsewhere:
                raise InputError(
                    f"another process has held the project {self.root} for {LOCK_TIMEOUT:.0f} s; nothing was changed, "
                    "try again"
                ) from None


# labels.csv


def read_label_file(path: Path, ids: Sequence[str]) -> dict[str, str]:
    """The label of each labelled node, in node order; the same reader as `mtgcn fit --labels`."""
    codes, names = read_labels(path, np.array(ids, dtype=object), TableOptions(few_labels=True))
    return {ids[node]: names[codes[node]] for node in np.flatnonzero(codes != UNLABELED).tolist()}


def label_table(labels: Mapping[str, str]) -> bytes:
    """The content of `labels.csv`."""
    return table_bytes(("id", "label"), labels.items())


def checked_class(name: str, known: Sequence[str] = ()) -> str:
    """Normalise a class name, so that `labels.csv` gives back the same name.

    >>> checked_class(" cat "), checked_class("2.0")
    ('cat', '2')
    """
    name = class_named(" ".join(name.split()), ())
    check_names([name], "class")
    if is_missing(name):
        raise InputError(f"class {shown(name)} means a missing label; choose another name")
    if not name.isprintable():
        raise InputError(f"class {shown(name)} contains a control character; choose another name")
    if len(classes_of([*known, name])[1]) < len({*known, name}):
        raise InputError(f"class {shown(name)} reads like another class; choose another name")
    return name


# Records


class Record(BaseModel):
    """A frozen record on disk; unknown and mistyped fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


FileName = Annotated[str, AfterValidator(checked_name)]
Role = Literal["graph", "edges", "nodes", "labels", "model"]
ROLES: tuple[Role, ...] = get_args(Role)[:-1]  # of files; "model" is a model folder


class Source(Record):
    """Where the graph comes from: a built-in dataset, or copies of files."""

    dataset: str | None = None
    files: dict[Role, FileName] = {}
    options: dict[str, Any] = {}  # how to read the files: knn, metric, columns, …

    @property
    def title(self) -> str:
        """The dataset or the main file."""
        return self.dataset or next(self.files[role] for role in get_args(Role) if role in self.files)


class State(Record):
    """The project without its labels, as in `project.json`."""

    format: Literal[1] = 1
    load: int = 0  # number of loads so far; the file copies belong to the last one
    source: Source | None = None
    # A load is finished in two steps. Until the second, the labels of the previous graph are still in labels.csv and
    # this is the file they move to.
    unsettled: Literal[""] | FileName = ""
    classes: tuple[str, ...] = ()  # in the order of their keys; classes that occur only in labels.csv follow
    skipped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # old and new class names since the model was fitted

    def current_name(self, name: str) -> str:
        """The present name of a class of the model."""
        for before, after in self.renamed:
            name = after if name == before else name
        return name

    @staticmethod
    def from_json(content: bytes | None) -> State:
        """Read `project.json`; without content the state of a new project."""
        if content is None:
            return State()
        try:
            return State.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"project.json is no project of the studio ({where}: {first['msg']}); correct it, or remove it and "
                "load the graph again: labels.csv stays"
            ) from None

    def to_json(self) -> bytes:
        return self.model_dump_json(indent=1).encode()


class Change(Record):
    """One change by a person, with the values before and after."""

    title: str  # "labelled 17 as cat"
    window: str = ""  # the browser window that made it
    labels: Mapping[str, tuple[str | None, str | None]] = {}  # node -> label before, label after
    classes: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # before and after
    skipped: str | None = None  # the node
    renamed: tuple[str, str] | None = None  # a renamed or merged class, before and after


_CHANGES = TypeAdapter(list[Change])


def read_history(content: bytes | None) -> list[Change]:
    """The changes, oldest first. A damaged file costs the undo history, never a label."""
    try:
        return _CHANGES.validate_json(content or b"[]")
    except ValidationError:
        return []


def history_json(changes: Sequence[Change]) -> bytes:
    return _CHANGES.dump_json(list(changes[-MAX_CHANGES:]))


# The graph


@dataclass(eq=False)
class LoadedGraph:
    """A graph without labels and classes, and what its source says about them."""

    graph: Graph
    ids: tuple[str, ...]
    labels: Mapping[str, str]  # from the files; empty for a dataset, whose labels stay hidden
    class_names: tuple[str, ...]
    notes: Sequence[str] = ()  # remarks of the readers
    files: TableOptions | None = None  # the copies, if it was read from tables
    picture_shape: tuple[int, int] | None = None  # rows and columns, where features are pixels
    _named: Graph | None = None  # unlabelled, with the classes of the last call of `labelled`

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of a node by its id."""
        return {node: number for number, node in enumerate(self.ids)}

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the graph, so that a model of another graph is recognised."""
        return fingerprint(self.ids, self.graph.adjacency, self.graph.features)

    def labelled(self, labels: Mapping[str, str]) -> Graph:
        """The graph with these labels; classes in the order of `mtgcn fit`. Results cached per graph are shared between
        graphs with the same classes."""
        _, names = classes_of(sorted(set(labels.values())))
        number = {name: code for code, name in enumerate(names)}
        codes = np.array([number.get(labels.get(node, ""), UNLABELED) for node in self.ids])
        if self._named is None or self._named.class_names != names:
            self._named = replace(self.graph, class_names=names)
        return self._named.with_labels(codes)


def loaded_graph(graph: Graph, *, hide_labels: bool, **more: Any) -> LoadedGraph:
    """Separate a graph from its labels."""
    ids = tuple(map(str, graph.node_ids.tolist()))
    known = () if hide_labels else graph.known
    labels = {ids[node]: graph.class_names[graph.labels[node]] for node in known}
    unlabelled = replace(graph, labels=np.full(graph.num_nodes, UNLABELED), class_names=())
    return LoadedGraph(unlabelled, ids, labels, graph.class_names, **more)


def read_source(source: Source, folder: ProjectFolder, load: int) -> LoadedGraph:
    """Read the graph of a source."""
    if source.dataset:
        shape = PICTURE_SHAPES.get(source.dataset)
        return loaded_graph(datasets.load(source.dataset), hide_labels=True, picture_shape=shape)
    paths: dict[str, Any] = {role: folder.path(FILES, str(load), name) for role, name in source.files.items()}
    if "model" in paths:
        return loaded_graph(load_model(paths["model"]).graph_, hide_labels=False)
    files = TableOptions(**paths, **source.options, few_labels=True)
    with collected_notes() as notes:
        graph = read_graph(files)
    return loaded_graph(graph, hide_labels=False, notes=notes, files=files)


def copy_files(files: TableOptions, folder: ProjectFolder, load: int) -> Source:
    """Copy plain files of limited size into the project."""
    paths: dict[Role, Path] = {role: Path(path) for role in ROLES if (path := getattr(files, role)) is not None}
    contents: dict[str, bytes] = {}
    for role, path in paths.items():
        suffixes = GRAPH_SUFFIXES if role == "graph" else TABLE_SUFFIXES
        if not path.name.lower().endswith(suffixes):
            raise InputError(f"{role} file {shown(path.name)}; give one of {', '.join(suffixes)}")
        name = checked_name(path.name)
        try:
            content = read_plain(readable_file(path), MAX_UPLOAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot copy {path}: {error.strerror}; give a smaller file, or use mtgcn fit") from error
        if contents.setdefault(name, content) != content:
            raise InputError(f"two different files are named {shown(name)}; rename one")
    for name, content in contents.items():
        folder.write(content, FILES, str(load), name)
    options = {key: value for key, value in asdict(files).items() if key not in (*ROLES, "few_labels", "preprocessing")}
    return Source(files={role: path.name for role, path in paths.items()}, options=options)


def copy_model(model: Path, folder: ProjectFolder, load: int) -> Source:
    """Copy a saved model into the project."""
    name = checked_name(model.resolve().name)
    save_model(load_model(model), folder.path(FILES, str(load), name))
    return Source(files={"model": name})
