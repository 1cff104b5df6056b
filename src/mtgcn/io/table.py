"""Tables in files, read batch after batch: `Table`, implemented here for Parquet and in `csv_table` for CSV.

A column is read as text, dictionary-encoded (`Coded`), or as an array where its source has numbers. Whether text holds
numbers is decided once the column is complete (`Coded.numbers`).

Values go between arrow and NumPy by their bytes: where pyarrow converts values itself, it imports pandas, which takes
longer than reading a small table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.errors import LONGEST_NAME, InputError, as_input_error, check_names, note, shown
from mtgcn.io.column_table import LARGEST, MISSING, PLACES_SHOWN, SECONDS_A_DAY, Texts
from mtgcn.labels import MISSING_WORDS
from mtgcn.shapes import Float, Int

MAX_COLUMNS = 100_000  # each takes half a millisecond to inspect
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # as Python writes it; 007 stays text
PLAIN = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"  # 007 is a name
THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"  # ambiguous if other columns have decimal commas
CELLS_AT_ONCE = 1 << 22  # rows times columns of a Parquet batch
PANDAS_INDEX = "__index_level_"  # the index that pandas stores as a column


class Faults:
    """The faults found in a table, by remedy. The error describes the first one, counts those with the same remedy and
    shows the first places."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[str], str]] = {}  # count, places, first message

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, message: str, remedy: str, places: Sequence[str], count: int | None = None) -> None:
        """Add faults at these places (the first few of `count`); `message` describes the first."""
        before, known, message = self._found.get(remedy, (0, [], message))
        number = len(places) if count is None else count
        self._found[remedy] = before + number, [*known, *places][:PLACES_SHOWN], message

    def raise_first_kind(self) -> None:
        """Raise an error for the kind of fault found first, if there is any."""
        for remedy, (count, places, message) in self._found.items():
            more = ", …" if count > PLACES_SHOWN else ""
            total = f" ({count} in all: {', '.join(places)}{more})" if count > 1 else ""
            raise InputError(f"{message}{total}; {remedy}")


def text_values(texts: Sequence[str]) -> pa.StringArray:
    """
    >>> text_values(["é", ""]).to_pylist()
    ['é', '']
    """
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def number_values(numbers: np.ndarray) -> pa.NumericArray:
    """
    >>> number_values(np.array([3, -1])).to_pylist()
    [3, -1]
    """
    content = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, content])


def number_value(number: float) -> pa.NumericScalar:
    return number_values(np.array([number]))[0]


def numbers_in(column: pa.NumericArray) -> np.ndarray:
    """A read-only view of an arrow column, NaN for nulls.

    >>> numbers_in(pa.array([7.0, 1.5, None]).slice(1))
    array([1.5, nan])
    """
    if column.null_count:
        column = pc.fill_null(column, number_value(np.nan).cast(column.type))
    return np.from_dlpack(column)


@dataclass(frozen=True, eq=False)
class Coded:
    """A dictionary-encoded column: distinct values, and the code of each row."""

    codes: Int[np.ndarray, "rows"]  # MISSING for an empty cell
    values: pa.Array  # distinct texts or 64-bit integers
    stays_text: bool = False  # whether the file declares text, also for digits

    @staticmethod
    def of(column: pa.Array, cleaned: Callable[[pa.Array], pa.Array], *, stays_text: bool = False) -> Coded:
        """Encode a column; `cleaned` is applied to the distinct values only."""
        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        codes, values = codes_of(encoded.indices), cleaned(encoded.dictionary)
        if pa.types.is_string(values.type):
            values = pc.if_else(pc.equal(values, text_values([""])[0]), pa.nulls(1, values.type)[0], values)
        if values.null_count or not values.equals(encoded.dictionary):  # values may have become equal or empty
            again = values.dictionary_encode()
            codes = np.append(codes_of(again.indices), MISSING)[codes]  # the last entry is for MISSING
            values = again.dictionary
        # A table of words has thousands of columns of a few values.
        return Coded(codes.astype(np.min_scalar_type(-len(values) - 1)), values, stays_text)

    @staticmethod
    def joined(batches: Sequence[Coded]) -> Coded:
        """The batches of a column as one, with text values."""
        all_values = pa.concat_arrays([batch.values.cast(pa.string()) for batch in batches]).dictionary_encode()
        code = np.append(codes_of(all_values.indices), MISSING)  # the last entry is for MISSING
        code = code.astype(np.min_scalar_type(-len(all_values) - 1))
        starts = np.cumsum([0, *(len(batch.values) for batch in batches)])
        parts = [
            np.append(code[start : start + len(batch.values)], code[-1:])[batch.codes]
            for batch, start in zip(batches, starts, strict=False)
        ]
        return Coded(np.concatenate(parts), all_values.dictionary)

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.values.nbytes)

    def take(self, rows: Int[np.ndarray, "some"]) -> Coded:
        """Some of the rows, with their values alone."""
        used, codes = np.unique(np.append(self.codes[rows], MISSING), return_inverse=True)  # MISSING is the first
        return Coded(codes[:-1] - 1, self.values.take(number_values(used[1:].astype(np.int64))), self.stays_text)

    def text(self, row: int) -> str:
        return str(self.values[int(self.codes[row])].as_py())

    def texts(self) -> Texts:
        """The column for preprocessing."""
        distinct = Texts.of([str(value) for value in self.values.to_pylist()])
        return Texts(np.append(distinct.codes, MISSING)[self.codes], distinct.values)

    def numbers(self) -> Float[np.ndarray, "rows"] | None:
        """The column as numbers, NaN where a value is missing; None if a value is anything else, or if all numbers
        with a point may have thousands separators."""
        values = pc.utf8_trim_whitespace(self.values.cast(pa.string()))
        is_missing = pc.is_in(pc.utf8_lower(values), value_set=text_values(sorted(MISSING_WORDS)))
        present = values.filter(pc.invert(is_missing))
        if not len(present) or not pc.all(pc.match_substring_regex(present, PLAIN)).as_py():
            return None
        pointed = present.filter(pc.match_substring(present, "."))
        if len(pointed) and pc.all(pc.match_substring_regex(pointed, THOUSANDS)).as_py():
            return None
        unsigned = pc.utf8_ltrim(values, "+")  # arrow does not parse plus signs
        numbers = pc.if_else(is_missing, pa.nulls(1, pa.string())[0], unsigned).cast(pa.float64())
        found = np.append(numbers_in(numbers), np.nan)  # the last entry is for MISSING
        return None if (np.abs(found) > LARGEST).any() else found[self.codes]


