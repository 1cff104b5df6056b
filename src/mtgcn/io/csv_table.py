"""CSV, read in blocks of whole lines, so that memory stays small and errors name a line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from mtgcn.errors import InputError, as_input_error, note, reason, shown
from mtgcn.io.archives import CHUNK_BYTES, opened
from mtgcn.io.table import Batch, Coded, Faults, Table
from mtgcn.memory import is_out_of_memory

BLOCK_SIZE = 16 << 20  # characters
MAX_LINES_OF_A_CELL = 1000
MAX_TITLES, TITLE = 3, re.compile("[^\\W\\d_]{3}")  # title lines above the header, which contain a word
SAMPLE_LINES = 50  # inspected to find the delimiter and the header
BLANKS = " \t"
DELIMITERS = (";", "|", ",")  # the first one that splits all lines evenly
DELIMITER_NAMES = {" ": "spaces", "\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
COMMENT = re.compile(r"#(\s|$)|%(\s|%|$)")  # "# nodes: 5" opens many published edge lists; "#5" may be an id
MATRIX_MARKET = "%%MatrixMarket"  # a line of sizes follows its comments, then the entries
ATTRIBUTES = re.compile(r"[ \t,;|]\{('.*)?\}$", re.MULTILINE)  # attributes of an edge, as written by networkx
WEIGHT = re.compile("'weight': ([^,}]+)")
QUOTED = re.compile(r'(?:^|(?<=[\t ,;|]))"(?:[^"]|"")*+"(?=[\t ]*(?:[,;|\t]|$))', re.MULTILINE)  # a quoted cell
JOINED = "\x1e"  # replaces a line break in a cell
ROW = re.compile(f".*{JOINED}.*\n")
UTF8, UTF16, WINDOWS = "utf-8", "utf-16", "cp1252"  # cp1252 includes Latin-1
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NOT_WINDOWS = {*range(32), *b"\x81\x8d\x8f\x90\x9d"}.difference(b"\t\n\v\f\r\x1a")  # bytes that do not occur in text


class CsvTable(Table):
    """Text with one row per line; the delimiter is found automatically unless it is given."""

    unit = "line"

    def __init__(self, path: Path, delimiter: str | None = None, *, edges: bool = False) -> None:
        self.path, self._edges = path, edges
        self.encoding = encoding_of(path)
        beginning = self._beginning()
        titles = 0 if edges else _title_lines([line for _, line in beginning])
        if titles:
            title = shown(beginning[0][1].strip(",;|"))
            note(f"{path}: what is above line {beginning[titles][0]} ({title}) is read as a title and left out")
            beginning = beginning[titles:]
        self.first_place = beginning[0][0]
        self.delimiter = delimiter or _delimiter_of(path, [line for _, line in beginning])
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or not self.delimiter.isascii():
            raise InputError(f"delimiter {self.delimiter!r}; give one character such as ',' or '\\t'")
        first, *others = [self._cells(line, number) for number, line in beginning]
        self.rows = [first, *(row for row in others if any(row))]
        self.take_header(False)

    @property
    def form(self) -> str:  # type: ignore[override]
        name = DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        return f"separated by {name}, {'with' if self.has_header else 'no'} header"

    def take_header(self, has_header: bool, *, guessed: bool = False) -> CsvTable:
        """Read the first row as the header, or as data."""
        self.has_header, self.header_is_guessed = has_header, guessed
        self.columns = tuple(self.rows[0]) if has_header else ("",) * len(self.rows[0])
        self.check_columns(self.columns)
        return self

    def batches(self, texts: Sequence[int], features: Sequence[int] = ()) -> Iterator[Batch]:
        faults = Faults()
        for first_line, block in self._blocks():
            if first_line <= self.first_place:  # without leading comments and the header
                lines_of_block = block.split("\n", self.first_place - first_line + self.has_header)
                first_line, block = first_line + len(lines_of_block) - 1, lines_of_block[-1]
            if not block.strip():
                continue
            try:
                cells, lines = self._cells_of(first_line, block, {*texts, *features})
            except (pa.ArrowException, ValueError) as problem:
                if isinstance(problem, InputError) or is_out_of_memory(problem):
                    raise
                self._find_faults(faults, first_line, block)
                if not faults:
                    message = f"{self.path} cannot be read as CSV ({reason(problem)}); write it again"
                    raise InputError(message) from None
                continue
            if not faults:  # after a fault, only further faults are collected
                yield Batch([cells[column] for column in texts], [cells[column] for column in features], lines)
        faults.raise_first_kind()

    def _beginning(self) -> list[tuple[int, str]]:
        """The first lines that are neither empty nor a comment, with their numbers."""
        for first_line, block in self._blocks():
            lines = [(number, line) for number, line in enumerate(block.split("\n"), first_line) if line.strip()]
            width = next((_words(line) for _, line in lines if line[0] not in "#%"), None)  # words in the first row
            start = 0
            while start < len(lines) and (
                COMMENT.match(line := lines[start][1])
                or (self._edges and line[0] in "#%" and width not in (None, _words(line)))
            ):
                start += 1
            if lines and lines[0][1].startswith(MATRIX_MARKET):
                if " array " in lines[0][1]:
                    raise InputError(f"{self.path} holds a dense matrix, not a list of edges; give it as --graph")
                start += 1
            if start < len(lines):
                return lines[start : start + SAMPLE_LINES]
        raise InputError(f"{self.path} holds only empty lines and comments; write it again, with at least one row")

    def _blocks(self) -> Iterator[tuple[int, str]]:
        """Blocks of whole lines, and the number of their first line."""
        first, encoding = 1, "utf-8-sig" if self.encoding == UTF8 else self.encoding
        with io.TextIOWrapper(opened(self.path), encoding) as file:
            while lines := file.readlines(BLOCK_SIZE):
                quotes = sum(line.count('"') for line in lines)
                for line in islice(file, MAX_LINES_OF_A_CELL) if quotes % 2 else ():  # a cell may continue
                    lines.append(line)
                    quotes += line.count('"')
                    if quotes % 2 == 0:
                        break
                block = "".join(lines)
                if (nul := block.find("\0")) >= 0:
                    at = self.at(first + block.count("\n", 0, nul))
                    raise InputError(f"{at} holds a NUL byte; is it a text file?")
                block = block if block.endswith("\n") else block + "\n"
                if self._edges and "{" in block:  # edge attributes such as {'weight': 2} become the weight
                    block = ATTRIBUTES.sub(
                        lambda found: found[0][0] + weight[1] if (weight := WEIGHT.search(found[0])) else "", block
                    )
                yield first, _on_one_line(block) if '"' in block else block
                first += len(lines)

    def _cells_of(self, first_line: int, block: str, columns: set[int]) -> tuple[dict[int, Coded], np.ndarray]:
        """The cells of some columns in a block, and the line of each row."""
        ends = np.flatnonzero(np.frombuffer(block.encode(), np.uint8) == ord("\n"))
        lines = first_line + np.flatnonzero(np.diff(ends, prepend=-1) > 1)  # non-empty lines
        if self.delimiter == " ":  # columns may be padded
            block = re.sub(" *\n *", "\n", re.sub(" +", " ", block)).lstrip(" ")
        encoded = block.encode()
        # Arrow owns the copy: freeing Python bytes from arrow's threads at interpreter exit would abort the process.
        content = pa.allocate_buffer(len(encoded))
        memoryview(content).cast("B")[:] = encoded
        named = dict.fromkeys(map(str, columns), pa.dictionary(pa.int32(), pa.string()))
        rows = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                column_names=[str(column) for column in range(len(self.columns))], block_size=len(encoded) + 1
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=named, include_columns=list(named), strings_can_be_null=False
            ),
        ).combine_chunks()
        if len(lines) != rows.num_rows:
            raise ValueError("a value holds a line break")
        return {one: Coded.of(rows[str(one)].chunk(0), pc.utf8_trim_whitespace) for one in columns}, lines

    def _find_faults(self, faults: Faults, first_line: int, block: str) -> None:
        """Find the faults of a block line by line."""
        due = len(self.columns)
        for number, line in enumerate(block.split("\n"), first_line):
            if not line:
                continue
            try:
                cells = self._cells(line, number)
            except InputError as error:
                message, _, remedy = str(error).rpartition("; ")
                faults.add(message, remedy, [f"line {number}"])
                continue
            if len(cells) != due:
                have = f"{len(cells)} column{'s' * (len(cells) > 1)}"
                faults.add(
                    f"{self.at(number)} has {have} where line {self.first_place} has {due} ({shown(line)})",
                    "correct the line (quote cells that hold the delimiter), or write the file again if it was cut off",
                    [f"line {number} has {len(cells)}"],
                )

    def _cells(self, line: str, number: int) -> list[str]:
        if self.delimiter == " ":
            line = re.sub(" +", " ", line.strip(" "))
        # The csv module refuses cells of more than 128 KiB.
        with as_input_error(f"{self.at(number)} cannot be read", "is this a table in text?", csv.Error):
            cells, *end = csv.reader([line or '""', ""], delimiter=self.delimiter)
        if not end:  # the empty line became part of an open quote
            raise InputError(
                f"{self.at(number)} opens a quote and does not close it ({shown(line)}); "
                "close it, and keep every row on one line"
            )
        return [cell.strip(BLANKS) for cell in cells]


def _on_one_line(block: str) -> str:
    """Join rows whose quoted cells contain line breaks; empty lines follow, so that line numbers do not change."""
    joined = QUOTED.sub(lambda cell: cell[0].replace("\n", JOINED), block)
    if JOINED not in joined:
        return joined
    return ROW.sub(lambda row: row[0].replace(JOINED, " ") + "\n" * row[0].count(JOINED), joined)


def _words(line: str) -> int:
    return len(re.split(r"[\s,;|]+", line.strip()))


def _title_lines(lines: Sequence[str]) -> int:
    """The number of title lines: text in the first cell only, above rows of several cells.

    A title may contain a less likely delimiter, such as the comma of "Sales, 2024" above semicolons, unless that
    delimiter splits all lines evenly.
    """
    separators = ("\t", *DELIMITERS)
    for count in range(1, min(MAX_TITLES, len(lines) - 2) + 1):
        for place, delimiter in enumerate(separators):
            rows = _rows(lines, delimiter)
            alone = [not any(cell.strip() for cell in row[1:]) for row in rows[: count + 1]]
            if (
                alone == [True] * count + [False]
                and _are_even(rows[count:])
                and not any(one in line for one in separators[:place] for line in lines[:count])
                and not any(one in lines[0] and _are_even(_rows(lines, one)) for one in separators[place + 1 :])
                and TITLE.search(lines[0])
            ):
                return count
    return 0


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    with suppress(csv.Error):  # a cell of more than 128 KiB
        return list(csv.reader(lines, delimiter=delimiter))
    return []


def _are_even(rows: Sequence[Sequence[str]]) -> bool:
    """Whether all rows have the same number of cells, and more than one."""
    widths = {len(row) for row in rows}
    return len(widths) == 1 and widths != {1}


def _delimiter_of(path: Path, lines: Sequence[str]) -> str:
    """A tab; otherwise the delimiter that splits all first lines evenly; otherwise the most frequent one."""
    first = lines[0]
    if "\t" in first:
        return "\t"
    even = [delimiter for delimiter in DELIMITERS if _are_even(_rows(lines, delimiter))]
    most = max(even or DELIMITERS, key=first.count)
    return most if most in first or " " not in first.strip() else " "


def encoding_of(path: Path) -> str:
    """UTF-8 or UTF-16; or Windows-1252, if no non-ASCII line is UTF-8 and all bytes are printable."""
    with opened(path) as file:
        encoding = UTF16 if file.read(2) in UTF16_MARKS else UTF8
        file.seek(0)
        try:
            for _ in codecs.iterdecode(iter(partial(file.read, CHUNK_BYTES), b""), encoding):
                pass
            return encoding
        except UnicodeDecodeError as problem:
            if encoding == UTF16:
                raise InputError(f"{path} is not complete UTF-16 text ({problem.reason}); save it as UTF-8") from None
        file.seek(0)
        first, other = "", ""
        for number, line in enumerate(file, 1):
            try:
                line.decode(UTF8)
                other = other or ("" if line.isascii() else f"line {number}")
            except UnicodeDecodeError as problem:
                first = first or f"line {number}, byte {problem.start + 1} (0x{line[problem.start]:02x})"
                if not NOT_WINDOWS.isdisjoint(line):
                    raise InputError(f"{path} {first} is not UTF-8; save the file as UTF-8") from None
    if other:
        raise InputError(f"{path} {first} is not UTF-8 while {other} is; save the whole file as UTF-8")
    note(f"{path} is not UTF-8 ({first}); it is read as Windows-1252, which includes Latin-1")
    return WINDOWS
