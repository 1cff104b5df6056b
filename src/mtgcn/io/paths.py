"""Paths that can be read, and what other libraries say as error messages show it."""

from __future__ import annotations

import os
from pathlib import Path

from mtgcn.errors import LONGEST_SHOWN, InputError
from mtgcn.errors import shown as shown  # of all that readers say it is the most used

PathLike = str | os.PathLike[str]


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


def reason(problem: Exception) -> str:
    """What another library says is wrong, short and on one line."""
    said = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    said = " ".join(said.split()) or type(problem).__name__
    return said if len(said) <= 3 * LONGEST_SHOWN else said[: 3 * LONGEST_SHOWN - 1] + "…"
