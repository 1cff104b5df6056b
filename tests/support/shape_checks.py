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
from functools import cached_property, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any

from beartype import beartype
from jaxtyping import jaxtyped

PACKAGE = "mtgcn"
SWITCH = "MTGCN_CHECK_SHAPES"


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
    annotations, function.__annotations__ = function.__annotations__, shapes
    checking = jaxtyped(function, typechecker=beartype)
    function.__annotations__ = checking.__annotations__ = annotations
    return checking


def with_checked_fields(owner):
    """The `__init__` of a dataclass, followed by a check of its fields."""
    initialise = owner.__init__
    shapes = {}
    for base in reversed(owner.__mro__):
        shapes |= shapes_in(inspect.get_annotations(base), base.__module__)
    if not shapes:
        return initialise
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=shape) for name, shape in shapes.items()
    ]

    def fields(**values):
        pass

    fields.__signature__ = inspect.Signature(parameters)
    fields.__name__ = fields.__qualname__ = owner.__qualname__
    fields.__module__ = owner.__module__
    check = jaxtyped(fields, typechecker=beartype)

    @wraps(initialise)
    def checking(self, *args, **kwargs):
        initialise(self, *args, **kwargs)
        check(**{name: getattr(self, name) for name in shapes})

    return checking


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
