"""The folders in which data are looked for, and reading and writing single files there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mtgcn.datasets import checksums
from mtgcn.errors import InputError


@dataclass(frozen=True)
class Folders:
    """Where data may lie on this machine."""

    given: Path | None  # the person's own, never written to
    cache: Path

    @classmethod
    def from_environment(cls) -> Folders:
        given = os.environ.get("MTGCN_DATA")
        return cls(given=Path(given) if given else None, cache=_cache_folder())

    def in_order(self) -> tuple[Path, ...]:
        return (self.given, self.cache) if self.given else (self.cache,)


def _cache_folder() -> Path:
    chosen = os.environ.get("MTGCN_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path  # only here: with MTGCN_CACHE set it need not be installed

    return user_cache_path("mtgcn", appauthor=False)


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
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            complete = False
            continue
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; make it readable or move it away") from error
        checksums.check(content, filename, origin=path, remedy="delete it, and it is fetched anew")
        contents[filename] = content
    return contents if complete else None


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of `content` or, whatever happens, nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")  # its own for every process and thread
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
