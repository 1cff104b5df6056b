"""The folders in which data are looked for, and reading single files there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mtgcn.datasets import checksums
from mtgcn.errors import InputError
from mtgcn.storage.cache import cache_folder
from mtgcn.storage.files import read_plain


@dataclass(frozen=True)
class Folders:
    """Where data may lie on this machine."""

    given: Path | None  # the person's own, never written to
    cache: Path

    @classmethod
    def from_environment(cls) -> Folders:
        given = os.environ.get("MTGCN_DATA")
        return cls(given=Path(given) if given else None, cache=cache_folder())

    def in_order(self, sibling: str | None = None) -> tuple[Path, ...]:
        """The folders from the first to the last that is looked into; `sibling` is one beside the given folder."""
        if self.given is None:
            return (self.cache,)
        beside = () if sibling is None else (Path(os.path.realpath(self.given)).parent / sibling,)
        return (self.given, *beside, self.cache)


def holds(folder: Path, filenames: Iterable[str]) -> bool:
    """Whether all the files lie there; their content is not looked at."""
    return all(os.path.isfile(folder / filename) for filename in filenames)


def read_checked(folder: Path, filenames: Iterable[str]) -> dict[str, bytes] | None:
    """The content of the files, each equal to its sum; None where one is missing, an error where one is damaged."""
    contents = {}
    complete = True
    for filename in filenames:
        path = folder / filename
        try:
            content = read_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            complete = False
            continue
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; make it readable or move it away") from error
        checksums.check(content, filename, origin=path, remedy="delete it, and it is fetched anew")
        contents[filename] = content
    return contents if complete else None
