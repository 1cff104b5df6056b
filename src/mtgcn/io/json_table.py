"""Tables in JSON: a list of records, or the feature numbers of each node, `{"0": [3, 17], …}`, as in MUSAE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from mtgcn.errors import InputError, as_input_error, shown
from mtgcn.io.archives import content_of, suffix_of
from mtgcn.io.options import TableOptions
from mtgcn.io.table import MAX_COLUMNS, WHOLE_NUMBER, ArrowTable, memory_table, number_values, text_values
from mtgcn.storage.files import parsed_json

BYTES_AT_ONCE = 1 << 26  # rows times columns of features
FEATURE = re.compile("feature ([0-9]{1,5})")  # name of a column
SHAPES = 'give a list of records, [{"id": 0, "age": 36}, …], or feature numbers by node, {"0": [3, 17], …}'


def read_json(path: Path) -> Any:
    """The content of a JSON file, in which no object has a key twice."""
    content = content_of(path)
    with as_input_error(f"{path} is not JSON", "correct it, or write it again", ValueError):
        if suffix_of(path) != ".json":  # one record per line
            return [parsed_json(line, allow_nan=True) for line in content.splitlines() if line.strip()]
        return parsed_json(content, allow_nan=True)


def json_table(path: Path, options: TableOptions) -> ArrowTable:
    """The table in a JSON file."""
    content, needed = read_json(path), () if options.preprocessing is None else options.preprocessing.needed
    if isinstance(content, dict) and len(content) == 1:  # {"data": [{…}, …]}
        [inner] = content.values()
        content = inner if isinstance(inner, list) and inner and isinstance(inner[0], dict) else content
    with as_input_error(f"{path} holds an unpaired surrogate", "write its texts again as UTF-8", UnicodeEncodeError):
        if isinstance(content, list) and content and all(isinstance(record, dict) for record in content):
            names = list(dict.fromkeys(name for record in content for name in record))
            cells = [_column([row.get(name) for row in content]) for name in names]
            return memory_table(path, "JSON records", names, cells)
        if isinstance(content, dict) and "nodes" in content:
            raise InputError(f"{path} holds nodes and edges; give it as --graph")
        if isinstance(content, dict) and content and all(isinstance(numbers, list) for numbers in content.values()):
            return _feature_table(path, content, needed)
    raise InputError(f"{path} holds {shown(content)}; {SHAPES}")


def _column(cells: list[Any]) -> pa.Array:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError):  # numbers and text in one column
        return pa.array([cell if cell is None else str(cell) for cell in cells])


def _feature_table(path: Path, lists: Mapping[str, list[Any]], needed: Sequence[str]) -> ArrowTable:
    """Binary features from the feature numbers of each node. The `needed` columns are added."""
    for node, numbers in lists.items():
        for number in numbers:
            if type(number) is not int or not 0 <= number < MAX_COLUMNS - 1:
                raise InputError(
                    f"{path}: node {shown(node)} has the feature number {shown(number)}; give whole numbers from 0 "
                    f"to {MAX_COLUMNS - 2}, or values as records, [{{'id': 0, 'age': 36}}, …]"
                )
    ids = text_values(list(lists))
    ids = ids.cast(pa.int64()) if pc.all(pc.match_substring_regex(ids, WHOLE_NUMBER)).as_py() else ids
    column = np.concatenate([np.array(numbers, dtype=np.int64) for numbers in lists.values()])
    named = [int(number[1]) for number in map(FEATURE.fullmatch, needed) if number]
    width = max([int(column.max(initial=-1)), *named]) + 1
    starts = np.cumsum([0, *map(len, lists.values())])
    matrix = sp.csr_array((np.ones(len(column), np.uint8), column, starts), shape=(len(lists), width))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # some are listed twice

    def read(columns: Sequence[int]) -> Iterator[dict[int, pa.Array]]:
        step = max(1, BYTES_AT_ONCE // len(columns))
        wanted = [column - 1 for column in columns if column]
        for start in range(0, len(ids), step):
            rows = slice(start, start + step)
            found = dict(zip(wanted, matrix[rows][:, wanted].T.toarray(), strict=True))
            yield {column: number_values(found[column - 1]) if column else ids[rows] for column in columns}

    names, types = ["id", *(f"feature {number}" for number in range(width))], [ids.type, *[pa.uint8()] * width]
    return ArrowTable(path, "JSON lists of feature numbers", names, types, read)
