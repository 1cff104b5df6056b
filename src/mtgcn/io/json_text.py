"""JSON that somebody else may have written: what Python's reader would take in silence, or stumble over, is refused."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100  # lists and objects within each other; what is read here has five or six


def parsed_json(text: str | bytes) -> Any:
    """What the text says. A key given twice, numbers that are none and endless nesting are a ValueError, as is
    anything else that is no JSON.

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
    raise ValueError(f"{constant} is no number")


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
