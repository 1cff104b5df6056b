"""What was changed in a project, so that it can be taken back: the last changes of all windows, on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_CHANGES = 500  # that can be taken back


@dataclass(frozen=True)
class Change:
    """One step of a person: what it was before and what it was then."""

    title: str  # "labelled 17 as cat"
    window: str = ""  # in which it was made
    labels: Mapping[str, Sequence[str | None]] = field(default_factory=dict)  # node -> label before, label after
    classes: Sequence[Sequence[str]] | None = None  # the classes before and after, where they changed
    skipped: str | None = None  # the node that was skipped
    renamed: tuple[str, str] | None = None  # what a class was called before and after; merged classes are, too


def read_history(content: bytes | None) -> list[Change]:
    """The changes, oldest first. A file that cannot be read costs no label, only the way back."""
    try:
        rows: list[dict[str, Any]] = json.loads(content or b"[]")
        return [Change(**row | {"renamed": row["renamed"] and tuple(row["renamed"])}) for row in rows]
    except (ValueError, TypeError, KeyError):
        return []


def history_text(changes: Sequence[Change]) -> bytes:
    return json.dumps([asdict(change) for change in changes[-MOST_CHANGES:]], ensure_ascii=False).encode(
        "utf-8", "surrogateescape"
    )
