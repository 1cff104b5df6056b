"""A method's settings as a person types them: `per_class=60`, `dropout=0.3`, `peers=3`."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mtgcn.errors import InputError, unknown_name

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_settings(settings_class: type, assignments: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as values of the types that the dataclass declares for its fields."""
    declared = get_type_hints(settings_class)
    settable = [field.name for field in fields(settings_class) if field.init]
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(f"setting {assignment!r} has no '='; write key=value")
        key = key.replace("-", "_")
        if key not in settable:
            raise unknown_name("setting", key, settable)
        if key in values:
            raise InputError(f"setting {key!r} is given twice; give it once")
        values[key] = _parsed(text, declared[key], key)
    return values


def _parsed(text: str, declared: Any, key: str) -> Any:
    for kind in _alternatives(declared):
        try:
            return _read_as(kind, text)
        except ValueError:
            continue
    raise InputError(f"setting {key}={text!r} is not of type {_title(declared)}; give one that is")


def _alternatives(declared: Any) -> tuple[Any, ...]:
    kinds = get_args(declared) if get_origin(declared) in (Union, types.UnionType) else (declared,)
    return tuple(sorted(kinds, key=lambda kind: kind is str))  # every text is a str, so that is tried last


def _read_as(kind: Any, text: str) -> Any:
    if kind is types.NoneType:
        return _looked_up({"none": None}, text.lower())
    if kind is bool:
        return _looked_up(_TRUTH, text.lower())
    if get_origin(kind) is Literal:
        return _looked_up({str(choice): choice for choice in get_args(kind)}, text)
    if kind in (int, float, str):
        return kind(text)
    raise ValueError(f"no text can be read as {kind}")


def _looked_up(choices: dict[str, Any], text: str) -> Any:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _title(declared: Any) -> str:
    return " | ".join(
        " | ".join(map(repr, get_args(kind))) if get_origin(kind) is Literal else getattr(kind, "__name__", str(kind))
        for kind in _alternatives(declared)
    ).replace("NoneType", "none")
