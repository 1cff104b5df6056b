"""Which column of a table has which role: as given, otherwise guessed from its name and its values.

Columns of edge lists and label tables are found by name, then by position. Guesses about a node table have a reason,
which is noted with the option that changes the guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtgcn.errors import InputError, note, shown, unknown_name
from mtgcn.graph import LABEL_NAMES, WEIGHT_NAMES
from mtgcn.io.archives import suffix_of
from mtgcn.io.column_table import COMMA, Texts, number_in
from mtgcn.io.csv_table import CsvTable
from mtgcn.io.graph_files import READERS
from mtgcn.io.json_table import json_table
from mtgcn.io.options import Column, PathLike, TableOptions, position_in_title, readable_file
from mtgcn.io.preprocessing import FEATURE, IGNORE, MIN_ROWS_OF_IDS, Preprocessor, is_id_name
from mtgcn.io.table import Table, parquet_table

ID_NAMES = ("id", "node", "node_id")
ROLE_NAMES = {  # names from which the role of a column is recognised
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
    "weight": WEIGHT_NAMES,
    "id": ID_NAMES,
    "label": LABEL_NAMES,
}
EDGE_NAMES = [name for role in ("source", "target", "weight", "id") for name in ROLE_NAMES[role]]
TABLE_READERS: dict[str, Callable[[Path, TableOptions], Table]] = {  # files with other suffixes are text
    **dict.fromkeys((".parquet", ".pq"), lambda path, _: parquet_table(path)),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), json_table),
}
WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")

MIN_ROWS_WITH_DIGITS = 5  # fewest rows with digits that identify a header without digits
# Last words of column names that suggest a role, such as page_type or fullName.
LABEL_WORDS = frozenset(
    (
        *("label", "labels", "class", "target", "species", "type", "category", "segment", "outcome", "topic", "genre"),
        *("diagnosis", "sentiment", "survived", "churn", "y"),
    )
)
NAME_WORDS = frozenset(("name", "names", "title", "headline", "username", "fullname"))
MAX_CLASSES = 50  # classes of a guessed target
MAX_CODES = 20  # classes of a guessed target whose name does not suggest it
MIN_GAPS = 0.5  # share of empty cells that suggests a target
MEAN_ID_LENGTH, MEAN_NAME_LENGTH = 40, 80  # largest mean number of characters
MIN_DISTINCT_NAMES = 0.5  # share of distinct values
BY_POSITION = "by position"  # reason of a guess


def open_table(given: PathLike, options: TableOptions, *, edges: bool = False) -> Table:
    """A table of nodes, labels or `edges`, by its suffix."""
    path = readable_file(given)
    suffix = suffix_of(path)
    if read := TABLE_READERS.get(suffix):
        return read(path, options)
    if suffix in WORKBOOKS:
        raise InputError(f"{path} is a workbook; save the sheet as CSV, or fit pandas.read_excel(…) in Python")
    if suffix in READERS and not (edges and suffix == ".mtx"):
        raise InputError(f"{path} is a whole graph, by its suffix; give it as --graph")
    return _with_header(CsvTable(path, options.delimiter, edges=edges), options, edges)


def _with_header(table: CsvTable, options: TableOptions, edges: bool) -> CsvTable:
    """The table with its first row as the header or as data, as given or guessed."""
    if options.header is not None:
        return table.take_header(options.header is True)
    first, *below_first = table.rows
    lower = {cell.lower() for cell in first}
    roles = [ROLE_NAMES["source"], ROLE_NAMES["target"]] if edges else [ID_NAMES + LABEL_NAMES]
    of_fit = () if options.preprocessing is None else options.preprocessing.needed
    named = (*options.columns.values(), *(options.features or ()), *of_fit)
    if all(lower.intersection(some) for some in roles) or any(name in first for name in named):
        return table.take_header(True)
    rows = [row for row in below_first if len(row) == len(first)]
    columns = list(zip(first, *rows, strict=True)) if rows else []
    telling = (LABEL_WORDS | NAME_WORDS) - {"y"}  # y may be a class
    if not edges and any(_last_word(cell) in telling and cell not in below for cell, *below in columns):
        return table.take_header(True)
    if not any(_is_title(cell, below) for cell, *below in columns):
        return table
    if edges and lower.intersection(EDGE_NAMES):
        return table.take_header(True)
    others = [cell for row in rows for cell in row]
    is_data = any(_is_alike(cell, below) or (edges and cell in others) for cell, *below in columns)
    return table.take_header(not is_data, guessed=True)


def _is_title(cell: str, below: Sequence[str]) -> bool:
    """Whether text stands above a column of numbers, or a word without digits above ids or dates with digits."""
    if not _is_number(cell) and all(map(_is_number, below)):
        return True
    return len(below) >= MIN_ROWS_WITH_DIGITS and cell != "" and not _has_digit(cell) and all(map(_has_digit, below))


def _is_alike(cell: str, below: Sequence[str]) -> bool:
    """Whether a cell is a number above numbers, or differs from all cells below in numbers only: `n1` above `n15`."""
    if _is_number(cell):
        return all(map(_is_number, below))
    return _has_digit(cell) and len({re.sub("[0-9]+", "0", text) for text in (cell, *below)}) == 1


def _is_number(cell: str) -> bool:
    return number_in(cell) is not None or number_in(cell, COMMA) is not None


def _has_digit(cell: str) -> bool:
    return any(map(str.isdigit, cell))


def edge_columns(table: Table, options: TableOptions) -> tuple[int, int, int | None]:
    """The columns of source, target and weight."""
    if len(table.columns) < 2:
        raise InputError(
            f"{table.path} has one column ({table.columns[0] or 'without a name'}); an edge list has two, source and "
            "target (is its delimiter one of comma, tab, semicolon, bar, space?)"
        )
    source, target, weight = (_given_or_named(table, options.columns, role) for role in ("source", "target", "weight"))
    free = [column for column in range(len(table.columns)) if column not in (source, target, weight)]
    if table.has_header and None in (source, target) and len(free) > (source, target).count(None):
        raise _ambiguous(table, free, "source or target", "--column source=NAME --column target=NAME")
    if source is None and free:
        source = free.pop(0)
    if target is None and free:
        target = free.pop(0)
    if source is None or target is None or len({source, target, weight}) < 3:
        raise InputError(f"{table.path}: source, target and weight need a column each; name different ones")
    if weight is None and "weight" not in options.columns and not table.has_header and free:
        weight = free.pop(0)
    return source, target, weight


def _ambiguous(table: Table, columns: Sequence[int], roles: str, option: str) -> InputError:
    names = ", ".join(table.columns[column] for column in columns[:5]) + (", …" if len(columns) > 5 else "")
    return InputError(f"{table.path} has the columns {names}, but none is named {roles}; give {option}")


@dataclass(frozen=True)
class NodeColumns:
    """The columns of a node table by their positions."""

    node_id: int | None  # None: rows are numbered from 1
    label: int | None
    name: int | None  # a title of each row, for display
    features: tuple[int, ...]
    names: tuple[str, ...]  # feature names
    guesses: Mapping[str, str]  # the reason of each guessed role
    targets: tuple[int, ...] = ()  # several columns that may be the target

    def titles(self, table: Table) -> dict[str, Any]:
        """The columns by which a preprocessor reads later tables."""
        return {f"{role}_column": title_of(table, at) for role, at in self.by_role.items() if at is not None}

    @property
    def by_role(self) -> dict[str, int | None]:
        return {"id": self.node_id, "label": self.label, "name": self.name}

    def note_guesses(self, table: Table) -> None:
        """Note the guessed roles with the options that change them."""
        for role, why in self.guesses.items():
            column = self.by_role[role]
            if column is None:
                note(f"{table.path}: rows are numbered from 1, {why}; --column id=NAME names a column")
            elif table.has_header or why != BY_POSITION:
                title, option = ("target", "--target ") if role == "label" else (role, f"--column {role}=")
                found = f"{table.name_of(column)} is read as the {title}, {why}"
                other = "numbers the rows" if role == "id" else "uses none"
                note(f"{table.path}: {found}; {option}NAME names another, --column {role}=none {other}")


def node_columns(
    table: Table, options: TableOptions, *, labels_elsewhere: bool = False, several_targets: bool = False
) -> NodeColumns:
    """The columns of a node table.

    With `labels_elsewhere`, a column holds labels only if it is given or named so. With `several_targets`, several
    possible targets are listed instead of raising an error.
    """
    given, guesses = options.columns, dict[str, str]()
    ids_needed = options.edges is not None or labels_elsewhere
    if ids_needed and given.get("id") is False:
        raise InputError(f"{table.path}: edges and labels refer to nodes by id; name its column with --column id=NAME")
    taken = (*options.kinds, *options.exclude, *(options.features or ()))
    if options.preprocessing is not None:
        return _columns_of_fit(table, options, options.preprocessing, ids_needed)
    node_id, label = _given_or_named(table, given, "id"), _given_or_named(table, given, "label", taken)
    if labels_elsewhere and label is not None and "label" not in given:
        name = table.columns[label]
        if name.lower() != LABEL_NAMES[0]:
            raise InputError(
                f"{table.path}: column {name!r} may hold labels or, with a label table, a feature; give --column "
                f"label={name}, or --column category={name} for a feature, or --exclude {name}"
            )
    title = _position(table, given["name"]) if given.get("name") not in (None, False) else None
    left_out = {_position(table, column) for column in options.exclude}
    left_out |= {_position(table, column) for column, kind in options.kinds.items() if kind == IGNORE}
    if node_id is not None and "id" not in given and not ids_needed:
        texts = _contents(table, [node_id]).get(node_id)
        if texts is not None and len(texts.values) < len(texts.codes):
            guesses["id"] = f"since {table.name_of(node_id)} repeats or lacks values and is left out"
            left_out.add(node_id)
            node_id = None
    fixed = {_place(table, column) for column in taken} | {node_id, title} | left_out | table.nested
    is_class = label is not None and "label" not in given and table.columns[label].lower() != LABEL_NAMES[0]
    seeks = {
        "id": node_id is None and "id" not in given and "id" not in guesses,
        "label": (label is None or is_class) and "label" not in given and not labels_elsewhere,
        "name": title is None and "name" not in given,
    }
    free = [column for column in range(len(table.columns)) if column not in fixed]
    named = [column for column in free if _last_word(table.columns[column]) in NAME_WORDS]
    contents = _contents(table, free if seeks["id"] or seeks["label"] else named if seeks["name"] else [])
    if seeks["id"]:
        node_id, guesses["id"] = _guessed_id(table, contents, label, ids_needed)
    targets: tuple[int, ...] = ()
    if seeks["label"]:
        possible = _possible_targets(table, {one: texts for one, texts in contents.items() if one != node_id})
        if len(possible) == 1:
            [(label, why)] = possible.items()
            guesses |= {} if table.columns[label].lower() in LABEL_NAMES else {"label": why}
        elif possible:
            label, targets = None, tuple(possible)
        elif label is None and not table.has_header:
            last = len(table.columns) - 1
            if last != node_id and not any(_is_number(row[last]) for row in table.sample if len(row) > last):
                label, guesses["label"] = last, BY_POSITION  # as in the published cora.content
    if targets and not several_targets:
        listed = ", ".join(f"{title_of(table, one)} ({why})" for one, why in possible.items())
        raise InputError(
            f"{table.path} has {len(targets)} columns that may be the target: {listed}; choose one with --target NAME"
        )
    if seeks["name"]:
        names = [one for one in named if one not in (node_id, label) and one in contents and _are_names(contents[one])]
        if names:
            title = min(names, key=lambda one: (table.columns[one].lower() not in ("name", "title"), one))
            guesses["name"] = "by its name; it is used as text, too"
    if options.features is None:
        used = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    else:
        used = [_position(table, column) for column in options.features]
        if len({*used, node_id, label}) < len(used) + 2 - (node_id is None and label is None):
            raise InputError(f"{table.path}: id, label and every feature need a column each; name different ones")
    used = [column for column in used if column not in left_out]
    names_used = tuple(title_of(table, column) for column in used)
    return NodeColumns(node_id, label, title, tuple(used), names_used, guesses, targets)


def _columns_of_fit(table: Table, options: TableOptions, fit: Preprocessor, ids_needed: bool) -> NodeColumns:
    """The columns of a later table that a fit needs; the preprocessor reports those that are missing."""
    found = {name: place for name in fit.needed if (place := _place(table, name)) is not None}
    guesses: dict[str, str] = {}
    at = {role: _position(table, column) for role in ("id", "label", "name") if (column := options.columns.get(role))}
    for role, column in (("id", fit.id_column), ("name", fit.name_column)):
        if role not in options.columns and (place := _place(table, column or "")) is not None:
            at[role] = place
    if "id" not in at and "id" not in options.columns:
        named = _given_or_named(table, {}, "id", list(found))
        if named is not None or ids_needed:
            at["id"] = named or 0
        elif fit.id_column is not None:
            guesses["id"] = f"since there is no column {shown(fit.id_column)} as in the fit"
    return NodeColumns(at.get("id"), at.get("label"), at.get("name"), tuple(found.values()), tuple(found), guesses)


def _contents(table: Table, columns: Sequence[int]) -> dict[int, Texts]:
    """The values of some columns in the first rows, words for missing values left out."""
    batch = next(table.batches(columns), None) if columns else None
    if batch is None:
        return {}
    cells = zip(columns, batch.texts, strict=True)
    return {column: coded.texts().without_missing_words for column, coded in cells}


def _guessed_id(table: Table, contents: Mapping[int, Texts], label: int | None, needed: bool) -> tuple[int | None, str]:
    """A column of unique values with an id-like name or in first position; if ids are `needed`, else the first."""
    different = [column for column, texts in contents.items() if len(texts.values) == len(texts.codes)]
    for column in different:
        if is_id_name(table.columns[column]):
            return column, "by its name, and since all values differ"
    first = 0 if label != 0 or len(table.columns) == 1 else 1
    if needed:
        return first, BY_POSITION
    if first in different and _are_ids(table.columns[first], contents[first].values, table.has_header):
        return first, "as the first column, all values of which differ" if table.has_header else BY_POSITION
    return None, "since no column has an id for each row"


def _are_ids(name: str, values: Sequence[str], has_header: bool) -> bool:
    """Whether the distinct values of a first column are ids rather than measurements, names or texts."""
    if _last_word(name) in NAME_WORDS:
        return False
    if not all(map(_is_number, values)):
        return sum(map(len, values)) <= MEAN_ID_LENGTH * len(values) and not any(" " in value for value in values)
    if not all(value.isdigit() for value in values):
        return False
    numbers = [int(value) for value in values]
    is_index = has_header and not name  # as pandas and R write it
    return is_index or (len(numbers) >= MIN_ROWS_OF_IDS and max(numbers) - min(numbers) == len(numbers) - 1)


def _possible_targets(table: Table, contents: Mapping[int, Texts]) -> dict[int, str]:
    """The columns that may be the target, with reasons: few values, and a suggestive name or many empty cells. If only
    one column has both, the others are excluded."""
    found: dict[int, str] = {}
    clear: dict[int, str] = {}
    for column, texts in contents.items():
        present, values = int((texts.codes >= 0).sum()), len(texts.values)
        gaps = 1 - present / len(texts.codes)
        telling = _last_word(table.columns[column]) in LABEL_WORDS
        most = min(MAX_CLASSES, present if gaps else present // 2) if telling else min(MAX_CODES, present // 2)
        few = 2 <= values <= most and not any("." in value and _is_number(value) for value in texts.values)
        if (few and (telling or gaps >= MIN_GAPS)) or table.columns[column].lower() in LABEL_NAMES:
            empty = f", {len(texts.codes) - present} of {len(texts.codes)} cells empty" if gaps else ""
            found[column] = f"{'by its name, ' * telling}{values} values{empty}"
            clear |= {column: found[column]} if telling and gaps >= MIN_GAPS else {}
    return clear if len(clear) == 1 else found


def _are_names(texts: Texts) -> bool:
    """Whether values are mostly distinct, short and not numeric."""
    present = max(1, int((texts.codes >= 0).sum()))
    short = sum(map(len, texts.values)) <= MEAN_NAME_LENGTH * len(texts.values)
    return len(texts.values) >= MIN_DISTINCT_NAMES * present and short and not all(map(_is_number, texts.values))


def _last_word(name: str) -> str:
    """
    >>> [_last_word(name) for name in ("page_type", "fullName", "Species", "y")]
    ['type', 'name', 'species', 'y']
    """
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)
    return words[-1].lower() if words else ""


def title_of(table: Table, column: int) -> str:
    """The feature name of a column: its name, otherwise its position."""
    return table.columns[column] or f"column {column + 1}"


def label_columns(table: Table, options: TableOptions) -> tuple[int, int]:
    """The columns of id and label; `label=False` applies to the node table only."""
    columns = {role: column for role, column in options.columns.items() if column is not False}
    node_id, label = (_given_or_named(table, columns, role) for role in ("id", "label"))
    free = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    if node_id is None and table.has_header and len(free) > 1 + (label is None):
        raise _ambiguous(table, free, "id", "--column id=NAME" + " --column label=NAME" * (label is None))
    if node_id is None and free:
        node_id = free.pop(0)
    if label is None and len(free) == 1:
        label = free.pop(0)
    if label is None and table.has_header and free:
        raise _ambiguous(table, free, "label", "--column label=NAME")
    if node_id is None or label is None or node_id == label:
        raise InputError(
            f"{table.path} has {len(table.columns)} columns, but none is named label; "
            "name two columns id and label, or give their positions: --column 'id=column 1' --column 'label=column 2'"
        )
    return node_id, label


def given_kinds(table: Table, options: TableOptions, columns: NodeColumns) -> dict[str, str]:
    """The column kinds of the options, by feature name; names of rows are text."""
    names = [title_of(table, column) for column in range(len(table.columns))]

    def name_of(column: Column) -> str:
        position = column if column in names else position_in_title(column)
        return names[position] if isinstance(position, int) and position < len(names) else str(column)

    given = {name_of(column): kind for column, kind in options.kinds.items()}
    if columns.name is not None:
        given.setdefault(names[columns.name], "text")
    return {name: kind for name, kind in given.items() if kind not in (IGNORE, FEATURE)}


def _given_or_named(table: Table, columns: Mapping[str, Any], role: str, features: Sequence[Column] = ()) -> int | None:
    """The column of a role, as given or by its name, unless that is the name of one of the features."""
    given = columns.get(role)
    if given is not None:
        return None if given is False else _position(table, given)
    taken = {str(column).lower() for column in features}
    lower = [name.lower() for name in table.columns]
    return next((lower.index(name) for name in ROLE_NAMES[role] if name in lower and name not in taken), None)


def _place(table: Table, column: Column) -> int | None:
    """The position of a column that another table may have."""
    found = table.columns.index(column) if column in table.columns else position_in_title(column)
    return found if isinstance(found, int) else None


def _position(table: Table, column: Column) -> int:
    place = _place(table, column)
    if place is None and not table.has_header:
        raise InputError(
            f"{table.path} has no header to find column {column!r} in; write 'column 1' for the first, or use "
            "--header yes"
        )
    if place is None:
        raise InputError(f"{table.path}: {unknown_name('column', column, filter(None, table.columns))}")
    if not 0 <= place < len(table.columns):
        raise InputError(f"{table.path} has no column {place}; it has {len(table.columns)}, counted from 0")
    return place
