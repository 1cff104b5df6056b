"""Self-contained HTML pages: Jinja2 templates, and tables as HTML."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mtgcn.report.styles import class_variables, colour_variables
from mtgcn.report.tables import Table, counted, p_value, percent, with_minus_sign


def render(template: str, **content: Any) -> str:
    """A page. All content is escaped; a missing name is an error."""
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
    environment.filters |= {"percent": percent, "p_value": p_value, "counted": counted, "table": html}
    return environment


def html(table: Table) -> Markup:
    """An HTML table; all text is escaped."""
    first, *columns = map(escape, table.columns)
    span = len(columns) // len(table.groups) if table.groups else 1
    starts = [' class="cell-start"' if place % span == 0 else "" for place in range(len(columns))]
    headings = "".join(f"<th{start}>{column}</th>" for start, column in zip(starts, columns, strict=True))
    if table.groups:
        over = "".join(f'<th colspan="{span}" class="cell-start">{escape(group)}</th>' for group in table.groups)
        headings = f'<tr><th rowspan="2">{first}</th>{over}</tr>\n<tr>{headings}</tr>'
    else:
        headings = f"<tr><th>{first}</th>{headings}</tr>"
    rows = []
    for row in table.rows:
        cells = []
        for place, entry in enumerate(row.entries):
            classes = ["cell-start"] if place % span == 0 else []
            classes += [name for name in (entry.style, "best" if entry.bold else "") if name]
            below = with_minus_sign(" to ".join(entry.ends) if entry.ends else entry.note)
            style = f' class="{" ".join(classes)}"' if classes else ""
            cells.append(f"<td{style}>{escape(with_minus_sign(entry.text))}{_below(below)}</td>")
        style = f' class="{row.style}"' if row.style else ""
        name = f'<th scope="row">{escape(row.name)}{_below(row.note)}</th>'
        rows.append(f"<tr{style}>{name}{''.join(cells)}</tr>\n")
    body = f"<thead>\n{headings}\n</thead>\n<tbody>\n{''.join(rows)}</tbody>"
    caption = f'<p class="soft">{escape(table.caption)}</p>' if table.caption else ""
    return Markup(f'<div class="scroll" tabindex="0">\n<table>\n{body}\n</table>\n</div>\n{caption}')


def _below(text: str) -> str:
    return f'<span class="range">{escape(text)}</span>' if text else ""
