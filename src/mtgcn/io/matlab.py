"""Arrays, sparse matrices and text in MATLAB files of versions 5 to 7. (scipy's reader crashes on malformed files.)

A file is a sequence of elements: a type, a size and data. A variable is an element of elements: flags, dimensions, name
and content; it may be compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.graph_checks import compressed_matrix
from mtgcn.io.archives import CHUNK_BYTES, COPIES, opened
from mtgcn.memory import check_fits

HEADER_BYTES = 128
BYTE_ORDERS = {b"\0\x01IM": "<", b"\x01\0MI": ">"}  # from the version and the mark at the end of the header
MATRIX, COMPRESSED = 14, 15  # types of elements; the others are numbers and characters
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
UTF8 = 16
TYPES |= {UTF8: "u1", 17: "u2", 18: "u4"}  # text, also in UTF-16 and UTF-32
CELL, TEXT, SPARSE, NUMERIC = 1, 4, 5, range(6, 16)  # classes of variables
COMPLEX = 0x800  # in the flags


def mat_arrays(path: Path, wanted: Container[str]) -> dict[str, Any]:
    """The `wanted` variables of supported types by name. Malformed files can raise any exception."""
    with opened(path) as file:
        header, content = file.read(HEADER_BYTES), file.read()
    order = BYTE_ORDERS.get(header[-4:])
    if order is None:
        raise ValueError("not of version 5 to 7")
    found: dict[str, Any] = {}
    unpacked = 0
    for kind, data in _elements(content, order):
        if kind == COMPRESSED:
            chunks, unpack = [], zlib.decompressobj()
            while data:  # the size is checked on the way: a few bytes can expand without end
                chunks.append(unpack.decompress(data, CHUNK_BYTES))
                data, unpacked = unpack.unconsumed_tail, unpacked + len(chunks[-1])
                check_fits(COPIES * unpacked, f"{path}, unpacked so far,", "give a smaller graph, or sparse features")
            [(kind, data)] = _elements(b"".join(chunks), order)
        if kind == MATRIX:
            (_, flags), (_, sizes), (_, name), *parts = _elements(data, order)
            if name.decode("latin1") in wanted:
                found[name.decode()] = _value(flags, sizes, parts, order)
    return {name: value for name, value in found.items() if value is not None}


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The type and data of each element."""
    place = 0
    while place + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        start = place + 8
        if kind >> 16:  # small element: up to four bytes of data replace the size
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        if start + size > len(content):
            raise ValueError("an element is cut off")
        yield kind, content[start : start + size]
        place = start + size + (0 if kind == COMPRESSED else -(start + size) % 8)


def _value(flags: bytes, sizes: bytes, parts: Sequence[tuple[int, bytes]], order: str) -> Any:
    """The content of a variable, None if its type is not supported."""
    flag, dimensions = struct.unpack_from(f"{order}I", flags)[0], np.frombuffer(sizes, f"{order}i4").tolist()
    form = flag & 0xFF
    if form == CELL:  # an array of texts
        cells = [[*_elements(data, order)] for _, data in parts]
        values = [_value(cell[0][1], cell[1][1], cell[3:], order) for cell in cells]
        are_texts = all(isinstance(one, np.ndarray) and one.dtype.kind == "U" and len(one) == 1 for one in values)
        return np.concatenate(values) if are_texts else None
    if flag & COMPLEX or form not in (TEXT, SPARSE, *NUMERIC):
        return None
    arrays = [np.frombuffer(data, order + TYPES[kind]) for kind, data in parts]
    if form == SPARSE:
        indices, starts, numbers = arrays
        return compressed_matrix(numbers, indices, starts, tuple(dimensions), by_column=True)
    if form == TEXT:
        texts = parts[0][1].decode() if parts[0][0] == UTF8 else map(chr, arrays[0])
        return np.array(["".join(row).rstrip() for row in np.array([*texts]).reshape(dimensions, order="F")])
    return arrays[0].reshape(dimensions, order="F")
