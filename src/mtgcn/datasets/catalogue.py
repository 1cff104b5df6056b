"""The datasets by name: what `mtgcn.datasets` offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components

from mtgcn.datasets import cora_text, digits, planetoid
from mtgcn.datasets.dataset import Dataset
from mtgcn.datasets.fetch import SourceUnreachable, fetch
from mtgcn.datasets.storage import Folders, holds, read_checked
from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import Graph
from mtgcn.splits import Split


@dataclass(frozen=True)
class FileFormat:
    """One way in which a dataset may lie in a folder."""

    filenames: tuple[str, ...]
    read: Callable[[Mapping[str, bytes]], Dataset]


def _planetoid_format(name: str, class_names: tuple[str, ...] = ()) -> FileFormat:
    return FileFormat(planetoid.filenames(name), partial(planetoid.read, name, class_names=class_names))


_FORMATS: dict[str, tuple[FileFormat, ...]] = {
    "cora": (
        _planetoid_format("cora", cora_text.CLASS_NAMES),
        FileFormat(cora_text.FILENAMES, cora_text.read),
    ),
    "citeseer": (_planetoid_format("citeseer"),),
    "pubmed": (_planetoid_format("pubmed"),),
}

NAMES = (*_FORMATS, "digits")


@dataclass(frozen=True)
class Description:
    """A dataset's row of the paper's table 1, and what that table leaves out."""

    name: str
    nodes: int
    edges_listed: int  # the paper's "edges": duplicates and self-edges counted
    edges: int  # between two different nodes, each once
    self_loops: int
    classes: int
    features: int
    components: int
    nodes_without_label: int
    location: Path | None  # None: no longer on disk


def load(name: str) -> Graph:
    """The graph of that name, fetched if it is nowhere on this machine.

    >>> load("digits")
    Graph('digits', nodes=1797, edges=12340, features=64, classes=10)
    """
    return _dataset(name).graph


def public_split(name: str) -> Split:
    """Planetoid's own split: 20 training nodes per class, 500 for validation, 1000 for test."""
    split = _dataset(name).public_split
    if split is None:
        raise InputError(f"{name} has no public split; draw random ones, or choose from {', '.join(_FORMATS)}")
    return split


def describe(name: str) -> Description:
    """Count what the loaded graph holds."""
    dataset = _dataset(name)
    graph = dataset.graph
    components = connected_components(graph.adjacency, directed=False, return_labels=False)
    return Description(
        name=name,
        nodes=graph.num_nodes,
        edges_listed=dataset.edges_listed,
        edges=graph.num_edges,
        self_loops=int(np.count_nonzero(graph.adjacency.diagonal())),
        classes=graph.num_classes,
        features=graph.num_features,
        components=int(components),
        nodes_without_label=graph.num_nodes - len(graph.known),
        location=where(name),
    )


def where(name: str) -> Path | None:
    """The folder that a load would read, without reading or fetching; None where it would have to fetch."""
    _check_name(name)
    if name == "digits":
        return digits.location()
    folders = Folders.from_environment()
    return next((folder for folder, form in _places(name, folders) if holds(folder, form.filenames)), None)


def _dataset(name: str) -> Dataset:
    _check_name(name)
    # The folders are part of the key: after a change of the environment, data are looked for again.
    return _read_once(name, Folders.from_environment())


@cache
def _read_once(name: str, folders: Folders) -> Dataset:
    if name == "digits":
        return digits.read()
    found = _read_local(name, folders)
    if found is None:
        found = _read_fetched(name, folders)
    return found


def _read_local(name: str, folders: Folders) -> Dataset | None:
    for folder, form in _places(name, folders):
        contents = read_checked(folder, form.filenames)
        if contents is not None:
            return form.read(contents)
    return None


def _read_fetched(name: str, folders: Folders) -> Dataset:
    try:
        fetch(name, folders.cache)
    except SourceUnreachable as error:
        looked_in = " nor in ".join(str(folder) for folder in folders.in_order())
        raise SourceUnreachable(
            f"{name} is neither in {looked_in} nor to be fetched ({error}); "
            f"set MTGCN_DATA to a folder with the files ind.{name}.*"
        ) from error
    found = _read_local(name, folders)
    if found is None:
        raise InputError(f"{folders.cache} lost files of {name} while they were fetched; try again")
    return found


def _places(name: str, folders: Folders) -> Iterator[tuple[Path, FileFormat]]:
    return ((folder, form) for folder in folders.in_order() for form in _FORMATS[name])


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise unknown_name("dataset", name, NAMES)
