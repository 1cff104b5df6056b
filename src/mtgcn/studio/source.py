"""Reading the graph of a project: from a dataset, from copies of files, or from a saved model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn import datasets
from mtgcn.errors import InputError, shown
from mtgcn.estimator.persistence import load_model, save_model
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.labels import UNLABELED, classes_of
from mtgcn.storage.cache import fingerprint
from mtgcn.storage.files import read_plain
from mtgcn.studio.storage import ROLES, ProjectFolder, Role, Source, checked_name
from mtgcn.workflows.inputs import read_graph
from mtgcn.workflows.output import collected_notes

FILES = "files"  # the folder of the copies, with one folder per load
MAX_UPLOAD_BYTES = 256 << 20  # of one file
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".cites", ".content", ".parquet", ".pq")
GRAPH_SUFFIXES = (".graphml", ".gml", ".npz")  # not .pt, which is a pickle


@dataclass(frozen=True, eq=False)
class LoadedGraph:
    """A graph without labels and classes, and what its source says about them."""

    graph: Graph
    ids: tuple[str, ...]
    index: Mapping[str, int]  # of a node, by its id
    labels: Mapping[str, str]  # from the files; empty for a dataset, whose labels stay hidden
    class_names: tuple[str, ...]
    notes: tuple[str, ...]  # remarks of the readers
    _last: Graph | None = None  # unlabelled, with the classes of the last call of `labelled`

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
        last = self._last
        if last is None or last.class_names != names:
            last = replace(self.graph, class_names=names)
            object.__setattr__(self, "_last", last)
        return last.with_labels(codes)


def loaded_graph(graph: Graph, notes: tuple[str, ...] = (), *, hide_labels: bool) -> LoadedGraph:
    """Separate a graph from its labels."""
    ids = tuple(map(str, graph.node_ids.tolist()))
    known = () if hide_labels else graph.known
    return LoadedGraph(
        graph=replace(graph, labels=np.full(graph.num_nodes, UNLABELED), class_names=()),
        ids=ids,
        index={node: number for number, node in enumerate(ids)},
        labels={ids[node]: graph.class_names[graph.labels[node]] for node in known},
        class_names=graph.class_names,
        notes=notes,
    )


def read_source(source: Source, folder: ProjectFolder, load: int) -> LoadedGraph:
    """Read the graph of a source."""
    if source.dataset:
        return loaded_graph(datasets.load(source.dataset), hide_labels=True)
    if "model" in source.files:
        model = load_model(folder.path(FILES, str(load), source.files["model"]))
        return loaded_graph(model.graph_, hide_labels=False)
    with collected_notes() as notes:
        graph = read_graph(table_options(source, folder, load))
    return loaded_graph(graph, tuple(notes), hide_labels=False)


def table_options(source: Source, folder: ProjectFolder, load: int) -> TableOptions:
    """The copies of a source's files with their reading options."""
    paths: dict[str, Any] = {role: folder.path(FILES, str(load), name) for role, name in source.files.items()}
    return TableOptions(**paths, **source.options, few_labels=True)


def copy_files(files: TableOptions, folder: ProjectFolder, load: int) -> Source:
    """Copy plain files of limited size into the project."""
    paths: dict[Role, Path] = {role: Path(path) for role in ROLES if (path := getattr(files, role)) is not None}
    for role, path in paths.items():
        suffixes = GRAPH_SUFFIXES if role == "graph" else TABLE_SUFFIXES
        if not path.name.lower().endswith(suffixes):
            raise InputError(f"{role} file {shown(path.name)}; give one of {', '.join(suffixes)}")
    names = {role: checked_name(path.name) for role, path in paths.items()}
    contents: dict[str, bytes] = {}
    for role, name in names.items():
        path = readable_file(paths[role])
        try:
            content = read_plain(path, MAX_UPLOAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot copy {path}: {error.strerror}; give a smaller file, or use mtgcn fit") from error
        if contents.setdefault(name, content) != content:
            raise InputError(f"two different files are named {shown(name)}; rename one")
    for name, content in contents.items():
        folder.write(content, FILES, str(load), name)
    options = {key: value for key, value in asdict(files).items() if key not in (*ROLES, "few_labels", "preprocessing")}
    return Source(files=names, options=options)


def copy_model(model: Path, folder: ProjectFolder, load: int) -> Source:
    """Copy a saved model into the project."""
    name = checked_name(model.resolve().name)
    save_model(load_model(model), folder.path(FILES, str(load), name))
    return Source(files={"model": name})
