"""Words that stand where a value is missing."""

from __future__ import annotations

# "none" and "-" are among them: where one of these is a value of its own, it has to be called something else.
MISSING_WORDS = frozenset(
    {
        *("", "?", "-", "--", "–", "—", ".", "...", "…"),
        *("na", "n/a", "n.a.", "n. a.", "<na>", "#n/a", "#na", "#nv", "nan", "nat", "null", "none", "nil", "missing"),
        *("k.a.", "k. a.", "k/a", "#null!", "#value!", "#wert!", "#div/0!"),
        *("0000-00-00", "0000-00-00 00:00:00", "00.00.0000"),  # how databases write a date that there is not
    }
)


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value.

    >>> [is_missing(text) for text in ("", " NA ", "?", "0", "Nancy")]
    [True, True, True, False, False]
    """
    return text.strip().casefold() in MISSING_WORDS
