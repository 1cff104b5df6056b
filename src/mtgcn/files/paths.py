"""Paths that can be read, and values as error messages show them."""

from __future__ import annotations

import os
from pathlib import Path

from mtgcn.errors import InputError

PathLike = str | os.PathLike[str]
LONGEST_SHOWN = 60


def readable_file(given: PathLike) -> Path:
    """The path, if a file with something in it is there."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"a file is named by its path, not by a {type(given).__name__}; pass a string or a Path")
    path = Path(given)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; name the file in it")
        if not path.is_file():
            kind = "is not a regular file" if path.exists() else "does not exist"
            raise InputError(f"{path} {kind}; check the path")
        with path.open("rb") as file:
            if not file.read(1):
                raise InputError(f"{path} is empty; write it again, with at least one row")
    except (OSError, ValueError) as problem:  # a path with a NUL in it is a ValueError
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"{str(path)!r} cannot be read ({reason(problem)}); check the path and who may read it"
        ) from None
    return path


def shown(value: object) -> str:
    """A value as it stands in a message: quoted, on one line, and not too long."""
    text = str(value)
    if len(text) > LONGEST_SHOWN:
        text = text[: LONGEST_SHOWN - 1] + "…"
    return repr(text)


def reason(problem: Exception) -> str:
    """What another library says is wrong, short and on one line."""
    said = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    said = " ".join(said.split()) or type(problem).__name__
    return said if len(said) <= 3 * LONGEST_SHOWN else said[: 3 * LONGEST_SHOWN - 1] + "…"
