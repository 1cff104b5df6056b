"""The one place that turns templates into pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mtgcn.report import numbers
from mtgcn.report.colours import class_variables, colour_variables


def rendered(template: str, **content: Any) -> str:
    """A page. Whatever stands in its content is escaped, and a name that the template misses is an error."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mtgcn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"colour_variables": colour_variables, "class_variables": class_variables}
    environment.filters |= {
        "number": _typeset(numbers.number),
        "percent": _typeset(numbers.percent),
        "interval": _typeset(numbers.interval),
        "p_value": numbers.p_value,
        "seconds": numbers.seconds,
    }
    return environment


def _typeset(form: Callable[..., str]) -> Callable[..., str]:
    return lambda *arguments: numbers.with_minus_sign(form(*arguments))
