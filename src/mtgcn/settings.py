"""Settings of methods: dataclass fields whose annotations declare types, choices and bounds.

    per_class: PositiveInt | None = None  # t in the paper
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    decay_on: Literal["all", "first-layer"] = "all"

`Settings` validates a dataclass on creation, `parse_settings` reads `key=value` texts (`per_class=60`), and
`described_settings` lists the settings with the comments on their lines.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from mtgcn.errors import LONGEST_SHOWN, InputError, shown, unknown_name


@dataclass(frozen=True)
class Bound:
    """A limit, as in annotated-types. `remedy` replaces its default description in error messages."""

    holds: Callable[[Any, float], bool]  # false for NaN
    prefix: str
    limit: float
    remedy: str = ""

    @property
    def words(self) -> str:
        return f"{self.prefix} {self.limit}"


Ge, Gt = partial(Bound, operator.ge, "at least"), partial(Bound, operator.gt, "a number above")
Le, Lt = partial(Bound, operator.le, "at most"), partial(Bound, operator.lt, "a number below")

MOST = 1_000_000  # largest count in a setting
PositiveInt = Annotated[int, Ge(1), Le(MOST)]
NonNegativeInt = Annotated[int, Ge(0), Le(MOST)]
LARGEST = 1_000_000_000  # its square fits into 32-bit floats
PositiveFloat = Annotated[float, Gt(0), Le(LARGEST)]
NonNegativeFloat = Annotated[float, Ge(0), Le(LARGEST)]
LearningRate = Annotated[float, Ge(0), Le(100)]
RATE = "a rate from 0 to below 1"
Rate = Annotated[float, Ge(0, RATE), Lt(1, RATE)]
Numbers = tuple[float, ...]  # typed as "1,2,3"
Counts = tuple[Annotated[int, Ge(0)], ...]


@dataclass(frozen=True)
class _Kind:
    """One of the types of a setting."""

    type: Any
    words: str  # description in messages
    fits: Callable[[Any], bool] = lambda value: True
    read: Callable[[str], Any] = dict[str, Any]().__getitem__  # parses a text; raises ValueError or KeyError
    choices: tuple[Any, ...] = ()
    bounds: tuple[Bound, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Whether a value is a finite number of this type within the bounds."""
        return self.fits(value) and math.isfinite(value) and all(one.holds(value, one.limit) for one in self.bounds)


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)  # includes NumPy's numbers


_NONE = type(None)
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_KINDS = [
    _Kind(int, "whole number", lambda value: _is_number(value, numbers.Integral), int),
    _Kind(float, "number", _is_number, float),
    # This includes NumPy's booleans, without importing NumPy.
    _Kind(bool, "true or false", lambda v: type(v).__name__ in ("bool", "bool_"), lambda text: _TRUTH[text.lower()]),
    _Kind(str, "text", lambda value: isinstance(value, str), str),
    _Kind(_NONE, "none", lambda value: value is None, lambda text: {"none": None}[text.lower()]),
]


@cache
def _kinds_of(settings_class: type) -> dict[str, list[_Kind]]:
    """The types of every setting. Annotations that only a type checker can resolve accept any value."""
    declared: dict[str, Any] = {}
    for owner in reversed(settings_class.__mro__):
        for name, annotation in inspect.get_annotations(owner).items():
            holder = types.SimpleNamespace(__annotations__={"it": annotation})
            try:
                resolved = get_type_hints(holder, vars(sys.modules[owner.__module__]), include_extras=True)["it"]
            except (NameError, AttributeError, TypeError, KeyError):
                resolved = Any
            declared[name] = resolved
    settable = [field.name for field in fields(settings_class) if field.init]
    # Text is the last type, since it accepts every text.
    return {name: sorted(_kinds(declared.get(name, Any)), key=lambda kind: kind.type is str) for name in settable}


