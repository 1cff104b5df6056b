"""Node ids: an index from ids to node numbers, checks, and ids that the node table does not list."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.errors import LONGEST_NAME, InputError, note, shown
from mtgcn.io.column_table import MISSING, PLACES_SHOWN
from mtgcn.io.csv_table import CsvTable
from mtgcn.io.options import TableOptions
from mtgcn.io.table import Batch, Coded, Faults, Table, codes_of, number_value, number_values, numbers_in, text_values
from mtgcn.shapes import Int

WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # as Python writes it; 007 stays text
MAX_ID_COLUMNS = 50  # that are searched for unknown ids


class NodeIndex:
    """Ids in order of appearance: integers as long as all files have integers, otherwise text."""

    def __init__(self) -> None:
        self._ids: pa.Array | None = None
        self._stays_text = False

    @staticmethod
    def of(ids: np.ndarray) -> NodeIndex:
        index = NodeIndex()
        index._ids = text_values(ids.astype(str).tolist())
        return index

    def __len__(self) -> int:
        return 0 if self._ids is None else len(self._ids)

    def find(self, column: Coded) -> Int[np.ndarray, "rows"]:
        """The node of each row, MISSING for unknown ids."""
        _, places = self._places(column)
        return places[column.codes]

    def knows(self, name: str) -> bool:
        return self._ids is not None and bool((self.find(Coded(np.zeros(1, np.int64), text_values([name]))) >= 0).all())

    def add(self, column: Coded) -> Int[np.ndarray, "rows"]:
        """The node of each row; new ids become new nodes."""
        self._stays_text |= column.stays_text
        values, places = self._places(column)
        new = np.flatnonzero(places == MISSING)
        places[new] = len(self) + np.arange(len(new))
        fresh = values.take(number_values(new))
        self._ids = fresh if self._ids is None else pa.concat_arrays([self._ids, fresh])
        return places[column.codes]

    def _places(self, column: Coded) -> tuple[pa.Array, np.ndarray]:
        """The values of the column in the type of the index, and the node of each."""
        values = column.values
        if self._ids is None:
            return values, np.full(len(values), MISSING)
        if values.type != self._ids.type:
            values, self._ids = values.cast(pa.string()), self._ids.cast(pa.string())
        return values, np.array(codes_of(pc.index_in(values, value_set=self._ids)))

    def texts(self) -> list[str]:
        return [] if self._ids is None else self._ids.cast(pa.string()).to_pylist()

    def ids(self) -> np.ndarray:
        """All ids: integers if all look like integers, unless a file declares them as text."""
        ids = pa.nulls(0, pa.int64()) if self._ids is None else self._ids
        if pa.types.is_string(ids.type):
            if self._stays_text or not pc.all(pc.match_substring_regex(ids, WHOLE_NUMBER)).as_py():
                return np.array(ids.to_pylist(), dtype=str)
            ids = ids.cast(pa.int64())
        return np.array(ids.cast(pa.string()).to_pylist(), dtype=str) if self._stays_text else numbers_in(ids)


def checked_ids(table: Table, batch: Batch, column: Coded, number: int, faults: Faults) -> Coded | None:
    """The column if every row has a valid id; None if some are empty, which is added to the faults."""
    empty = batch.places[column.codes == MISSING]
    if len(empty):
        message = f"{table.at(int(empty[0]))}, {table.name_of(number)} is empty"
        places = [f"{table.unit} {place}" for place in empty[:PLACES_SHOWN]]
        faults.add(message, "every row needs an id there", places, len(empty))
        return None
    if not pa.types.is_string(column.values.type):
        return column
    lengths = pc.utf8_length(column.values)
    broken = pc.or_(pc.greater(lengths, number_value(LONGEST_NAME)), pc.match_substring(column.values, "\0"))
    if pc.any(broken).as_py():
        code = int(np.flatnonzero(np.array(broken))[0])
        place = table.at(int(batch.places[np.flatnonzero(column.codes == code)[0]]))
        raise InputError(
            f"{place}, {table.name_of(number)}: the id {shown(column.values[code].as_py())} has "
            f"{lengths[code].as_py()} characters or a NUL among them; give ids of at most {LONGEST_NAME} characters"
        )
    return column


class UnknownIds:
    """Handles ids that an index does not know, as `unknown_nodes` requires."""

    def __init__(self, table: Table, nodes: Table | str, options: TableOptions, what: str) -> None:
        self._table, self._nodes, self._what, self._options = table, nodes, what, options
        self._node_source = nodes if isinstance(nodes, str) else str(nodes.path)
        self._faults = Faults()
        self._other_column = ""  # with the unknown ids
        self._ids: set[str] = set()

    def resolved(self, index: NodeIndex, batch: Batch, columns: Sequence[Coded]) -> list[np.ndarray]:
        """The node of each row, MISSING where it is left out. `finish` raises the errors."""
        found = [index.find(ids) for ids in columns]
        if not any((nodes == MISSING).any() for nodes in found):
            return found
        if self._options.unknown_nodes == "error":
            if not self._faults:
                self._other_column = self._column_with(columns, index)
            self._refuse(batch, columns, found)
            return found
        for ids, nodes in zip(columns, found, strict=True):
            _, first = np.unique(np.where(nodes == MISSING, ids.codes, MISSING), return_index=True)
            self._ids.update(ids.text(row) for row in first.tolist() if nodes[row] == MISSING)
        return [index.add(ids) for ids in columns] if self._options.unknown_nodes == "add" else found

    def finish(self) -> None:
        """Raise an error or a note, once the whole table is read."""
        try:
            self._faults.raise_first_kind()
        except InputError as error:
            if self._other_column:
                raise InputError(f"{str(error).rpartition('; ')[0]}; {self._other_column}") from None
            raise
        if not self._ids:
            return
        unknown = f"{len(self._ids)} ids that are not in {self._node_source}"
        if self._options.unknown_nodes == "add":
            note(f"{self._table.path}: {unknown} are added as nodes without features")
        else:
            note(f"{self._table.path}: {self._what} of {unknown} are left out")

    def _column_with(self, columns: Sequence[Coded], index: NodeIndex) -> str:
        """The remedy, if another column fits: one of the node table with these ids, or one of the label table with ids
        of nodes."""
        tables = [] if isinstance(self._nodes, str) else [self._nodes]
        for table in tables if self._what == "edges" else [self._table, *tables]:
            places = list(range(min(len(table.columns), MAX_ID_COLUMNS)))
            with suppress(InputError):  # of columns that were not chosen
                batches = list(table.batches(places))
                for place in places:
                    cells = Coded.joined([batch.texts[place] for batch in batches])
                    listed, wanted = NodeIndex(), columns
                    listed.add(cells)
                    if table is self._table:
                        listed, wanted = index, [cells]
                    is_id = len(cells.values) == len(cells.codes)
                    name = table.columns[place]
                    if name and is_id and all((listed.find(ids) != MISSING).all() for ids in wanted):
                        return f"column {shown(name)} of {table.path.name} has the ids: give --column id={name}"
        return ""

    def _refuse(self, batch: Batch, columns: Sequence[Coded], found: Sequence[np.ndarray]) -> None:
        table, rows = self._table, np.flatnonzero(np.any([nodes == MISSING for nodes in found], axis=0))

        def name(row: int) -> str:  # the first unknown one of two
            return shown(
                next(ids.text(row) for ids, nodes in zip(columns, found, strict=True) if nodes[row] == MISSING)
            )

        first = int(batch.places[rows[0]])
        adding = ", or --unknown-nodes add to add the nodes" if self._options.may_add_nodes else ""
        header = ", or --header yes if this line names the columns"
        may_be_header = first == table.first_place and not table.has_header
        self._faults.add(
            f"{table.at(first)}: node {name(rows[0])} is not in {self._node_source}",
            f"add it there, or use --unknown-nodes drop to leave such {self._what} out{adding}{header * may_be_header}",
            [f"{table.unit} {batch.places[row]} {name(row)}" for row in rows[:PLACES_SHOWN]],
            len(rows),
        )


def settle_header(table: Table, index: NodeIndex, columns: Sequence[int], options: TableOptions) -> None:
    """Decide by known nodes whether the first row is a header: not if it names some in these columns; but if it names
    none of them and later rows do."""
    if options.header is None and isinstance(table, CsvTable) and len(table.rows[0]) > max(columns):
        first, *others = [[row[column] for column in columns] for row in table.rows if len(row) > max(columns)]
        known = [index.knows(name) for name in first]
        if all(known) or (any(known) and table.header_is_guessed):
            if table.has_header:
                table.take_header(False, guessed=True)
        elif not table.has_header and all(table.rows[0]) and not any(known):
            known_later = any(index.knows(name) for row in others for name in row)
            table.take_header(known_later, guessed=known_later or table.header_is_guessed)
    table.note_header()
