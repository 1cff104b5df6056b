"""Which texts may be the name of a node, a class or a column."""

from __future__ import annotations

from collections.abc import Iterable

from mtgcn.errors import InputError
from mtgcn.io.paths import shown

LONGEST_NAME = 1000  # characters; an array of names is as wide as the longest of them
LONGEST_TEXT = 1_000_000  # of a value of a category, which is part of the name of a feature


def check_names(names: Iterable[str], what: str, where: str = "", longest: int = LONGEST_NAME) -> None:
    """Refuse names that are too long to keep, or that could not be written to a file again; `what` they name."""
    place = f"{where}: " if where else ""
    for name in names:
        if len(name) > longest:
            raise InputError(f"{place}{what} {shown(name)} has {len(name)} characters; give names of at most {longest}")
        if not is_writable(name):
            raise InputError(f"{place}{what} {shown(name)} holds half of a surrogate pair, which is no text; rename it")


def is_writable(text: str) -> bool:
    """Whether a text can be written in UTF-8: halves of surrogate pairs, which escapes in JSON and GML may name,
    cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
