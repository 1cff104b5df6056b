"""Which encoding a text file has: UTF-8 or, where every byte speaks for it, what Windows wrote before that."""

from __future__ import annotations

import codecs
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.io.notes import say

UTF8, WINDOWS = "utf-8", "cp1252"  # the latter holds all printable characters of Latin-1 at their places
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
CHUNK_BYTES = 16 << 20
CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a"))  # what no text holds


def encoding_of(path: Path) -> str:
    """UTF-8 or Windows-1252. A file with both is refused, since whichever was taken would be wrong for some lines."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    line = 1
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if line == 1 and chunk.startswith(UTF16_MARKS):
                raise InputError(f"{path} is UTF-16 text; save it as UTF-8")
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                return _windows(path)
            line += chunk.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return _windows(path)
    return UTF8


def _windows(path: Path) -> str:
    """Windows-1252, if no line with other letters than ASCII's is UTF-8 and all bytes are letters."""
    first, other = "", ""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.isascii():
                continue
            fault = _not_utf8(line)
            if fault is None:
                other = other or f"line {number}"
                continue
            byte, value = fault
            first = first or f"line {number}, byte {byte} (0x{value:02x})"
            if _is_windows(line):
                continue
            raise InputError(f"{path} {first} is not UTF-8; save the file as UTF-8")
    if other:
        raise InputError(f"{path} {first} is not UTF-8 while {other} is; save the whole file as UTF-8")
    say(f"{path} is not UTF-8 ({first}); it is read as Windows-1252, which holds Latin-1")
    return WINDOWS


def _not_utf8(line: bytes) -> tuple[int, int] | None:
    """The first byte that is not UTF-8, counted from 1, and its value."""
    try:
        line.decode(UTF8)
    except UnicodeDecodeError as problem:
        return problem.start + 1, line[problem.start]
    return None


def _is_windows(line: bytes) -> bool:
    try:
        line.decode(WINDOWS)
    except UnicodeDecodeError:
        return False
    return not line.translate(None, bytes(set(range(256)) - set(CONTROL)))
