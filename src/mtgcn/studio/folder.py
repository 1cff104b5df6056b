"""The folder of a project: every name in it is checked, every write is whole or not at all and forced to disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from mtgcn.errors import InputError, shown
from mtgcn.storage.files import check_folder, force_to_disk, read_plain, write_file
from mtgcn.storage.folders import PARTIAL
from mtgcn.storage.locks import HeldElsewhere, exclusive_lock

LOCK = ".studio.lock"
PATIENCE = 30.0  # seconds for another process that changes the same project, which takes a few at most
LONGEST_NAME = 200  # bytes, so that there is room beside it for a suffix
NOT_IN_NAMES = '/\\:*?"<>|'  # on one system or another


def checked_name(name: str) -> str:
    """The name of a file as it may stand in a project folder: one name, no path, nothing that hides.

    >>> checked_name("my edges.csv")
    'my edges.csv'
    """
    if not isinstance(name, str) or not name or name != name.strip() or name.startswith(".") or name.endswith("."):
        raise InputError(f"file name {shown(name)}; give one that neither begins nor ends with a blank or a dot")
    if any(letter in NOT_IN_NAMES or not letter.isprintable() for letter in name):
        raise InputError(f"file name {shown(name)}; give a plain name, without {NOT_IN_NAMES} and control characters")
    if len(name.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
        raise InputError(f"file name {shown(name)} is longer than {LONGEST_NAME} bytes; give a shorter one")
    return name


class ProjectFolder:
    """Files by names that cannot lead out of the folder, and a lock between threads and processes."""

    def __init__(self, root: str | Path) -> None:
        check_folder(root, holds="the project")
        self.root = Path(os.path.realpath(root))
        self._thread = RLock()
        self._depth = 0

    def make(self) -> None:
        """Make the folder where there is none yet."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make folder {self.root}: {error.strerror}; give another folder") from error

    def place(self, *names: str) -> Path:
        """Where the file or folder of these names is. Links may not lead out."""
        path = self.root.joinpath(*map(checked_name, names))
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.root):
            raise InputError(f"{path} is a link to {real}, outside the project; put the file itself there")
        return path

    def read(self, *names: str, at_most: int | None = None) -> bytes | None:
        """What a file holds; None where there is none."""
        path = self.place(*names)
        try:
            return read_plain(path, at_most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; see who may read it") from error

    def write(self, content: bytes, *names: str) -> Path:
        """Write a file so that it is there, or what was there before is, whatever ends this process or the power."""
        with self.locked():
            path = write_file(self.place(*names), content)
            force_to_disk(path.parent)
        return path

    def tidy(self) -> None:
        """Remove what a process left that was killed while it wrote."""
        with self.locked():
            for left in self.root.glob(PARTIAL):  # nobody else is writing
                left.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While this lasts, nobody else changes the project: no other thread, no other process."""
        with self._thread:
            if self._depth:
                yield
                return
            self.make()
            try:
                with exclusive_lock(self.root / LOCK, f"changing the project {self.root}", PATIENCE):
                    self._depth += 1
                    try:
                        yield
                    finally:
                        self._depth -= 1
            except HeldElsewhere:
                raise InputError(
                    f"another process has held the project {self.root} for {PATIENCE:.0f} s; nothing was changed, "
                    "try again"
                ) from None
