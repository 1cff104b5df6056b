"""Suggestions as a table for a terminal, and as one to fill in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mtgcn.workflows.tables_out import write_table

if TYPE_CHECKING:
    from pathlib import Path

    from mtgcn.uncertainty.suggestions import Suggestion


def suggestion_table(suggestions: Iterable[Suggestion]) -> Table:
    """The nodes most worth labelling, first the first."""
    table = Table(title="Nodes to label next")
    table.add_column("node", overflow="fold")
    table.add_column("predicted", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("why", overflow="fold")
    for suggestion in suggestions:
        # As plain text: a node may be called [bold].
        row = (str(suggestion.node), suggestion.predicted, f"{suggestion.score:.2f}", suggestion.reason)
        table.add_row(*map(Text, row))
    return table


def write_suggestions(path: Path, suggestions: Iterable[Suggestion]) -> None:
    """A CSV file whose column `label` is empty: filled in, it is a label table as `mtgcn label` reads it."""
    rows = ([str(one.node), "", one.predicted, f"{one.score:.6f}", one.reason] for one in suggestions)
    write_table(path, ["id", "label", "predicted", "score", "reason"], rows)
