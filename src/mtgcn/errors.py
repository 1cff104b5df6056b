"""The one kind of error that is a person's to mend."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What was given cannot be used. The message names the value, the limit and the remedy, in one line."""


LONGEST_NAME_SHOWN = 60
MOST_NAMES_SHOWN = 30


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name nobody registered, with the nearest one that somebody did. What is no text is no name."""
    known = list(known)
    short = repr(name)
    if isinstance(name, str) and len(name) > LONGEST_NAME_SHOWN:
        name = name[: LONGEST_NAME_SHOWN - 1] + "…"
    shown = repr(name) if isinstance(name, str) else f"{short[:LONGEST_NAME_SHOWN]} of type {type(name).__name__}"
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4) if isinstance(name, str) else ()
    some = ", ".join(known[:MOST_NAMES_SHOWN]) + (", …" if len(known) > MOST_NAMES_SHOWN else "")
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {some}"
    return InputError(f"unknown {kind} {shown}; {hint}")
