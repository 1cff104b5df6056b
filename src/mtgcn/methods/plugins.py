"""Methods that somebody else wrote: a frozen dataclass of settings with `fit(task)` is enough."""

from __future__ import annotations

import os
import sys
from abc import ABCMeta
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from mtgcn.errors import InputError, shown, unknown_name
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
    told = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    body = {**told, "__reduce__": _reduce}
    return cast("type[Method]", ABCMeta(own.__name__, (own, Method), body))


def as_method(own: Any) -> Method:
    """The same settings as a `Method`."""
    if isinstance(own, type) or not is_dataclass(own):
        raise InputError(f"method is {shown(own)}; give a name, or an object of a dataclass with a fit")
    return own if isinstance(own, Method) else _rebuild(type(own), _settings(own))


def installed_method(name: str) -> type[Method] | None:
    """The method of that name that an installed package offers, if one does."""
    for offer in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return as_method_class(offer.load())
        except (ImportError, AttributeError) as error:
            raise InputError(f"method {name!r} is offered by {offer.value}, which does not load: {error}") from error
    return None


def imported_method(reference: str) -> type[Method]:
    """The class that `module:Class` names. It runs the module, so only what a person typed may come here, never a name
    out of a file. Modules in the current folder are found whichever way the program was started."""
    module_name, _, class_name = reference.partition(":")
    if not module_name or not class_name.isidentifier():
        raise InputError(f"method {reference!r}; write module:Class, for instance mine:Shares for Shares in mine.py")
    if module_name.endswith(".py"):
        raise InputError(f"method {reference!r} names a file; name the module, {module_name.removesuffix('.py')!r}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there and misses another: its author needs the traceback
        raise InputError(
            f"method {reference!r}: no module {module_name!r} in {here} or on Python's path; "
            "go to its folder, or add that to PYTHONPATH"
        ) from None
    if not hasattr(module, class_name):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise unknown_name(f"class of module {module_name}", class_name, classes)
    return as_method_class(getattr(module, class_name))


def _settings(own: Any) -> dict[str, Any]:
    return {field.name: getattr(own, field.name) for field in fields(own) if field.init}


def _rebuild(own: type, settings: dict[str, Any]) -> Method:
    return as_method_class(own)(**settings)


def _reduce(self: Any) -> tuple[Any, ...]:
    # The class was made here, so pickle would look for it in vain: what is stored is the class it was made from.
    return _rebuild, (type(self).__bases__[0], _settings(self))
