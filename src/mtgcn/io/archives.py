"""Compressed files: gzip of any format, and archives of arrays (`.npz`). Requires only NumPy and SciPy.

Published archives often contain scipy matrices, which NumPy stores as pickles, and a pickle may run any code. Only a
few types are allowed, and they are replaced by inert placeholders, so no code of NumPy or SciPy runs.
"""

from __future__ import annotations

import gzip
import io
import pickle
import re
import warnings
import zlib
from collections import defaultdict
from collections.abc import Container
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from mtgcn.errors import InputError, as_input_error, shown
from mtgcn.graph_checks import compressed_matrix
from mtgcn.memory import check_fits

CHUNK_BYTES = 16 << 20
MAX_BYTES = 256 << 20  # unpacked size of a file that is parsed as a whole; tables may be larger
MEMORY_FACTOR = 20  # memory of such a file after parsing, relative to its size
COPIES = 3  # copies of the arrays while they are checked and converted
PLACEHOLDERS = re.compile(
    r"numpy\.(dtype|ndarray|(_core|core)\.multiarray\._reconstruct)|scipy\.sparse\._?(csr\.csr|csc\.csc)_(matrix|array)"
)
PLAIN_TYPES: dict[tuple[str, str], Any] = {
    **dict.fromkeys([("builtins", "list"), ("__builtin__", "list")], list),
    ("collections", "defaultdict"): defaultdict,
}


def is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def suffix_of(path: Path) -> str:
    """The suffix that names the format: `.csv` also of `edges.csv.gz`."""
    return Path(path.stem if is_gzip(path) else path.name).suffix.lower()


def opened(path: Path) -> BinaryIO:
    """Open a file for reading; gzip is unpacked on the fly."""
    return gzip.open(path) if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def unpacked_size(path: Path) -> int:
    """The unpacked size of a file, limited by free memory, since a few bytes of gzip can expand without end."""
    if not is_gzip(path):
        return path.stat().st_size
    size, message = 0, f"{path} is not a complete gzip file"
    with as_input_error(message, "download or write it again", OSError, EOFError, zlib.error), gzip.open(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            check_fits(size, f"{path}, unpacked so far,", "unpack it and give that file")
    return size


def content_of(path: Path) -> bytes:
    """The content of a file that is parsed as a whole."""
    size = unpacked_size(path)
    if size > MAX_BYTES:
        raise InputError(
            f"{path} has {size >> 20} MiB, more than the {MAX_BYTES >> 20} of this format; "
            "write the graph as an edge list in Parquet"
        )
    check_fits(MEMORY_FACTOR * size, f"{path}, read in this format,", "write the graph as an edge list in Parquet")
    with opened(path) as file:
        return file.read()


def npz_arrays(file: BinaryIO, title: str, wanted: Container[str]) -> dict[str, Any]:
    """The `wanted` arrays and sparse matrices of an archive by name, None for others. Malformed archives can raise
    any exception of NumPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about old headers
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"{title} holds one array and no names; write it with numpy.savez(…, edge_index=…)")
        # The size is checked before unpacking: a few bytes can expand without end.
        members = archive.zip.infolist() if archive.zip else []
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{title} holds {shown(twice)} twice; write it again, each array once")
        unpacked = sum(member.file_size for member in members)
        check_fits(COPIES * unpacked, f"{title}, unpacked,", "give a smaller graph, or features as a sparse matrix")
        return {name: _member(archive, name) if name in wanted else None for name in archive.files}


def _member(archive: Any, name: str) -> Any:
    try:
        return archive[name]
    except ValueError as problem:
        if "allow_pickle" not in str(problem):
            raise
    content = io.BytesIO(archive.zip.read(f"{name}.npy"))
    npy.read_magic(content)
    npy.read_array_header_1_0(content)
    return unpickled(content.read())


def unpickled(content: bytes) -> Any:
    """The array, the matrix, or the dictionary of these and plain objects in a pickle, which may be of Python 2.
    Malformed pickles can raise any exception."""
    reader = _RestrictedUnpickler(io.BytesIO(content), encoding="latin1")  # preserves the bytes of Python 2 strings
    value = _converted(reader.load())
    return {key: _converted(part) for key, part in value.items()} if isinstance(value, dict) else value


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in PLAIN_TYPES:
            return PLAIN_TYPES[module, name]
        if PLACEHOLDERS.fullmatch(f"{module}.{name}"):
            return type(name, (_Placeholder,), {})
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which graph data do not need")


class _Placeholder:
    """Placeholder for an unpickled object: its constructor arguments and state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _converted(value: Any) -> Any:
    """The array or matrix of a placeholder; anything else unchanged."""
    if not isinstance(value, _Placeholder):
        return value
    form = type(value).__name__
    if form.startswith("cs"):
        data, indices, indptr = (_converted(value.state[part]) for part in ("data", "indices", "indptr"))
        shape = tuple(value.state["_shape"])
        return compressed_matrix(data, indices, indptr, shape, by_column=form.startswith("csc"))
    if form != "_reconstruct":
        raise ValueError(f"numpy.{form} is not an array")
    _, shape, kind, by_column, content = value.state
    code = kind.arguments[0]
    if code in ("O", "O8"):  # a list of objects
        return _converted(content[0]) if shape == () else content
    if not re.fullmatch("[biufSU][0-9]+", code):
        raise ValueError(f"an array of type {shown(code)}")
    content = content.encode("latin1") if isinstance(content, str) else content
    numbers = np.frombuffer(content, kind.state[1] + code) if content else np.empty(0, code)
    return numbers.reshape(shape, order="F" if by_column else "C").copy()
