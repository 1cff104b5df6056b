"""A table, and its writers: terminal, plain text, Markdown, CSV and LaTeX here, HTML in `pages.py`.

Numbers are formatted here, in the same way for all of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mtgcn.errors import printable
from mtgcn.experiments.statistics import SampleSummary

SIGNED = "+.1f"  # format of differences
ONE_RUN = "one run"  # shown instead of an interval
LATEX_PREAMBLE = "% Needs \\usepackage{booktabs}."


def number(value: float, form: str = ".1f") -> str:
    """A number with one digit after the point by default, and no minus sign before a rounded zero.

    >>> number(-0.04, SIGNED)
    '+0.0'
    """
    return format(round(value, 1) + 0.0, form)


def percent(share: float, form: str = ".1f") -> str:
    """
    >>> percent(0.1234)
    '12.3'
    """
    return number(100 * share, form)


def interval(sample: SampleSummary, form: str = ".1f") -> str:
    """The 95 % interval of a mean, in per cent."""
    return " to ".join(_ends(sample, form) or (ONE_RUN,))


def p_value(value: float) -> str:
    """
    >>> p_value(0.0216), p_value(0.0004)
    ('0.022', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "run"), counted(2, "run")
    ('1 run', '2 runs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def with_minus_sign(text: str) -> str:
    """Hyphens replaced by minus signs."""
    return text.replace("-", "−")


def _ends(sample: SampleSummary, form: str) -> tuple[str, str] | None:
    low, high = sample.ci95
    return None if len(sample.per_run) == 1 else (percent(low, form), percent(high, form))


@dataclass(frozen=True)
class Entry:
    """One value of a table."""

    text: str = ""
    ends: tuple[str, str] | None = None  # ends of the 95 % interval, which LaTeX and pages show with the value
    note: str = ""  # shown below the value on pages
    bold: bool = False
    style: str = ""  # CSS class on pages
    bar: tuple[float, str] | None = None  # bar below the text on pages: length from 0 to 1, and colour

    @property
    def below(self) -> str:
        """The interval or the note."""
        return " to ".join(self.ends) if self.ends else self.note

    @classmethod
    def mean(cls, sample: SampleSummary, form: str = ".1f", *, bold: bool = False) -> Entry:
        """A mean in per cent with its interval."""
        ends = _ends(sample, form)
        return cls(percent(sample.mean, form), ends, "" if ends else ONE_RUN, bold)


@dataclass(frozen=True)
class Row:
    name: str
    entries: Sequence[Entry]
    note: str = ""
    style: str = ""


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]  # headings, first the heading of the row names
    rows: Sequence[Row]
    title: str = ""
    caption: str = ""
    groups: Sequence[str] = ()  # headings above the columns, each over equally many
    chart: object = None  # shown above the table on pages
    prose: bool = False  # text instead of numbers: left-aligned and wrapped
    wide: Sequence[str] = ()  # columns whose intervals have separate columns in terminal and Markdown

    @classmethod
    def of_text(cls, columns: Sequence[str], rows: Iterable[Sequence[str]], **options: Any) -> Table:
        return cls(columns, [Row(name, [Entry(text) for text in texts]) for name, *texts in rows], **options)

    @property
    def spread(self) -> Table:
        """The table with separate columns for the intervals of the wide columns."""

        def spread(parts: Sequence[Any], interval: Callable[[Any], Any]) -> list[Any]:
            return [
                one
                for heading, part in zip(self.columns[1:], parts, strict=True)
                for one in ([part, interval(part)] if heading in self.wide else [part])
            ]

        columns = [self.columns[0], *spread(self.columns[1:], lambda _: "95 % interval")]
        rows = [replace(row, entries=spread(row.entries, lambda entry: Entry(entry.below))) for row in self.rows]
        return replace(self, columns=columns, rows=rows, wide=())

    @property
    def texts(self) -> list[list[str]]:
        """The cells for a terminal."""
        return [[printable(text) for text in (row.name, *(entry.text for entry in row.entries))] for row in self.rows]

    @property
    def title_and_caption(self) -> tuple[str, ...]:
        """Title and caption for a terminal, if any."""
        return tuple("\n".join(map(printable, text.split("\n"))) for text in (self.title, self.caption))


