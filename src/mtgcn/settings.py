"""Settings of methods: dataclass fields whose annotations declare types, choices and bounds.

    per_class: PositiveInt | None = None  # t in the paper
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    decay_on: Literal["all", "first-layer"] = "all"

`Settings` validates a dataclass on creation, `parse_settings` reads `key=value` texts (`per_class=60`), and
`described_settings` lists the settings with the comments beside them.
"""

from __future__ import annotations

import ast
import inspect
import io
import math
import numbers
import operator
import sys
import textwrap
import tokenize
import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from mtgcn.errors import LONGEST_SHOWN, InputError, shown, unknown_name

# ------------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True)
class Bound:
    """A limit, as in annotated-types; `remedy` replaces the words of the error message."""

    limit: float
    remedy: str = ""
    compare: ClassVar[Callable[[Any, Any], bool]]
    prefix: ClassVar[str]

    def holds(self, value: Any) -> bool:
        return bool(type(self).compare(value, self.limit))  # false for NaN

    @property
    def words(self) -> str:
        return f"{self.prefix} {self.limit}"


class Ge(Bound):
    compare, prefix = operator.ge, "at least"


class Gt(Bound):
    compare, prefix = operator.gt, "a number above"


class Le(Bound):
    compare, prefix = operator.le, "at most"


class Lt(Bound):
    compare, prefix = operator.lt, "a number below"


RATE = "a rate from 0 to below 1"

MOST = 1_000_000  # largest count
PositiveInt = Annotated[int, Ge(1), Le(MOST)]
NonNegativeInt = Annotated[int, Ge(0), Le(MOST)]
LARGEST = 1_000_000_000  # its square fits into 32-bit floats
PositiveFloat = Annotated[float, Gt(0), Le(LARGEST)]
NonNegativeFloat = Annotated[float, Ge(0), Le(LARGEST)]
LearningRate = Annotated[float, Ge(0), Le(100)]
Rate = Annotated[float, Ge(0, RATE), Lt(1, RATE)]


# ------------------------------------------------------------------------------------------------------------ reading

Numbers = tuple[float, ...]  # typed as "1,2,3"
_WORDS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    types.NoneType: "none",
}
_WORDS[Numbers] = "list of numbers"


@dataclass(frozen=True)
class _Kind:
    """One of the types of a setting."""

    type: Any  # int, float, bool, str, NoneType, Numbers, a Literal; other types are not checked
    bounds: tuple[Bound, ...] = ()

    @property
    def choices(self) -> tuple[Any, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    def fits(self, value: Any) -> bool:
        """Whether the value is of this type. NumPy's numbers are numbers, booleans are not."""
        if self.choices:
            return any(isinstance(value, type(choice)) and value == choice for choice in self.choices)
        if self.type is bool:
            return type(value).__name__ in ("bool", "bool_")  # numpy's too, without importing it
        if self.type == Numbers:
            return isinstance(value, tuple) and len(value) > 0 and all(_is_finite(number) for number in value)
        if self.type in (int, float):
            kind = numbers.Integral if self.type is int else numbers.Real
            return isinstance(value, kind) and not isinstance(value, bool)
        return isinstance(value, self.type) if self.type in (str, types.NoneType) else True

    def read(self, text: str) -> Any:
        """The value of this text."""
        if self.type is types.NoneType:
            return _looked_up({"none": None}, text.lower())
        if self.type is bool:
            return _looked_up(_TRUTH, text.lower())
        if self.choices:
            return _looked_up({str(choice): choice for choice in self.choices}, text)
        if self.type == Numbers:
            return tuple(float(part) for part in text.strip("()[]").split(",") if part.strip())
        if self.type in (int, float, str):
            return self.type(text)
        raise ValueError(f"no text can be read as {self.type}")

    @property
    def title(self) -> str:
        """The type in code."""
        return " | ".join(map(repr, self.choices)) or str(getattr(self.type, "__name__", self.type))

    @property
    def words(self) -> str:
        """The type, its choices and its bounds for the help."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        kind = _WORDS.get(self.type, self.title)
        return ", ".join([kind, *(bound.words.removeprefix("a number ") for bound in self.bounds)])


@dataclass(frozen=True)
class _Setting:
    name: str
    kinds: tuple[_Kind, ...]
    default: Any  # MISSING where there is none

    def check(self, value: Any) -> None:
        kind = next((kind for kind in self.kinds if kind.fits(value)), None)
        if kind is None:
            given = shown(value) if isinstance(value, str) else repr(value)[:LONGEST_SHOWN]
            raise InputError(f"{self.name} is {given}; {self._remedy}")
        for bound in kind.bounds:
            if not bound.holds(value):
                raise InputError(f"{self.name} is {value}; give {bound.remedy or bound.words}")
        if kind.type is float and not -math.inf < value < math.inf:
            raise InputError(f"{self.name} is {value}; give a finite number")

    @property
    def _remedy(self) -> str:
        none = " or none" if any(kind.type is types.NoneType for kind in self.kinds) else ""
        choices = [str(choice) for kind in self.kinds for choice in kind.choices]
        if choices:
            return f"choose from {', '.join(choices)}{none}"
        named = [_WORDS[kind.type] for kind in self.kinds if kind.type is not types.NoneType]
        return "give " + " or ".join(name if name == "true or false" else f"a {name}" for name in named) + none

    @property
    def words(self) -> str:
        """All permitted values for the help."""
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
        # Every text is a str, so that comes last.
        ordered = sorted(kinds, key=lambda kind: kind.type is str)
        settings[field.name] = _Setting(field.name, tuple(ordered), field.default)
    return settings


def _resolved(annotation: Any, owner: type) -> Any:
    """The type of an annotation; `Any` where only a type checker can resolve it."""
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
    """Base of dataclasses that refuse values which their annotations do not allow."""

    def __post_init__(self) -> None:
        check_settings(self)


def check_settings(settings: Any) -> None:
    """Refuse values of the wrong type, out of bounds, not among the choices, or not finite."""
    settings_class: type = type(settings)
    for name, setting in _settings_of(settings_class).items():
        value = getattr(settings, name)
        if isinstance(value, list) and any(kind.type == Numbers for kind in setting.kinds):
            value = tuple(value)  # as JSON has them
            object.__setattr__(settings, name, value)
        setting.check(value)


def _is_finite(number: Any) -> bool:
    return type(number) is not bool and isinstance(number, numbers.Real) and math.isfinite(number)


# ------------------------------------------------------------------------------------------------------------- typing

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_settings(settings_class: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Values of `key=value` texts, in the types of the dataclass's fields."""
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
    """A setting in the help and the documentation."""

    name: str
    limits: str  # type, choices and bounds
    default: str  # as typed; empty where there is none
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
    if isinstance(default, tuple):
        return ",".join(map(str, default))
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
