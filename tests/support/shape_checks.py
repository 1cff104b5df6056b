"""Checks the shapes in the package's signatures whenever a test calls a function or makes a dataclass of it.

Annotations of the package are strings, and many of their names are imported for type checkers only. Only annotations
with a shape are evaluated, and a name that does not exist at run time matches anything; mypy checks the rest. Nested
functions are not checked.
"""

import builtins
import collections.abc
import dataclasses
import inspect
import os
import re
import sys
from collections.abc import Mapping
from functools import cached_property, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any

from beartype.door import is_bearable
from jaxtyping import jaxtyped

PACKAGE = "mtgcn"
SWITCH = "MTGCN_CHECK_SHAPES"


class ShapeError(AssertionError):
    """A value of another shape, or of another kind of numbers, than in its annotation."""


def install():
    """From here on, every module of the package that is imported is checked, unless MTGCN_CHECK_SHAPES is 0."""
    if os.environ.get(SWITCH) == "0":
        return
    os.environ[SWITCH] = "1"
    import mtgcn.shapes  # noqa: F401

    del os.environ[SWITCH]  # programs that tests start are not checked
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(PACKAGE + "."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        check_module(module)


def check_module(module):
    """Wrap the functions of a module and those of its classes with checks."""
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue  # imported from elsewhere
        if inspect.isfunction(value):
            setattr(module, name, checked(value))
        elif inspect.isclass(value):
            check_class(value)


def check_class(owner):
    for name, value in list(vars(owner).items()):
        if name == "__init__" and dataclasses.is_dataclass(owner):
            setattr(owner, name, with_checked_fields(owner))
        elif inspect.isfunction(value):
            setattr(owner, name, checked(value))
        elif isinstance(value, staticmethod | classmethod):
            setattr(owner, name, type(value)(checked(value.__func__)))
        elif isinstance(value, property) and value.fget is not None:
            setattr(owner, name, property(checked(value.fget), value.fset, value.fdel, value.__doc__))
        elif isinstance(value, cached_property):
            value.func = checked(value.func)


def checked(function):
    """The function with checks of its arguments and result; the function itself if its annotations have no shape."""
    shapes = shapes_in(inspect.get_annotations(function), function.__module__)
    if not shapes:
        return function
    parameters = list(inspect.signature(function).parameters)
    where = f"{function.__module__}.{function.__qualname__}"
    answers = "return" in shapes
    require_arguments = Requirement(where, {name: shape for name, shape in shapes.items() if name != "return"})
    require_all = Requirement(where, shapes)

    @wraps(function)
    def checking(*args, **kwargs):
        __tracebackhide__ = True
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        require_arguments(given)
        result = function(*args, **kwargs)
        if answers:
            require_all({**given, "return": result})
        return result

    return checking


def with_checked_fields(owner):
    """The `__init__` of a dataclass, followed by a check of its fields."""
    initialise = owner.__init__
    shapes = {}
    for base in reversed(owner.__mro__):
        shapes |= shapes_in(inspect.get_annotations(base), base.__module__)
    require_fields = Requirement(f"{owner.__module__}.{owner.__qualname__}", shapes)

    @wraps(initialise)
    def checking(self, *args, **kwargs):
        __tracebackhide__ = True
        initialise(self, *args, **kwargs)
        require_fields({name: getattr(self, name) for name in shapes})

    return checking if shapes else initialise


class Requirement:
    """Values of certain names have certain shapes, in which an axis has one length."""

    def __init__(self, where, shapes):
        self.where, self.shapes = where, shapes
        self._met = set()  # combinations that passed before, since epochs repeat them

    def __call__(self, values):
        __tracebackhide__ = True
        found = tuple((name, outline(values[name])) for name in self.shapes if name in values)
        if found in self._met:
            return
        with jaxtyped("context"):
            for name, _ in found:
                if not is_bearable(values[name], self.shapes[name]):
                    others = "; ".join(f"{other} is {described(form)}" for other, form in found if other != name)
                    raise ShapeError(
                        f"{self.where}: {name} is {described(dict(found)[name])}, not {_plain(self.shapes[name])}"
                        + (others and f"; {others}")
                    )
        self._met.add(found)


def outline(value):
    """What a shape depends on: the type of a value, and that of its elements or its dtype and shape."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return type(value), value.dtype, tuple(value.shape)
    if isinstance(value, list | tuple | Mapping):
        return type(value), tuple(map(outline, value.values() if isinstance(value, Mapping) else value))
    return type(value)


def described(form):
    if isinstance(form, type):
        return form.__name__
    kind, *rest = form
    if len(rest) == 2:
        return f"{kind.__name__} {rest[0]} {rest[1]}"
    return f"{kind.__name__} ({', '.join(map(described, rest[0]))})"


def shapes_in(annotations, module):
    """Those annotations that mention a shape, as types."""
    import mtgcn.shapes

    known = vars(sys.modules[module])
    imported = [name for name in mtgcn.shapes.__all__ if name in known]
    mention = re.compile(rf"\b({'|'.join(imported)})\[")
    return {
        name: eval(text, {}, _Names(known))  # noqa: S307  # our own source
        for name, text in annotations.items()
        if imported and isinstance(text, str) and mention.search(text)
    }


class _Names(dict[str, Any]):
    def __missing__(self, name):
        if name.startswith("__"):
            raise KeyError(name)  # pytest looks for __tracebackhide__ in every frame
        return getattr(builtins, name, None) or getattr(collections.abc, name, Any)


def _plain(shape):
    text = shape.__name__ if isinstance(shape, type) else str(shape)
    return re.sub(r"\b(jaxtyping|typing|collections\.abc)\.", "", text)
