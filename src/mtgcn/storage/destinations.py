"""Where files and folders may be written, asked before time is spent on what goes into them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.storage.atomic import own_descriptor

NAME_BYTES = 255  # of a file's name, where the system does not say


def check_file(path: str | Path) -> None:
    """Refuse a file that could not be written. What is no plain file may be: a device, a pipe, /dev/stdout."""
    path = Path(os.path.abspath(path))
    with _told(f"cannot write {path}", "give another place"):
        if own_descriptor(path) is not None:
            return
        found = _found(path)
        if found is None:
            _check_parents(Path(os.path.realpath(path)), f"cannot write {path}", "give another place")
        elif stat.S_ISDIR(found.st_mode):
            raise InputError(f"{path} is a folder; give a file name")
        elif stat.S_ISSOCK(found.st_mode):
            raise InputError(f"{path} is a socket, which cannot be written as a file is; give another place")
        elif not os.access(path, os.W_OK):
            raise InputError(f"cannot write {path}: permission denied; give another place")


def check_files(paths: Iterable[str | Path | None]) -> None:
    """Refuse files of which one could not be written, or of which two are the same; None is none."""
    given: dict[str, str | Path] = {}
    for path in paths:
        if path is not None:
            check_file(path)
            real = os.path.realpath(path)
            found = _found(Path(real))
            if real in given and (found is None or stat.S_ISREG(found.st_mode)):
                raise InputError(f"{path} is to be written twice, as one thing and as another; give another file")
            given[real] = path


def check_folder(folder: str | Path, holds: str = "what is written") -> None:
    """Refuse a folder that could not be made, or written into where it is there already. `holds` is what it is for."""
    folder = Path(os.path.abspath(folder))
    with _told(f"cannot make folder {folder}", "give another folder"):
        found = _found(folder)
        if found is None:
            _check_parents(Path(os.path.realpath(folder)), f"cannot make folder {folder}", "give another folder")
        elif not stat.S_ISDIR(found.st_mode):
            raise InputError(f"{folder} is a file; give a folder for {holds}")
        else:
            _check_writable(folder, "give another folder")


@contextmanager
def _told(complaint: str, remedy: str) -> Iterator[None]:
    """What the system says against a path, as something to mend."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise InputError(f"{complaint}: {getattr(error, 'strerror', None) or error}; {remedy}") from error


def _found(path: Path) -> os.stat_result | None:
    """What is there, also through links; None if nothing is."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_parents(path: Path, complaint: str, remedy: str) -> None:
    nearest, found = next((parent, found) for parent in path.parents if (found := _found(parent)) is not None)
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{complaint}: {nearest} is a file; {remedy}")
    _check_writable(nearest, remedy)
    longest = os.pathconf(nearest, "PC_NAME_MAX") if hasattr(os, "pathconf") else NAME_BYTES
    for name in path.relative_to(nearest).parts:
        if len(os.fsencode(name)) > longest:
            raise InputError(f"{complaint}: a name has {len(os.fsencode(name))} bytes, and {longest} will do; {remedy}")


def _check_writable(folder: Path, remedy: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {folder}: permission denied; {remedy}")