def print_table(table: Table) -> None:
    """Print a table: with lines in a terminal, plain if standard output is piped."""
    console, table = Console(), table.spread
    if not console.is_terminal:
        print(plain_text(table))
        return
    title, caption = (Text(text) if text else None for text in table.title_and_caption)
    shown = RichTable(
        title=title,
        caption=caption,
        show_header=any(table.columns),
        show_lines=table.prose,
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for place, heading in enumerate(table.columns):
        if place == 0 or table.prose:
            shown.add_column(heading, overflow="fold")
        else:
            shown.add_column("\n".join(heading.rsplit(" ", 1)), justify="right", no_wrap=True)
    for row in table.texts:
        shown.add_row(*map(Text, row))
    console.print(shown)


def plain_text(table: Table) -> str:
    """Aligned columns, one row per line, never wrapped: programs read line by line."""
    table = table.spread
    rows = [*([table.columns] if any(table.columns) else []), *table.texts]
    columns = []
    for place, column in enumerate(zip(*rows, strict=True)):
        width = max(map(cell_len, column))
        blanks = [" " * (width - cell_len(text)) for text in column]
        left_aligned = place == 0 or table.prose
        columns.append([t + b if left_aligned else b + t for t, b in zip(column, blanks, strict=True)])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    title, caption = table.title_and_caption
    return "\n".join(filter(None, [title, *lines, caption]))


def markdown_lines(table: Table) -> list[str]:
    table = table.spread
    rows = [[row.name, *(f"**{one.text}**" if one.bold else one.text for one in row.entries)] for row in table.rows]
    return [f"| {' | '.join(row)} |" for row in (table.columns, ["---"] * len(table.columns), *rows)]


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """CSV with a header of field names and one line per record."""
    text = io.StringIO()
    if records:
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return text.getvalue()


def sample_fields(name: str, sample: SampleSummary | None) -> dict[str, object]:
    """Mean, standard deviation and 95 % interval for CSV files."""
    numbers = (None,) * 4 if sample is None else (sample.mean, sample.std, *sample.ci95)
    return {f"{name}_{part}": one for part, one in zip(("mean", "std", "low", "high"), numbers, strict=True)}


def latex(table: Table, caption: str) -> str:
    r"""A table for `\input`; needs the package booktabs."""
    headings = [_latex_row(map(latex_escaped, table.columns))]
    if table.groups:
        span = (len(table.columns) - 1) // len(table.groups)
        groups = [rf"\multicolumn{{{span}}}{{c}}{{{latex_escaped(group)}}}" for group in table.groups]
        rules = [rf"\cmidrule(lr){{{2 + span * n}-{1 + span * (n + 1)}}}" for n in range(len(groups))]
        headings = [_latex_row(["", *groups]), "".join(rules), *headings]
    rows = []
    for row in table.rows:
        name = f"{row.name} ({row.note})" if row.note else row.name
        rows.append(_latex_row([latex_escaped(name), *map(_latex_entry, row.entries)]))
    tabular = rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"
    head = [r"\begin{table}", r"\centering", rf"\caption{{{latex_escaped(caption)}}}", tabular, r"\toprule", *headings]
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def latex_escaped(text: str) -> str:
    r"""
    >>> print(latex_escaped(r"a_b & 5 % {x} \ ~ ^ # $"))
    a\_b \& 5 \% \{x\} \textbackslash{} \textasciitilde{} \textasciicircum{} \# \$
    """
    words = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum"}
    return re.sub(r"[\\~^&%$#_{}]", lambda m: f"\\{words[m[0]]}{{}}" if m[0] in words else f"\\{m[0]}", text)


def _latex_entry(entry: Entry) -> str:
    text = f"${entry.text}$" if re.match(r"[-+<]", entry.text) else latex_escaped(entry.text)
    text = rf"\textbf{{{text}}}" if entry.bold else text
    return rf"{text} {{\scriptsize $[{', '.join(entry.ends)}]$}}" if entry.ends else text


def _latex_row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
