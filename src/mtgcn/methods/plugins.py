"""Methods that somebody else wrote: a frozen dataclass of settings with `fit(task)` is enough."""

from __future__ import annotations

from abc import ABCMeta
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from mtgcn.errors import InputError
from mtgcn.methods.base import Method

ENTRY_POINTS = "mtgcn.methods"  # the group under which an installed package offers methods to the command line


def as_method_class(own: type) -> type[Method]:
    """The class itself where it is a `Method`; else a subclass that adds what every `Method` can be asked."""
    title = getattr(own, "__name__", repr(own))
    if not isinstance(own, type) or not callable(getattr(own, "fit", None)):
        raise InputError(f"{title} is no class with a method fit(task); give a frozen dataclass that has one")
    if not is_dataclass(own) or not own.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise InputError(f"{title} is no frozen dataclass, so its settings could change; write @dataclass(frozen=True)")
    return own if issubclass(own, Method) else _adopted(own)


@cache
def _adopted(own: type) -> type[Method]:
    body = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__reduce__": _reduce}
    return cast("type[Method]", ABCMeta(own.__name__, (own, Method), body))


def as_method(own: Any) -> Method:
    """The same settings as a `Method`."""
    return own if isinstance(own, Method) else _rebuild(type(own), _settings(own))


def installed_method(name: str) -> type[Method] | None:
    """The method of that name that an installed package offers, if one does."""
    for offer in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return as_method_class(offer.load())
        except (ImportError, AttributeError) as error:
            raise InputError(f"method {name!r} is offered by {offer.value}, which does not load: {error}") from error
    return None


def _settings(own: Any) -> dict[str, Any]:
    return {field.name: getattr(own, field.name) for field in fields(own) if field.init}


def _rebuild(own: type, settings: dict[str, Any]) -> Method:
    return as_method_class(own)(**settings)


def _reduce(self: Any) -> tuple[Any, ...]:
    # The class was made here, so pickle would look for it in vain: what is stored is the class it was made from.
    return _rebuild, (type(self).__bases__[0], _settings(self))
