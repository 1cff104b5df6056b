"""Settings declare their choices and bounds once, where they are written; this is who reads them.

    per_class: PositiveInt | None = None  # t in the paper
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    decay_on: Literal["all", "first-layer"] = "all"

`Settings` checks a dataclass of them when it is made, `parse_settings` reads them as people type them
(`per_class=60`), and `described_settings` lists them, each with the comment that stands beside it.
"""

from __future__ import annotations

import ast
import inspect
import io
import math
import numbers
import sys
import textwrap
import tokenize
import types
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from mtgcn.errors import LONGEST_SHOWN, InputError, shown, unknown_name

# ------------------------------------------------------------------------------------------------------------- bounds
# In the vocabulary of annotated-types. A comparison with NaN is false, so what must hold is asked, never what must not.


@dataclass(frozen=True)
class Bound:
    """Where numbers end; `remedy` is said to who is beyond, in place of the plain words."""

    limit: float
    remedy: str = ""

    def holds(self, value: Any) -> bool:
        raise NotImplementedError

    @property
    def words(self) -> str:
        raise NotImplementedError


class Ge(Bound):
    def holds(self, value: Any) -> bool:
        return bool(value >= self.limit)

    @property
    def words(self) -> str:
        return f"at least {self.limit}"


class Gt(Bound):
    def holds(self, value: Any) -> bool:
        return bool(value > self.limit)

    @property
    def words(self) -> str:
        return f"a number above {self.limit}"


class Le(Bound):
    def holds(self, value: Any) -> bool:
        return bool(value <= self.limit)

    @property
    def words(self) -> str:
        return f"at most {self.limit}"


class Lt(Bound):
    def holds(self, value: Any) -> bool:
        return bool(value < self.limit)

    @property
    def words(self) -> str:
        return f"a number below {self.limit}"


RATE = "a rate from 0 to below 1"

MOST = 1_000_000  # of anything that is counted; what takes more time or memory has a limit of its own
PositiveInt = Annotated[int, Ge(1), Le(MOST)]
NonNegativeInt = Annotated[int, Ge(0), Le(MOST)]
# No method gains anything beyond these, and 32 bits hold their squares and sums.
LARGEST = 1_000_000_000
PositiveFloat = Annotated[float, Gt(0), Le(LARGEST)]
NonNegativeFloat = Annotated[float, Ge(0), Le(LARGEST)]
LearningRate = Annotated[float, Ge(0), Le(100)]  # steps longer than that leave every optimum behind
Rate = Annotated[float, Ge(0, RATE), Lt(1, RATE)]


# ------------------------------------------------------------------------------------------------------------ reading

_IN_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", types.NoneType: "none"}


