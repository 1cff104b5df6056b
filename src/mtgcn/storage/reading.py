"""Reading untrusted files: plain files only, and strict JSON."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

DEEPEST = 100  # nesting of lists and objects


def read_plain(path: Path, at_most: int | None = None) -> bytes:
    """The content of a plain file, of at most so many bytes; an OSError where there is none, as for any file.

    A pipe would be waited for, a device read without end: neither is opened for longer than it takes to tell.
    """
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        content = file.read(-1 if at_most is None else at_most + 1)
    if at_most is not None and len(content) > at_most:
        raise OSError(errno.EFBIG, f"it has more than {at_most} bytes", str(path))
    return content


def parsed_json(text: str | bytes) -> Any:
    """Parse JSON. Repeated keys, NaN, infinity and deep nesting are a ValueError, like any other invalid JSON.

    >>> parsed_json('{"train": [1], "train": [2]}')
    Traceback (most recent call last):
    ValueError: key 'train' is given twice
    """
    try:
        content = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from None
    if _depth_exceeds(content, DEEPEST):
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in content if names.count(name) > 1)
        raise ValueError(f"key {twice[:60]!r} is given twice")
    return content


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _depth_exceeds(content: Any, limit: int) -> bool:
    layer = [content]
    for _ in range(limit):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return any(isinstance(inner, list | dict) for inner in layer)
