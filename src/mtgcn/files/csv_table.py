"""CSV in blocks of whole lines, so that memory stays small and every complaint can name its line."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from mtgcn.errors import InputError
from mtgcn.files.paths import reason, shown
from mtgcn.files.table import Batch, Coded, Table, is_finite_number

BLOCK_BYTES = 16 << 20
LONGEST_LINE = 64 << 20
SAMPLE_LINES = 50  # looked at to tell a header from data
NEWLINE = b"\n"
BLANKS = " \t"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
DELIMITERS = (",", ";", "|")
COMMENT = re.compile(rb"#(\s|$)")  # "# nodes: 5" opens many published edge lists; "#5" may be an id


class CsvTable(Table):
    """Text with one row per line. The delimiter is found in the first line unless it is given."""

    unit = "line"

    def __init__(
        self,
        path: Path,
        is_header: Callable[[list[str], list[list[str]]], bool],
        delimiter: str | None = None,
    ) -> None:
        self.path = path
        beginning = self._beginning()
        self.first_place, first_line = beginning[0]
        self.delimiter = delimiter or _delimiter_of(path, first_line)
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or not self.delimiter.isascii():
            raise InputError(f"delimiter {self.delimiter!r}; give one character such as ',' or '\\t'")
        first, *others = [self._cells(line, number) for number, line in beginning]
        others = [row for row in others if any(row)]
        self.has_header = is_header(first, others)
        self.columns = tuple(first) if self.has_header else ("",) * len(first)
        self.sample = others if self.has_header else [first, *others]
        named = [name for name in self.columns if name]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise InputError(f"{self.at(self.first_place)} names column {shown(twice)} twice; rename one")

    def batches(self, texts: Sequence[int], numbers: Sequence[int]) -> Iterator[Batch]:
        for first_line, block in self._blocks():
            if first_line <= self.first_place:  # comments above the data, and the header
                block_lines = block.split(NEWLINE, self.first_place - first_line + self.has_header)
                first_line += len(block_lines) - 1
                block = block_lines[-1]
            if block.strip():
                yield self._batch(first_line, block, texts, numbers)

    def _beginning(self) -> list[tuple[int, str]]:
        """The first lines that are neither empty nor a comment on top, and their numbers."""
        for first_line, block in self._blocks():
            lines = list(enumerate(block.split(NEWLINE), first_line))
            for start, (_, line) in enumerate(lines):
                if line.strip() and not COMMENT.match(line):
                    some = lines[start : start + SAMPLE_LINES]
                    return [(number, text.decode()) for number, text in some if text.strip()]
        raise InputError(f"{self.path} holds only empty lines and comments; write it again, with at least one row")

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines that end in line feeds, UTF-8 for certain, each with the number of its first line."""
        line, rest, held = 1, b"", b""
        with self.path.open("rb") as file:
            while chunk := file.read(BLOCK_BYTES):
                if line == 1 and not rest:
                    if chunk.startswith(UTF16_MARKS):
                        raise InputError(f"{self.path} is UTF-16 text; save it as UTF-8")
                    chunk = chunk.removeprefix(BYTE_ORDER_MARK)
                chunk = held + chunk
                held = b"\r" if chunk.endswith(b"\r") else b""  # what follows it decides what it is
                chunk = _with_line_feeds(chunk.removesuffix(held))
                whole, newline, after = chunk.rpartition(NEWLINE)
                if not newline:
                    rest += chunk
                    if len(rest) > LONGEST_LINE:
                        raise InputError(
                            f"{self.at(line)} is longer than {LONGEST_LINE >> 20} MiB; is this a table in text?"
                        )
                    continue
                block = rest + whole + NEWLINE
                self._check_text(block, line)
                yield line, block
                line += block.count(NEWLINE)
                rest = after
            rest += NEWLINE if held else b""
            if rest:
                self._check_text(rest, line)
                yield line, rest if rest.endswith(NEWLINE) else rest + NEWLINE

    def _check_text(self, block: bytes, first_line: int) -> None:
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as problem:
                line_start = block.rfind(NEWLINE, 0, problem.start) + 1
                place = self.at(first_line + block.count(NEWLINE, 0, problem.start))
                raise InputError(
                    f"{place}, byte {problem.start - line_start + 1} (0x{block[problem.start]:02x}) is not UTF-8; "
                    "save the file as UTF-8"
                ) from None
        if (nul := block.find(b"\0")) >= 0:
            raise InputError(
                f"{self.at(first_line + block.count(NEWLINE, 0, nul))} holds a NUL byte; is it a text file?"
            )

    def _batch(self, first_line: int, block: bytes, texts: Sequence[int], numbers: Sequence[int]) -> Batch:
        if self.delimiter == " ":  # such files pad their columns
            block = re.sub(rb" *\n *", NEWLINE, re.sub(rb" +", b" ", block)).lstrip(b" ")
        types = {str(column): pa.dictionary(pa.int32(), pa.string()) for column in texts}
        types |= {str(column): pa.float32() for column in numbers}
        try:
            rows = arrow_csv.read_csv(
                pa.BufferReader(block),
                read_options=arrow_csv.ReadOptions(
                    column_names=[str(column) for column in range(len(self.columns))], block_size=len(block) + 1
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
                ),
            ).combine_chunks()
        except (pa.ArrowException, ValueError) as problem:
            raise self._what_is_wrong(first_line, block, numbers, problem) from None
        lines = _lines_with_text(block, first_line)
        if len(lines) != rows.num_rows:
            raise self._what_is_wrong(first_line, block, numbers, ValueError("a value holds a line break"))

        def column(number: int) -> pa.Array:
            return rows[str(number)].chunk(0)

        values = np.empty((rows.num_rows, len(numbers)), np.float32)
        if rows.num_rows:
            for place, number in enumerate(numbers):
                values[:, place] = column(number).to_numpy()
        if not np.isfinite(values).all():
            raise self._what_is_wrong(first_line, block, numbers, ValueError("a number is not finite"))
        return Batch([Coded.of(column(number), pc.utf8_trim_whitespace) for number in texts], values, lines)

    def _what_is_wrong(self, first_line: int, block: bytes, numbers: Sequence[int], problem: Exception) -> InputError:
        """The first fault of a block, found line by line; slow, but there is only one such block."""
        for number, line in enumerate(block.decode().split("\n"), first_line):
            if not line:
                continue
            try:
                cells = self._cells(line, number)
            except InputError as error:
                return error
            if len(cells) != len(self.columns):
                return InputError(
                    f"{self.at(number)} has {_counted(len(cells), 'column')} where line {self.first_place} has "
                    f"{len(self.columns)} ({shown(line)}); mend the line, or write the file again if it was cut off"
                )
            for column in numbers:
                if not is_finite_number(cells[column]):
                    return self.not_a_number(number, column, cells[column])
        return InputError(f"{self.path} cannot be read as CSV ({reason(problem)}); write it again")

    def _cells(self, line: str, number: int) -> list[str]:
        if self.delimiter == " ":
            line = re.sub(" +", " ", line.strip(" "))
        try:
            cells, *end = csv.reader([line or '""', ""], delimiter=self.delimiter)
        except csv.Error as problem:  # a cell of more than 128 KiB
            raise InputError(
                f"{self.at(number)} cannot be read ({reason(problem)}); is this a table in text?"
            ) from None
        if not end:  # the second, empty line went into a quote that the first one opened
            raise InputError(
                f"{self.at(number)} opens a quote and does not close it ({shown(line)}); "
                "close it, and keep every row on one line"
            )
        return [cell.strip(BLANKS) for cell in cells]


def _with_line_feeds(chunk: bytes) -> bytes:
    return chunk.replace(b"\r\n", NEWLINE).replace(b"\r", NEWLINE) if b"\r" in chunk else chunk


def _delimiter_of(path: Path, line: str) -> str:
    if path.suffix == ".tsv" or "\t" in line:
        return "\t"
    most = max(DELIMITERS, key=line.count)
    return most if most in line or " " not in line.strip() else " "


def _lines_with_text(block: bytes, first_line: int) -> np.ndarray:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord(NEWLINE))
    return first_line + np.flatnonzero(np.diff(ends, prepend=-1) > 1)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