@dataclass(frozen=True)
class _Kind:
    """One of the types that a setting may have."""

    type: Any  # int, float, bool, str, NoneType, a Literal; anything else is taken as it comes
    bounds: tuple[Bound, ...] = ()

    @property
    def choices(self) -> tuple[Any, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    def fits(self, value: Any) -> bool:
        """Whether the value is of this type; numpy's numbers are numbers, truths are not."""
        if self.choices:
            return any(isinstance(value, type(choice)) and value == choice for choice in self.choices)
        if self.type is bool:
            return type(value).__name__ in ("bool", "bool_")  # numpy's too, without importing it
        if self.type in (int, float):
            kind = numbers.Integral if self.type is int else numbers.Real
            return isinstance(value, kind) and not isinstance(value, bool)
        return isinstance(value, self.type) if self.type in (str, types.NoneType) else True

    def read(self, text: str) -> Any:
        """The value that a person means by this text."""
        if self.type is types.NoneType:
            return _looked_up({"none": None}, text.lower())
        if self.type is bool:
            return _looked_up(_TRUTH, text.lower())
        if self.choices:
            return _looked_up({str(choice): choice for choice in self.choices}, text)
        if self.type in (int, float, str):
            return self.type(text)
        raise ValueError(f"no text can be read as {self.type}")

    @property
    def title(self) -> str:
        """The type as a programmer writes it."""
        return " | ".join(map(repr, self.choices)) or getattr(self.type, "__name__", str(self.type))

    @property
    def words(self) -> str:
        """The type, its choices and its bounds in words."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        kind = _IN_WORDS.get(self.type, self.title)
        return ", ".join([kind, *(bound.words.removeprefix("a number ") for bound in self.bounds)])


@dataclass(frozen=True)
class _Setting:
    name: str
    kinds: tuple[_Kind, ...]
    default: Any  # MISSING where there is none

    def check(self, value: Any) -> None:
        kind = next((kind for kind in self.kinds if kind.fits(value)), None)
        if kind is None:
            told = shown(value) if isinstance(value, str) else repr(value)[:LONGEST_SHOWN]
            raise InputError(f"{self.name} is {told}; {self._of_right_type}")
        for bound in kind.bounds:
            if not bound.holds(value):
                raise InputError(f"{self.name} is {value}; give {bound.remedy or bound.words}")
        if kind.type is float and not -math.inf < value < math.inf:
            raise InputError(f"{self.name} is {value}; give a finite number")

    @property
    def _of_right_type(self) -> str:
        none = " or none" if any(kind.type is types.NoneType for kind in self.kinds) else ""
        choices = [str(choice) for kind in self.kinds for choice in kind.choices]
        if choices:
            return f"choose from {', '.join(choices)}{none}"
        named = [_IN_WORDS[kind.type] for kind in self.kinds if kind.type is not types.NoneType]
        return "give " + " or ".join(name if name == "true or false" else f"a {name}" for name in named) + none

    @property
    def words(self) -> str:
        """All that it may be."""
        alternatives = [kind.words for kind in sorted(self.kinds, key=lambda kind: kind.type is types.NoneType)]
        return (", or " if any("," in one for one in alternatives) else " or ").join(alternatives)

    def read(self, text: str) -> Any:
        for kind in self.kinds:
            try:
                return kind.read(text)
            except ValueError:
                continue
        title = " | ".join(kind.title for kind in self.kinds).replace("NoneType", "none")
        raise InputError(f"setting {self.name}={shown(text)} is not of type {title}; give one that is")


@cache
def _settings_of(settings_class: type) -> dict[str, _Setting]:
    declared = {
        name: _resolved(annotation, owner)
        for owner in reversed(settings_class.__mro__)
        for name, annotation in inspect.get_annotations(owner).items()
    }
    settings = {}
    for field in (field for field in fields(settings_class) if field.init):
        kinds = _kinds(declared.get(field.name, Any))
        # Every text can be read as a str, so that comes last.
        ordered = sorted(kinds, key=lambda kind: kind.type is str)
        settings[field.name] = _Setting(field.name, tuple(ordered), field.default)
    return settings


def _resolved(annotation: Any, owner: type) -> Any:
    """What an annotation of this class stands for; `Any` where only a type checker could tell."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, vars(sys.modules[owner.__module__]), include_extras=True)["it"]
    except (NameError, AttributeError, TypeError, KeyError):
        return Any


def _kinds(declared: Any, bounds: tuple[Bound, ...] = ()) -> Iterable[_Kind]:
    if get_origin(declared) is Annotated:
        inner, *notes = get_args(declared)
        yield from _kinds(inner, (*bounds, *(note for note in notes if isinstance(note, Bound))))
    elif get_origin(declared) in (Union, types.UnionType):
        for alternative in get_args(declared):
            yield from _kinds(alternative, bounds)
    else:
        yield _Kind(declared, bounds if declared in (int, float) else ())


# ----------------------------------------------------------------------------------------------------------- checking


class Settings:
    """A dataclass that inherits from this refuses values that its annotations do not allow."""

    def __post_init__(self) -> None:
        check_settings(self)


def check_settings(settings: Any) -> None:
    """Refuse a dataclass with a value that is of another type than its field declares, no choice, out of bounds, or
    not finite."""
    settings_class: type = type(settings)
    for name, setting in _settings_of(settings_class).items():
        setting.check(getattr(settings, name))


# ------------------------------------------------------------------------------------------------------------- typing

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_settings(settings_class: type, assignments: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as values of the types that the dataclass declares for its fields."""
    settable = _settings_of(settings_class)
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(f"setting {shown(assignment)} has no '='; write key=value")
        key = key.replace("-", "_")
        if key not in settable:
            raise unknown_name("setting", key, settable)
        if key in values:
            raise InputError(f"setting {key!r} is given twice; give it once")
        values[key] = settable[key].read(text)
    return values


def _looked_up(choices: dict[str, Any], text: str) -> Any:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


# --------------------------------------------------------------------------------------------------------- describing


@dataclass(frozen=True)
class SettingDescription:
    """A setting as help and documentation show it."""

    name: str
    limits: str  # its type, choices and bounds in words
    default: str  # as one would type it; empty where there is none
    meaning: str  # the comment beside its declaration; empty where there is none


def described_settings(settings_class: type) -> list[SettingDescription]:
    """Every setting of a dataclass, in the order of its fields."""
    meanings = _comments(settings_class)
    return [
        SettingDescription(
            name=name,
            limits=setting.words,
            default=_typed(setting.default),
            meaning=meanings.get(name, ""),
        )
        for name, setting in _settings_of(settings_class).items()
    ]


def _typed(default: Any) -> str:
    if default is MISSING:
        return ""
    return str(default).lower() if default is None or isinstance(default, bool) else str(default)


def _comments(settings_class: type) -> dict[str, str]:
    """The comment on the line of each field or, where there is none, on the lines right above it."""
    found: dict[str, str] = {}
    for owner in reversed(settings_class.__mro__):
        try:
            source = textwrap.dedent(inspect.getsource(owner)) if inspect.get_annotations(owner) else ""
        except (OSError, TypeError):  # made without a source file
            continue
        found |= _comments_in(source)
    return found


def _comments_in(source: str) -> dict[str, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    texts = {line: token.string.lstrip("# ") for line, token in comments.items()}
    alone = {line for line, token in comments.items() if token.line.lstrip().startswith("#")}
    found = {}
    for owner in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        for declared in (node for node in owner.body if isinstance(node, ast.AnnAssign)):
            first, last = declared.lineno, declared.end_lineno or declared.lineno
            while first - 1 in alone:
                first -= 1
            above = " ".join(texts[line] for line in range(first, declared.lineno))
            found[ast.unparse(declared.target)] = texts.get(last, above)
    return found