def _kinds(declared: Any, bounds: tuple[Bound, ...] = ()) -> Iterator[_Kind]:
    if get_origin(declared) is Annotated:
        inner, *notes = get_args(declared)
        yield from _kinds(inner, (*bounds, *(note for note in notes if isinstance(note, Bound))))
    elif get_origin(declared) in (Union, types.UnionType):
        for alternative in get_args(declared):
            yield from _kinds(alternative, bounds)
    elif get_origin(declared) is Literal:
        choices = get_args(declared)
        yield _Kind(
            declared,
            f"one of {', '.join(map(str, choices))}",
            lambda value: any(isinstance(value, type(choice)) and value == choice for choice in choices),
            {str(choice): choice for choice in choices}.__getitem__,
            choices,
        )
    elif get_origin(declared) is tuple:
        [one] = _kinds(get_args(declared)[0])
        yield _Kind(
            declared,
            ", ".join([f"list of {one.words}s", *(bound.words for bound in one.bounds)]),
            lambda value: isinstance(value, tuple) and len(value) > 0 and all(map(one.accepts, value)),
            lambda text: tuple(one.read(part) for part in text.strip("()[]").split(",") if part.strip()),
        )
    else:
        kind = next((kind for kind in _KINDS if kind.type == declared), _Kind(declared, ""))
        words = kind.words or str(getattr(declared, "__name__", declared))
        yield replace(kind, words=words, bounds=bounds if declared in (int, float) else ())


class Settings:
    """Base of dataclasses that check their values: type, bounds, choices, and that numbers are finite."""

    def __post_init__(self) -> None:
        settings_class: type = type(self)
        for name, kinds in _kinds_of(settings_class).items():
            value = getattr(self, name)
            if isinstance(value, list) and any(get_origin(kind.type) is tuple for kind in kinds):
                value = tuple(value)  # lists come from JSON
                object.__setattr__(self, name, value)
            kind = next((kind for kind in kinds if kind.fits(value)), None)
            if kind is None:
                given = shown(value) if isinstance(value, str) else repr(value)[:LONGEST_SHOWN]
                raise InputError(f"{name} is {given}; {_remedy(kinds)}")
            for bound in kind.bounds:
                if not bound.holds(value, bound.limit):
                    raise InputError(f"{name} is {value}; give {bound.remedy or bound.words}")
            if kind.type is float and not math.isfinite(value):
                raise InputError(f"{name} is {value}; give a finite number")


def _remedy(kinds: list[_Kind]) -> str:
    none = " or none" if any(kind.type is _NONE for kind in kinds) else ""
    choices = [str(choice) for kind in kinds for choice in kind.choices]
    if choices:
        return f"choose from {', '.join(choices)}{none}"
    named = [kind.words if kind.type is bool else f"a {kind.words}" for kind in kinds if kind.type is not _NONE]
    return f"give {' or '.join(named)}{none}"


def parse_settings(settings_class: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Values of `key=value` texts, in the types of the dataclass's fields."""
    settable = _kinds_of(settings_class)
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(f"setting {shown(assignment)} has no '='; write key=value")
        key = key.replace("-", "_")
        if key not in settable:
            raise unknown_name("setting", key, settable)
        if key in values:
            raise InputError(f"setting {key!r} is given twice; remove one")
        for kind in settable[key]:
            try:
                values[key] = kind.read(text)
                break
            except (ValueError, KeyError):
                continue
        else:
            raise InputError(f"{key} is {shown(text)}; {_remedy(settable[key])}")
    return values


@dataclass(frozen=True)
class SettingDescription:
    """Description of a setting for the help and the documentation."""

    name: str
    limits: str  # type, choices and bounds
    default: str  # as a user types it; empty without a default
    meaning: str  # comment of its declaration; empty without a comment


def described_settings(settings_class: type) -> list[SettingDescription]:
    """Every setting of a dataclass, in the order of its fields."""
    meanings: dict[str, str] = {}
    for owner in reversed(settings_class.__mro__):
        try:
            meanings |= _comments(inspect.getsource(owner)) if inspect.get_annotations(owner) else {}
        except (OSError, TypeError):  # the class has no source file
            continue
    found = []
    for name, kinds in _kinds_of(settings_class).items():
        alternatives = [
            ", ".join([kind.words, *(bound.words.removeprefix("a number ") for bound in kind.bounds)])
            for kind in sorted(kinds, key=lambda kind: kind.type is _NONE)
        ]
        limits = (", or " if any("," in one for one in alternatives) else " or ").join(alternatives)
        default = settings_class.__dataclass_fields__[name].default  # type: ignore[attr-defined]
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        elif default is None or isinstance(default, bool):
            default = str(default).lower()
        default = "" if default is MISSING else str(default)
        found.append(SettingDescription(name, limits, default, meanings.get(name, "")))
    return found


def _comments(source: str) -> dict[str, str]:
    """The comment on the line of each field or, where there is none, on the lines right above it."""
    found, above = {}, ""
    for line in textwrap.dedent(source).splitlines():
        code, _, comment = line.partition("# ")
        if field := re.match(r"    (\w+): ", code):
            found[field[1]] = comment or above
        above = "" if code.strip() else f"{above} {comment}".strip()
    return found
