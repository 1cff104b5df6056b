"""The one kind of error that is a person's to mend."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What was given cannot be used. The message names the value, the limit and the remedy, in one line."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name nobody registered, with the nearest one that somebody did."""
    known = list(known)
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(known)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")
