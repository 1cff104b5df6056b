"""`project.json`: what was loaded, which classes there are and who was skipped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mtgcn.errors import InputError
from mtgcn.studio.folder import checked_name
from mtgcn.studio.source import Source

FORMAT = 1


@dataclass(frozen=True)
class State:
    """All that a project knows beside its labels."""

    load: int = 0  # how often something was loaded; the copies belong to the last time
    source: Source | None = None
    # Where labels.csv goes, which is still that of what was loaded before; "" once it is done.
    unsettled: str = ""
    classes: tuple[str, ...] = ()  # in the order of their keys; those that only labels.csv knows come after
    skipped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # classes before and after, since the model was fitted

    def name_now(self, name: str) -> str:
        """What a class that the model knows by this name is called now."""
        for before, after in self.renamed:
            name = after if name == before else name
        return name


def read_state(content: bytes | None) -> State:
    """What `state_text` wrote; a new project where there is nothing."""
    if content is None:
        return State()
    try:
        told: dict[str, Any] = json.loads(content)
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']!r}, and {FORMAT} is read here")
        return State(
            load=int(told["load"]),
            source=None if told["source"] is None else Source.from_json(told["source"]),
            unsettled=told["unsettled"] and checked_name(told["unsettled"]),
            classes=_texts(told["classes"]),
            skipped=_texts(told["skipped"]),
            renamed=tuple((str(before), str(after)) for before, after in told["renamed"]),
        )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"project.json is no project of the studio ({type(error).__name__}: {error}); mend it, or remove it and "
            "load the graph again: labels.csv stays"
        ) from error


def state_text(state: State) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(state)}, ensure_ascii=False, indent=1).encode(
        "utf-8", "surrogateescape"
    )


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("a list of names is none")
    return tuple(values)
