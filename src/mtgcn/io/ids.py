"""Ids of any kind and the numbers of the nodes they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.errors import InputError
from mtgcn.io.arrow_values import number_value, number_values, numbers_in, text_values
from mtgcn.io.faults import FaultKind, Faults
from mtgcn.io.paths import shown
from mtgcn.io.table import MISSING, Coded, codes_of
from mtgcn.io.texts import LONGEST_NAME
from mtgcn.shapes import Int

if TYPE_CHECKING:
    from mtgcn.io.table import Batch, Table

WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # as Python would write it, so that 007 stays text


class NodeIndex:
    """The ids seen so far, numbered as they came: whole numbers as long as every file says so, else text."""

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
        """The node of each row, MISSING where nobody has that id."""
        _, places = self._places(column)
        return places[column.codes]

    def knows(self, name: str) -> bool:
        return self._ids is not None and bool((self.find(Coded(np.zeros(1, np.int64), text_values([name]))) >= 0).all())

    def add(self, column: Coded) -> Int[np.ndarray, "rows"]:
        """The node of each row; ids not seen before become new nodes."""
        self._stays_text |= column.stays_text
        values, places = self._places(column)
        new = np.flatnonzero(places == MISSING)
        places[new] = len(self) + np.arange(len(new))
        fresh = values.take(number_values(new))
        self._ids = fresh if self._ids is None else pa.concat_arrays([self._ids, fresh])
        return places[column.codes]

    def _places(self, column: Coded) -> tuple[pa.Array, np.ndarray]:
        """The column's values, in the type that the index has or now takes, and the node of each."""
        values = column.values
        if self._ids is None:
            return values, np.full(len(values), MISSING)
        if values.type != self._ids.type:
            values, self._ids = values.cast(pa.string()), self._ids.cast(pa.string())
        return values, np.array(codes_of(pc.index_in(values, value_set=self._ids)))

    def texts(self) -> list[str]:
        return [] if self._ids is None else self._ids.cast(pa.string()).to_pylist()

    def ids(self) -> np.ndarray:
        """Every id by node: whole numbers if all are written like one, unless a file calls them text."""
        ids = pa.nulls(0, pa.int64()) if self._ids is None else self._ids
        if pa.types.is_string(ids.type):
            if self._stays_text or not pc.all(pc.match_substring_regex(ids, WHOLE_NUMBER)).as_py():
                return np.array(ids.to_pylist(), dtype=str)
            ids = ids.cast(pa.int64())
        return np.array(ids.cast(pa.string()).to_pylist(), dtype=str) if self._stays_text else numbers_in(ids)


def checked_ids(table: Table, batch: Batch, column: Coded, number: int, faults: Faults) -> Coded | None:
    """The column, if every row has an id that can be kept; None if it is among the faults that rows have none."""
    empty = batch.places[column.codes == MISSING]
    if len(empty):
        faults.add(
            FaultKind(f"rows have nothing in {table.name_of(number)}", "give every row an id there, or delete the row"),
            f"{table.at(int(empty[0]))}, {table.name_of(number)} is empty; every row needs an id there",
            [f"{table.unit} {place}" for place in empty[:3]],
            len(empty),
        )
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
