"""Edges and labels of nodes that no node table lists: refused, left out, or taken as nodes without features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtgcn.io.columns import Choices
from mtgcn.io.faults import FaultKind, Faults
from mtgcn.io.ids import NodeIndex
from mtgcn.io.notes import say
from mtgcn.io.paths import shown
from mtgcn.io.table import MISSING, Batch, Coded, Table


class UnknownIds:
    """What becomes of the ids in a table that an index does not know, as a person has chosen."""

    def __init__(self, table: Table, home: str, choices: Choices, what: str) -> None:
        self._table, self._home, self._what = table, home, what
        self._choice, self._may_add = choices.unknown_nodes, choices.may_add_nodes
        self._faults = Faults(str(table.path))
        self._ids: set[str] = set()

    def resolved(self, index: NodeIndex, batch: Batch, columns: Sequence[Coded]) -> list[np.ndarray]:
        """The nodes that each row names; MISSING where one is left out. Refusals come with `told`."""
        found = [index.find(ids) for ids in columns]
        unknown = [np.flatnonzero(nodes == MISSING) for nodes in found]
        if not any(map(len, unknown)):
            return found
        if self._choice == "error":
            self._refuse(batch, columns, unknown)
            return found
        for ids, rows in zip(columns, unknown, strict=True):
            _, first = np.unique(ids.codes[rows], return_index=True)
            self._ids.update(ids.text(int(row)) for row in rows[first])
        return [index.add(ids) for ids in columns] if self._choice == "add" else found

    def told(self) -> None:
        """Complain, or remark, once the whole table was read."""
        self._faults.raise_first_kind()
        if not self._ids:
            return
        unknown = f"{len(self._ids)} ids that are not in {self._home}"
        if self._choice == "add":
            say(f"{self._table.path}: {unknown} are taken as nodes of which nothing else is known")
        else:
            say(f"{self._table.path}: {self._what} of {unknown} are left out")

    def _refuse(self, batch: Batch, columns: Sequence[Coded], unknown: Sequence[np.ndarray]) -> None:
        named: dict[int, str] = {}  # by row; of two strangers in a row the first
        for ids, rows in zip(columns, unknown, strict=True):
            for row in rows.tolist():
                named.setdefault(row, ids.text(row))
        rows_in_order = sorted(named)
        table, first = self._table, rows_in_order[0]
        place = int(batch.places[first])
        header = place == table.first_place and not table.has_header
        adding = ", or --unknown-nodes add to take them as nodes" if self._may_add else ""
        remedy = f"or say --unknown-nodes drop to leave such {self._what} out{adding}"
        alone = f"{table.at(place)}: node {shown(named[first])} is not in {self._home}; add it there, {remedy}" + (
            ", or --header if this line names the columns" if header else ""
        )
        kind = FaultKind(f"{self._what} are of nodes that are not in {self._home}", f"add these there, {remedy}")
        places = [f"{table.unit} {batch.places[row]} {shown(named[row])}" for row in rows_in_order[:3]]
        self._faults.add(kind, alone, places, len(named))


def header_found_out(table: Table, index: NodeIndex, columns: Sequence[int]) -> Table:
    """The table; its first row is a header if it names nodes that nobody knows, while others name known ones."""
    with_header = table.with_header()
    if with_header is None or table.has_header:
        return table
    first, *others = [[row[column] for column in columns] for row in table.sample if len(row) > max(columns)]
    known_later = any(index.knows(name) for row in others for name in row)
    return with_header if known_later and not any(map(index.knows, first)) else table
