"""Suggestions as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mtgcn.trust.suggestions import Suggestion


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
