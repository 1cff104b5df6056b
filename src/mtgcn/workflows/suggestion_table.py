"""Suggestions as a table for a terminal, and as one to fill in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mtgcn.report.tables import Table
from mtgcn.workflows.tables_out import write_table

if TYPE_CHECKING:
    from pathlib import Path

    from mtgcn.uncertainty.suggestions import Suggestion


def suggestion_table(suggestions: Iterable[Suggestion]) -> Table:
    """The nodes most worth labelling, first the first."""
    rows = [(str(one.node), one.predicted, f"{one.score:.2f}", one.reason) for one in suggestions]
    return Table.of_text(["node", "predicted", "score", "why"], rows, title="Nodes to label next", prose=True)


def write_suggestions(path: Path, suggestions: Iterable[Suggestion]) -> None:
    """A CSV file whose column `label` is empty: filled in, it is a label table as `mtgcn label` reads it."""
    rows = ([str(one.node), "", one.predicted, f"{one.score:.6f}", one.reason] for one in suggestions)
    write_table(path, ["id", "label", "predicted", "score", "reason"], rows)
