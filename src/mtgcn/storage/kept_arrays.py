"""Arrays that took long to make, kept in the user's cache folder under a fingerprint of all they depend on."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import warnings
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mtgcn.storage.atomic import write_atomically
from mtgcn.storage.cache import cache_folder
from mtgcn.storage.locks import LOG, HeldElsewhere, one_at_a_time
from mtgcn.storage.reading import read_plain

PIECE = 2**24  # bytes that are hashed by one thread
LARGEST_NUMBER = np.float64().nbytes
LONGEST_HEADER = 4096  # bytes before the numbers of an array, generously


def fingerprint(recipe: object, *matrices: sp.csr_array | np.ndarray | None) -> str:
    """Of what a recipe says (its `repr`) and of the matrices it was made with."""
    digest = hashlib.sha256(repr(recipe).encode())
    pieces: list[memoryview] = []
    for matrix in matrices:
        digest.update(repr(None if matrix is None else matrix.shape).encode())
        if isinstance(matrix, np.ndarray):
            pieces += _pieces(matrix, np.float32)
        elif matrix is not None:
            index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
            pieces += [*_pieces(matrix.indptr, index), *_pieces(matrix.indices, index)]
            pieces += _pieces(matrix.data, np.float32)
    with ThreadPoolExecutor() as pool:  # threads are started when there is something for them to do
        for piece in pool.map(hashlib.sha256, pieces):
            digest.update(piece.digest())
    return digest.hexdigest()


def _pieces(array: np.ndarray, kind: type[np.generic]) -> list[memoryview]:
    """The bytes of an array, without a copy where it has that kind already; a few at a time, so that hashing them is
    work for several threads."""
    content = np.ascontiguousarray(array, dtype=kind).reshape(-1).view(np.uint8).data
    return [content[start : start + PIECE] for start in range(0, max(1, len(content)), PIECE)]


def kept_or_made(
    kind: str, name: str, shapes: Mapping[str, tuple[int, ...]], make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays kept under that name, else those that `make` gives, which are kept from now on. Of several processes
    that need the same arrays at the same time one makes them and the others wait, but not for ever; where no lock can
    be written, or nobody lets go of it, work is at worst done twice."""
    arrays = _read(kind, name, shapes)
    if arrays is None:
        with ExitStack() as stack:
            lock = one_at_a_time(_path(kind, name).with_suffix(".lock"), f"making the same {kind} numbers")
            try:
                waited = stack.enter_context(lock)
            except HeldElsewhere:
                LOG.warning("that took too long; going on without the %s numbers of the other process", kind)
                waited = True
            arrays = _read(kind, name, shapes) if waited else None
            if arrays is None:
                arrays = make()
                if all(np.isfinite(array).all() for array in arrays.values()):  # else nobody could use them
                    _write(kind, name, arrays)
    return arrays


def is_kept(kind: str, name: str) -> bool:
    """Whether there is something under that name; it may still turn out to be damaged."""
    return _path(kind, name).is_file()


def _read(kind: str, name: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray] | None:
    """The arrays kept under that name; None where there are none, or where they are damaged and must be made again."""
    path = _path(kind, name)
    try:
        packed = read_plain(path)  # a zip file, which carries a sum of its content
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        due = sum(math.prod(shape) * LARGEST_NUMBER + LONGEST_HEADER for shape in shapes.values())
        if unpacked > due:  # a few bytes can grow without end
            raise ValueError(f"{unpacked} bytes where {due} are the most")
        with np.load(io.BytesIO(packed), allow_pickle=False) as content:
            arrays = {key: content[key] for key in shapes}
        for key, shape in shapes.items():
            if arrays[key].shape != shape or arrays[key].dtype.kind != "f" or not np.isfinite(arrays[key]).all():
                raise ValueError(f"{key} is not of shape {shape} and finite numbers")
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever zipfile and numpy stumbled over, the numbers can be made again
        message = f"the {kind} numbers kept in {path} cannot be used ({_short(error)}); they are made anew"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    return arrays


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _write(kind: str, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Keep these arrays. Where that fails there is a warning and the next process has to make them again."""
    path = _path(kind, name)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise OSError(errno.EEXIST, f"{path.name} is not a plain file")
        write_atomically(path, content.getvalue())
    except OSError as error:
        warnings.warn(
            f"cannot keep {kind} numbers in {path.parent}: {error.strerror or error}; "
            "make room there or set MTGCN_CACHE to another folder",
            RuntimeWarning,
            stacklevel=2,
        )


def _path(kind: str, name: str) -> Path:
    return cache_folder() / kind / f"{name}.npz"
