"""The graph of a project: read from a dataset, from copies of files, or from a copy of a saved model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import numpy as np

from mtgcn import datasets
from mtgcn.errors import InputError, shown
from mtgcn.estimator.inputs import read_graph
from mtgcn.estimator.persistence import load_model, read_card, save_model
from mtgcn.graph import Graph
from mtgcn.io.archives import suffix_of
from mtgcn.io.graph_files import READERS
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.roles import TABLE_READERS
from mtgcn.labels import UNLABELED, classes_of
from mtgcn.storage.cache import fingerprint
from mtgcn.storage.files import read_plain
from mtgcn.studio.storage import ProjectFolder, Role, Source, checked_name
from mtgcn.workflows.output import collected_notes

FILES = "files"  # folder of the file copies, with one folder per load
MAX_UPLOAD_BYTES = 256 << 20  # size limit of one file
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".cites", ".content", *TABLE_READERS)
GRAPH_SUFFIXES = tuple(suffix for suffix in READERS if suffix not in (".pt", ".pth"))  # no pickles
SUFFIXES = {"graph": GRAPH_SUFFIXES, "edges": TABLE_SUFFIXES, "nodes": TABLE_SUFFIXES, "labels": TABLE_SUFFIXES}
# SVG is excluded, since it may contain scripts.
PICTURE = re.compile(r"\S.*\.(png|jpe?g|gif|webp|bmp|avif)([?#].*)?", re.IGNORECASE | re.DOTALL)
ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?")
PICTURE_SHAPES = {"digits": (8, 8)}  # datasets whose features are pixels: rows, columns


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
