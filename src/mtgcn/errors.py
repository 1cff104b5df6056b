"""The one kind of error that is a person's to mend."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What was given cannot be used. The message names the value, the limit and the remedy, in one line."""


LONGEST_SHOWN = 60
MOST_NAMES_SHOWN = 30


def shown(value: object) -> str:
    """A value as it stands in a message: quoted, on one line, and not too long."""
    text = str(value)
    if len(text) > LONGEST_SHOWN:
        text = text[: LONGEST_SHOWN - 1] + "…"
    return repr(text)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name nobody registered, with the nearest one that somebody did. What is no text is no name."""
    known = list(known)
    told = shown(name) if isinstance(name, str) else f"{repr(name)[:LONGEST_SHOWN]} of type {type(name).__name__}"
    is_text = isinstance(name, str) and len(name) <= LONGEST_SHOWN
    nearest = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.4) if is_text else ()
    some = ", ".join(known[:MOST_NAMES_SHOWN]) + (", …" if len(known) > MOST_NAMES_SHOWN else "")
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {some}"
    return InputError(f"unknown {kind} {told}; {hint}")
