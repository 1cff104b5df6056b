"""What a project is about: a built-in dataset, or a person's files, of which the project keeps copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn import datasets
from mtgcn.errors import InputError, shown
from mtgcn.estimator.persistence import load_model, save_model
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.io.options import TableOptions
from mtgcn.labels import classes_of
from mtgcn.storage.cache import fingerprint
from mtgcn.studio.folder import ProjectFolder, checked_name
from mtgcn.workflows.inputs import read_graph
from mtgcn.workflows.output import collected_notes

FILES = "files"  # the folder that holds the copies, one folder for each time something was loaded
MOST_UPLOAD_BYTES = 256 << 20  # of one file
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".cites", ".content", ".parquet", ".pq")
GRAPH_SUFFIXES = (".graphml", ".gml", ".npz")  # and no .pt, which is a pickle, however carefully read
ROLES = ("edges", "nodes", "labels", "graph")
MODEL = "model"  # the role of a model folder, whose graph and labels are taken
PICTURES = {"digits": (8, 8)}  # datasets whose features are pixels: rows, columns


@dataclass(frozen=True)
class Source:
    """Where the graph comes from, as `project.json` keeps it."""

    dataset: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # role -> name of the copy
    options: Mapping[str, Any] = field(default_factory=dict)  # of `TableOptions`: knn, metric, columns, …

    @property
    def title(self) -> str:
        """What a person knows it by."""
        if self.dataset:
            return self.dataset
        return next(self.files[role] for role in ("graph", "edges", "nodes", MODEL) if role in self.files)

    @property
    def picture(self) -> tuple[int, int] | None:
        """Rows and columns, where the features of a node are the pixels of a picture."""
        return PICTURES.get(self.dataset or "")

    def graph_files(self, folder: ProjectFolder, load: int) -> TableOptions:
        """The copies in the project, as readers take them."""
        places: dict[str, Any] = {role: folder.place(FILES, str(load), name) for role, name in self.files.items()}
        return TableOptions(**places, **self.options, few_labels=True)

    @staticmethod
    def of_files(files: TableOptions) -> Source:
        """What the project will keep of files that a person names; they are not looked into yet."""
        paths = {role: Path(path) for role in ROLES if (path := getattr(files, role)) is not None}
        for role, path in paths.items():
            check_suffix(role, path.name)
        options = {key: value for key, value in asdict(files).items() if key not in (*ROLES, "few_labels")}
        return Source(files={role: checked_name(path.name) for role, path in paths.items()}, options=options)

    @staticmethod
    def from_json(content: Any) -> Source:
        """What `asdict` of a source wrote; every name is checked again, since a person may have changed it."""
        try:
            source = Source(content["dataset"], dict(content["files"]), dict(content["options"]))
            for role, name in source.files.items():
                if role not in (*ROLES, MODEL):
                    raise ValueError(f"role {role!r}")
                checked_name(name)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"project.json does not say what was loaded ({error}); load the graph again") from error
        return source


@dataclass(frozen=True, eq=False)
class Loaded:
    """A graph that has been read, without a label, and beside it what there was to say of it."""

    graph: Graph  # no label is in it, and no class either
    ids: tuple[str, ...]  # of its nodes, as texts
    place: Mapping[str, int]  # of a node by its id
    given: Mapping[str, str]  # labels that the files brought; never those of a dataset, which stay hidden
    class_names: tuple[str, ...]  # that the files or the dataset know
    notes: tuple[str, ...]  # what the readers remarked
    _last: Graph | None = None  # without labels, with the classes that were last asked for

    @cached_property
    def fingerprint(self) -> str:
        """Of the graph, by which a model tells whether it was fitted on it."""
        return fingerprint(self.ids, self.graph.adjacency, self.graph.features)

    def labelled(self, labels: Mapping[str, str]) -> Graph:
        """The graph with these labels, classes in the order in which `mtgcn fit` would have them. What is made once of
        a graph is shared by all that have the same classes."""
        _, names = classes_of(sorted(set(labels.values())))
        number = {name: place for place, name in enumerate(names)}
        codes = np.array([number.get(labels.get(node, ""), UNKNOWN) for node in self.ids])
        return self._bare(names).with_labels_of(replace(self.graph, labels=codes, class_names=names))

    def _bare(self, names: tuple[str, ...]) -> Graph:
        last = self._last
        if last is None or last.class_names != names:
            last = replace(self.graph, class_names=names)
            object.__setattr__(self, "_last", last)
        return last


def read_source(source: Source, folder: ProjectFolder, load: int) -> Loaded:
    """Read what a source names."""
    if source.dataset:
        return loaded_graph(datasets.load(source.dataset), labels_are_hidden=True)
    if MODEL in source.files:
        model = load_model(folder.place(FILES, str(load), source.files[MODEL]))
        return loaded_graph(model.graph_, labels_are_hidden=False)
    with collected_notes() as notes:
        graph = read_graph(source.graph_files(folder, load))
    return loaded_graph(graph, tuple(notes), labels_are_hidden=False)


def copied(files: TableOptions, folder: ProjectFolder, load: int) -> Source:
    """Copies of the files in the project, which are checked to be plain, and of no more than some size."""
    from mtgcn.io.options import readable_file
    from mtgcn.storage.files import read_plain

    source = Source.of_files(files)
    taken: dict[str, bytes] = {}
    for role, name in source.files.items():
        path = readable_file(getattr(files, role))
        try:
            content = read_plain(path, MOST_UPLOAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot take {path}: {error.strerror}; give a smaller file, or use mtgcn fit") from error
        if taken.setdefault(name, content) != content:
            raise InputError(f"two different files are called {shown(name)}; rename one")
    for name, content in taken.items():
        folder.write(content, FILES, str(load), name)
    return source


def copied_model(model: Path, folder: ProjectFolder, load: int) -> Source:
    """A copy of a model in the project, which is read as carefully as any: its graph and labels are wanted."""
    source = Source(files={MODEL: checked_name(model.resolve().name)})
    save_model(load_model(model), folder.place(FILES, str(load), source.files[MODEL]))
    return source


def check_suffix(role: str, name: str) -> None:
    """Refuse files that are no table, or where a whole graph is meant, no graph that is read without unpickling."""
    suffixes = GRAPH_SUFFIXES if role == "graph" else TABLE_SUFFIXES
    if not name.lower().endswith(suffixes):
        raise InputError(f"{role} file {shown(name)}; give one of {', '.join(suffixes)}")


def loaded_graph(graph: Graph, notes: tuple[str, ...] = (), *, labels_are_hidden: bool) -> Loaded:
    """What a project keeps of a graph: labels, unless hidden, are taken out and put beside it."""
    ids = tuple(map(str, graph.node_ids.tolist()))
    known = () if labels_are_hidden else graph.known
    return Loaded(
        graph=replace(graph, labels=np.full(graph.num_nodes, UNKNOWN), class_names=()),
        ids=ids,
        place={name: number for number, name in enumerate(ids)},
        given={ids[node]: graph.class_names[graph.labels[node]] for node in known},
        class_names=graph.class_names,
        notes=notes,
    )
