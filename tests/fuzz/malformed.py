"""Malformed texts, numbers, arrays, JSON and bytes."""

import io
import struct
import zipfile
import zlib
from contextlib import suppress

import numpy as np

TEXTS = (
    *("", " ", "\t", "0", "-0", "1", "-1", "1.5", "1,5", "1.234,5", "007", "1_000", "0x10", "1e3", "1e-44", "1e400"),
    *("nan", "NaN", "inf", "-inf", "None", "NA", "?", "true", "False", "ja", "2020-01-31", "31.12.1999", "12:30"),
    *("9" * 19, "9" * 400, "-" + "9" * 30, "1" + "0" * 5000, "a" * 1001, "b" * 200_000, "é", "日本", "🙂", "\u202e"),
    *('"', "'", ",", ";", "|", "a,b", 'a"b', "#", "# x", "\\", "%s", "{}", "=1+1", "<b>", "&amp;", "&#55296;", "null"),
    *("id", "label", "source", "target", "weight", "class", "\x00", "\x1a", "\ufeff", "\ufffe", "a\u0301", "\x7f"),
)
NUMBERS = (
    *(0, 1, -1, 2, 0.5, -0.0, 1e-45, 1e-44, 1e-30, 1e15, 1.0001e15, 1e20, 3.4e38, 1e39, 1e300, 2**31, 2**53 + 1),
    *(2**63, -(2**63), 2**64, 10**12, 10**400, float("nan"), float("inf"), -float("inf"), True, False),
)
# Counts on a command line: too small, small, and above every limit; counts in between take long.
COUNTS = ("-1", "0", "1", "2", "3", "5", "1.5", "1e3", "10000000", "9" * 12, "9" * 30, "9" * 5000, "x", "", "nan")
SHAPES = ((), (0,), (1,), (3,), (2, 0), (0, 2), (2, 3), (4, 4), (3, 3, 3), (1, 1, 1, 1))
DTYPES = ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?", "c8", "M8[s]", "m8[D]", "U3", "S3", "V4")


def text(random):
    return random.choice(TEXTS)


def number(random):
    return random.choice(NUMBERS)


def array(random, like):
    """A similar array: of another shape or type, with odd values, cut, doubled, or unchanged."""
    like = np.asarray(like)
    kind = random.choice(("shape", "type", "values", "values", "values", "constant", "cut", "doubled", "same"))
    with np.errstate(all="ignore"), suppress(OverflowError, ValueError, TypeError):
        if kind == "shape":
            return np.zeros(random.choice((*SHAPES, like.shape[::-1], like.shape * 2)), like.dtype)
        if kind == "type":
            return like.astype(random.choice(DTYPES))
        if kind == "constant":
            return np.full(like.shape, number(random)).astype(like.dtype)
        if kind == "values" and like.size:
            changed = like.copy()
            for place in random.choices(range(like.size), k=random.choice((1, 1, 2, like.size))):
                changed.flat[place] = number(random) if like.dtype.kind in "biufc" else text(random)[:1000]
            return changed
        if kind == "cut" and like.ndim:
            return like[..., : random.randrange(like.shape[-1] + 1)]
        if kind == "doubled" and like.ndim:
            return np.concatenate([like, like], axis=random.randrange(like.ndim))
    return like


def archive_of_zeros(members):
    """A zip archive of `.npy` files with this many MiB of zeros each, compressed by a factor of a thousand."""
    content, directory = b"", b""
    for name, mebibytes in members.items():
        head = io.BytesIO()
        shape = {"descr": "<f4", "fortran_order": False, "shape": (8, mebibytes << 15)}
        np.lib.format.write_array_header_1_0(head, shape)
        pack = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = pack.compress(head.getvalue()) + pack.flush(zlib.Z_FULL_FLUSH)
        mebibyte = pack.compress(bytes(1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH)
        packed += mebibyte * mebibytes + pack.flush()
        # The checksum is left out: it is read after everything is unpacked.
        sizes = struct.pack("<IIIHH", 0, len(packed), len(head.getvalue()) + (mebibytes << 20), len(name), 0)
        common = struct.pack("<HHHHH", 20, 0, zipfile.ZIP_DEFLATED, 0, 33)
        directory += b"PK\x01\x02\x14\x00" + common + sizes + struct.pack("<HHHII", 0, 0, 0, 0, len(content))
        directory += name.encode()
        content += b"PK\x03\x04" + common + sizes + name.encode() + packed
    counts = (0, 0, len(members), len(members), len(directory), len(content), 0)
    return content + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", *counts)


def json_value(random):
    """Any JSON value."""
    kinds = (
        *(None, random.choice((True, False)), text(random), [], {}, [[[]]], [text(random), 1, None]),
        *({text(random)[:20]: 1}, random.choice((0, -1, 1, 3, 10**12, 10**30, 0.5, 1e300))),
        *("x" * random.choice((10, 10_000, 1_000_000)), list(range(random.choice((1, 100, 10_000))))),
    )
    return random.choice(kinds)


def changed_json(random, content):
    """JSON content with one of its parts, at any depth, removed or replaced."""
    if isinstance(content, dict) and content and random.random() < 0.85:
        key = random.choice(list(content))
        if random.random() < 0.1:
            return {name: value for name, value in content.items() if name != key}
        return {**content, key: changed_json(random, content[key])}
    if isinstance(content, list) and content and random.random() < 0.85:
        place = random.randrange(len(content))
        if random.random() < 0.1:
            return content[:place] + content[place + 1 :]
        return [*content[:place], changed_json(random, content[place]), *content[place + 1 :]]
    return json_value(random)


def changed_bytes(random, content):
    """The same bytes with a few parts removed, doubled or replaced."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        start = random.randrange(len(content) + 1)
        end = random.choice((start, start + random.choice((1, 4, 16, 200)), len(content)))
        odd = random.choice((0, 10, 13, 34, 44, 127, 255, random.randrange(256)))
        text_bytes = text(random).encode("utf-8", "surrogatepass")[:3000]
        part = random.choice((b"", content[start : start + 200] * 2, bytes([odd]), text_bytes))
        content = content[:start] + part + content[end:]
    return content


def damage(random, path, chance=1.0):
    """Change some bytes of a file."""
    if random.random() < chance:
        path.write_bytes(changed_bytes(random, path.read_bytes()))
