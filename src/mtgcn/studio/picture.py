"""The picture of a node, as an address that holds it whole."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from mtgcn.studio.details import Picture


def picture_address(picture: Picture) -> str:
    """A PNG with one grey pixel for each value, dark where the value is high, as ink on paper."""
    levels = np.asarray(picture.pixels, dtype=np.float64).reshape(picture.rows, picture.columns)
    grey = (255 * (1 - np.clip(np.nan_to_num(levels), 0, 1))).round().astype(np.uint8)
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", picture.columns, picture.rows, 8, 0, 0, 0, 0)  # 8 bits, grey
    parts = _part(b"IHDR", header) + _part(b"IDAT", zlib.compress(lines)) + _part(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _part(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
