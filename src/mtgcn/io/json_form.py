"""Of which form JSON must be that this program wrote, so that what reads it need not ask again.

    FORM = {"name": Text(), "sizes": [Whole()], "share": Number(0, 1), "note": (Text(), None)}

A dictionary asks for these keys and lets others be; a list, for any number of such; a tuple, for one of several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mtgcn.errors import is_writable, shown

LARGEST = 1e15  # a number beyond is none that this program wrote


@dataclass(frozen=True)
class Whole:
    least: int = 0
    most: int = 2**63 - 1

    def allows(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most


@dataclass(frozen=True)
class Number:
    least: float = -LARGEST
    most: float = LARGEST

    def allows(self, value: Any) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return self.least <= value <= self.most and math.isfinite(value)


@dataclass(frozen=True)
class Text:
    longest: int = 10_000  # characters

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) <= self.longest and is_writable(value)


@dataclass(frozen=True)
class Truth:
    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Something:
    """Whatever it is, it must be there."""

    def allows(self, value: Any) -> bool:
        return True


@dataclass(frozen=True)
class Anything:
    """An object of any keys; where `of` is given, each of its values is of that form."""

    of: Any = None


def check_form(content: Any, form: Any, what: str = "it") -> None:
    """A ValueError that names the first part which is not of its form.

    >>> check_form({"sizes": [1, "2"]}, {"sizes": [Whole()]})
    Traceback (most recent call last):
    ValueError: sizes[1] is '2'
    """
    if isinstance(form, tuple):
        if not any(_is_of(content, one) for one in form):
            raise ValueError(f"{what} is {shown(content)}")
    elif isinstance(form, dict):
        _check_object(content, what)
        for key, inner in form.items():
            if key not in content:
                raise ValueError(f"{key} is missing")
            check_form(content[key], inner, key)
    elif isinstance(form, list):
        if not isinstance(content, list):
            raise ValueError(f"{what} is {shown(content)}")
        for place, inner in enumerate(content):
            check_form(inner, form[0], f"{what}[{place}]")
    elif isinstance(form, Anything):
        _check_object(content, what)
        for key, inner in content.items():
            if form.of is not None:
                check_form(inner, form.of, key[:60])
    elif form is None:
        if content is not None:
            raise ValueError(f"{what} is {shown(content)}")
    elif not form.allows(content):
        raise ValueError(f"{what} is {shown(content)}")


def _is_of(content: Any, form: Any) -> bool:
    try:
        check_form(content, form)
    except ValueError:
        return False
    return True


def _check_object(content: Any, what: str) -> None:
    if not isinstance(content, dict) or not all(Text().allows(key) for key in content):
        raise ValueError(f"{what} is {shown(content)}")
