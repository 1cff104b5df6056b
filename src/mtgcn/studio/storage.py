"""Files of a project: a folder with safe names, a lock and atomic writes; the record `project.json`; `labels.csv`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from mtgcn.errors import InputError, check_names, shown
from mtgcn.io.options import TableOptions
from mtgcn.io.read import read_labels
from mtgcn.labels import UNLABELED, class_named, is_missing
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
from mtgcn.workflows.output import table_bytes

LOCK = ".studio.lock"
LOCK_TIMEOUT = 30.0  # seconds; changes of a project take a few seconds at most
MAX_NAME_BYTES = 200  # length of a file name; leaves room for a suffix
MAX_CHANGES = 500  # changes kept for undo
FORBIDDEN_CHARACTERS = '/\\:*?"<>|'  # characters forbidden in file names on some operating system


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
