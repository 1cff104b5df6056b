"""Self-contained HTML pages: templates, colours for light and dark mode, and the style of each method."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mtgcn.report.charts import CLASS_SHAPES, DARK, LIGHT, class_colours, class_shape, svg
from mtgcn.report.tables import Table, counted, p_value, percent, with_minus_sign


def colour_variables() -> Markup:
    """The palette as CSS variables for light and dark mode."""
    return Markup(":root{color-scheme:light dark}\n") + _variables(LIGHT, DARK)


def class_variables(classes: int) -> Markup:
    """The class colours as the CSS variables k0, k1, …, for light and dark mode, and their shapes as s0, s1, …"""
    light, dark = ({f"k{number}": one for number, one in enumerate(colours)} for colours in class_colours(classes))
    return _variables(light | {f"s{number}": CLASS_SHAPES[class_shape(number)] for number in range(classes)}, dark)


def _variables(light: dict[str, str], dark: dict[str, str]) -> Markup:
    day, night = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (light, dark))
    return Markup(f":root{{{day}}}\n@media (prefers-color-scheme: dark){{:root{{{night}}}}}")


def render(template: str, **content: Any) -> str:
    """Render a template. All content is escaped; a missing variable is an error."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("mtgcn.report"), undefined=StrictUndefined, **options)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.globals |= {"colour_variables": colour_variables, "class_variables": class_variables}
    environment.filters |= {"percent": percent, "p_value": p_value, "counted": counted, "minus": with_minus_sign}
    environment.filters["svg"] = svg
    environment.filters["per_cent"] = lambda share: f"{100 * share:.0f}\u00a0%"
    return environment


def html(table: Table) -> str:
    """An HTML table; all text is escaped."""
    return str(_environment().get_template("macros.html").module.table(table))  # type: ignore[attr-defined]