def codes_of(indices: pa.Array) -> Int[np.ndarray, "rows"]:
    """Dictionary indices, MISSING for nulls."""
    return numbers_in(pc.fill_null(indices.cast(pa.int64()), number_value(MISSING)))


Cells = Coded | np.ndarray  # text, or finite numbers with NaN where a value is missing


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of the requested columns."""

    texts: list[Coded]
    features: list[Cells]
    places: Int[np.ndarray, "rows"]  # line numbers, or row numbers in Parquet

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Int[np.ndarray, "some"]) -> Batch:
        """Some of these rows, without the texts."""
        features = [cells[rows] if isinstance(cells, np.ndarray) else cells.take(rows) for cells in self.features]
        return Batch([], features, self.places[rows])


def numbers_of_cells(cells: Cells) -> Float[np.ndarray, "rows"] | None:
    """The cells as numbers, or None."""
    return cells.numbers() if isinstance(cells, Coded) else cells


class Table(ABC):
    """A table of which only the beginning has been read."""

    path: Path  # or the title of a table in memory
    form: str  # file format, for messages
    unit: str  # "line" or "row", for messages
    columns: tuple[str, ...]  # names, "" if a column has none
    has_header: bool
    first_place: int  # line or row of the header or, without one, of the first row
    rows: Sequence[list[str]] = ()  # the first rows with the header; empty if the file has column types
    header_is_guessed: bool = False
    days: frozenset[int] = frozenset()  # columns with a date type
    categories: frozenset[int] = frozenset()  # columns with a category type
    nested: frozenset[int] = frozenset()  # columns of lists and other types that cannot be read

    @property
    def sample(self) -> Sequence[list[str]]:
        """The first rows without the header."""
        return self.rows[self.has_header :]

    def note_header(self) -> None:
        """Note how the first line is read, if that is a guess."""
        if self.header_is_guessed:
            cells = ", ".join(map(shown, self.rows[0][:3])) + (", …" if len(self.rows[0]) > 3 else "")
            found, choice, other = ("the header", "no", "data") if self.has_header else ("data", "yes", "the header")
            note(f"{self.path}: the first line ({cells}) is read as {found}; use --header {choice} if it is {other}")

    @abstractmethod
    def batches(self, texts: Sequence[int], features: Sequence[int] = ()) -> Iterator[Batch]:
        """All rows in order, with columns as text, and columns as numbers where the table has numbers."""

    def name_of(self, column: int) -> str:
        """A column, for messages."""
        return f"column {shown(self.columns[column])}" if self.columns[column] else f"column {column + 1}"

    def check_columns(self, names: Sequence[str]) -> None:
        """Reject too many columns, and repeated or invalid names."""
        if len(names) > MAX_COLUMNS:
            raise InputError(
                f"{self.path} has {len(names)} columns, more than {MAX_COLUMNS}; check the delimiter, or give wide "
                "features as a sparse matrix in a .npz file (--graph)"
            )
        named = Counter(name for name in names if name)
        check_names(named, "column", str(self.path))
        [(most, times)] = named.most_common(1) or [("", 0)]
        if times > 1:
            place = self.at(self.first_place) if self.unit == "line" else str(self.path)
            raise InputError(f"{place} names column {shown(most)} twice; rename one")

    def at(self, place: int) -> str:
        """A line or row, for messages."""
        return f"{self.path} {self.unit} {place}"

    def add_not_a_number(self, faults: Faults, place: int, column: int, value: Any) -> None:
        """Add the fault of a cell that is not a finite number."""
        text = "" if value is None else str(value).strip()
        fault = f"is {shown(text)}, not a finite number of single precision" if text else "is empty"
        remedy = "write a number there, or leave the column out"
        faults.add(f"{self.at(place)}, {self.name_of(column)} {fault}", remedy, [f"{self.unit} {place} {shown(text)}"])


ReadColumns = Callable[[Sequence[int]], Iterator[dict[int, pa.Array]]]


class ArrowTable(Table):
    """Named columns with types. `read` yields the cells of the given columns, by column, for all rows in order."""

    unit = "row"
    has_header = True
    first_place = 1

    def __init__(
        self, path: Path, form: str, names: Sequence[str], types: Sequence[pa.DataType], read: ReadColumns
    ) -> None:
        self.path, self.form, self.columns, self._read = path, form, tuple(names), read
        self.days = frozenset(column for column, kind in enumerate(types) if is_day(kind))
        self.categories = frozenset(column for column, kind in enumerate(types) if pa.types.is_dictionary(kind))
        self.nested = frozenset(column for column, kind in enumerate(types) if not is_readable(kind))
        self._numeric = self.days.union(column for column, kind in enumerate(types) if is_numeric(kind))
        self.check_columns(self.columns)

    def batches(self, texts: Sequence[int], features: Sequence[int] = ()) -> Iterator[Batch]:
        faults = Faults()
        before = 0
        with _readable(self.path, self.form):
            for cells in self._read(sorted({*texts, *features})):
                rows = len(next(iter(cells.values())))
                places = np.arange(before + 1, before + rows + 1)
                before += rows
                coded = [self._coded(cells[column], column) for column in texts]
                found = [
                    self._numbers(cells[column], column, places, faults)
                    if column in self._numeric
                    else self._coded(cells[column], column)
                    for column in features
                ]
                if rows and not faults:
                    yield Batch(coded, found, places)
        faults.raise_first_kind()

    def _coded(self, column: pa.Array, number: int) -> Coded:
        if pa.types.is_dictionary(column.type):  # entries may repeat
            column = column.cast(column.type.value_type)
        kind = column.type
        if not is_readable(kind):
            raise InputError(
                f"{self.path}, {self.name_of(number)} is of type {kind}; give text or numbers, one column for each "
                "feature, or leave the column out"
            )
        return Coded.of(column, as_texts, stays_text=is_textual(kind))

    def _numbers(self, column: pa.Array, number: int, places: np.ndarray, faults: Faults) -> np.ndarray:
        if is_day(column.type):  # as days since 1970, rounded like the dates of a CSV file
            microseconds = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
            found = numbers_in(microseconds) / 10**6 / SECONDS_A_DAY
        else:
            found = numbers_in(column.cast(pa.float64(), safe=False))
        for row in np.flatnonzero(np.abs(found) > LARGEST):
            self.add_not_a_number(faults, int(places[row]), number, column[int(row)].as_py())
        return found


def _readable(path: Path, form: str) -> AbstractContextManager[None]:
    problems = (pa.ArrowException, OSError, ValueError)
    return as_input_error(f"{path} cannot be read as {form}", "was it cut off? write it again", *problems)


def memory_table(path: Path, form: str, names: Sequence[str], cells: Sequence[pa.Array]) -> ArrowTable:
    """A table of arrow arrays in memory."""
    types = [column.type for column in cells]
    return ArrowTable(path, form, names, types, lambda columns: iter([{one: cells[one] for one in columns}]))


def parquet_table(path: Path) -> ArrowTable:
    """The table in a Parquet file; pyarrow's reader is imported only here."""
    from pyarrow.parquet import ParquetFile

    with _readable(path, "Parquet"), ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    fields = [field for field in schema if not field.name.startswith(PANDAS_INDEX)]
    names = [field.name for field in fields]

    def read(columns: Sequence[int]) -> Iterator[dict[int, pa.Array]]:
        with ParquetFile(path) as file:
            chosen = [names[column] for column in columns]
            for batch in file.iter_batches(max(1, CELLS_AT_ONCE // len(columns)), columns=chosen):
                batch.validate(full=True)  # text may be invalid UTF-8
                yield {column: batch.column(names[column]) for column in columns}

    table = ArrowTable(path, "Parquet", names, [field.type for field in fields], read)
    if not names or not rows:
        raise InputError(f"{path} holds {rows} rows of {len(names)} columns; write it again, with some rows")
    return table


def as_texts(values: pa.Array) -> pa.Array:
    """Integers, also those that pandas stored as floats because of gaps; otherwise text."""
    kind = values.type
    if pa.types.is_signed_integer(kind) or pa.types.is_uint8(kind) or pa.types.is_uint16(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        values = pc.if_else(pc.is_finite(values), values, pa.nulls(1, values.type)[0])
        whole = pc.all(pc.equal(pc.round(values), values)).as_py()
        if whole is not False and (pc.max(pc.abs(values)).as_py() or 0) < 2**53:
            return values.cast(pa.int64())
    return values.cast(pa.string())


def is_readable(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_numeric(kind) or is_textual(kind) or pa.types.is_temporal(kind)


def is_numeric(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def is_textual(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def is_day(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


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
