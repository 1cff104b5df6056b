"""The cache folder, and arrays stored there under a fingerprint of their inputs."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mtgcn.storage.files import LOG, HeldElsewhere, exclusive_lock, read_plain, write_atomically

MAX_CACHE_BYTES = 10 * 2**30  # total size of stored arrays
CHUNK_BYTES = 2**24  # bytes per hashing task
MAX_ITEM_BYTES = np.float64().nbytes
MAX_HEADER_BYTES = 4096  # header of one array in an npz file
NAME = "stored_as"  # npz entry that repeats the name of the file, a fingerprint of the inputs


def cache_folder() -> Path:
    """The folder `$MTGCN_CACHE`, by default the user's cache folder."""
    chosen = os.environ.get("MTGCN_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path  # not needed if MTGCN_CACHE is set

    return user_cache_path("mtgcn", appauthor=False)


def stored_arrays() -> dict[Path, int]:
    """The files of stored arrays and their bytes, the least recently used first."""
    found = []
    for path in cache_folder().glob("*/*.npz"):
        with suppress(OSError):  # another process has removed it
            if re.fullmatch("[0-9a-f]{64}", path.stem):  # not a dataset
                found.append((path.stat().st_mtime_ns, path, path.stat().st_size))
    return {path: size for _, path, size in sorted(found)}


def trim_cache(limit: int | None = None) -> int:
    """Remove the least recently used arrays until at most `limit` bytes are left. Returns the number removed."""
    limit = MAX_CACHE_BYTES if limit is None else limit
    stored = stored_arrays()
    total, removed = sum(stored.values()), 0
    for path, size in stored.items():
        if total <= limit:
            break
        with suppress(OSError):
            path.unlink()
            path.with_suffix(".lock").unlink(missing_ok=True)
        total, removed = total - size, removed + 1
    return removed


def fingerprint(recipe: object, *matrices: sp.csr_array | np.ndarray | None) -> str:
    """SHA-256 of the `repr` of a recipe and the content of matrices."""
    digest = hashlib.sha256(repr(recipe).encode())
    chunks: list[memoryview] = []
    for matrix in matrices:
        digest.update(repr(None if matrix is None else matrix.shape).encode())
        if isinstance(matrix, np.ndarray):
            chunks += _chunks(matrix, np.float32)
        elif matrix is not None:
            index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
            chunks += [*_chunks(matrix.indptr, index), *_chunks(matrix.indices, index)]
            chunks += _chunks(matrix.data, np.float32)
    with ThreadPoolExecutor() as pool:
        for chunk in pool.map(hashlib.sha256, chunks):
            digest.update(chunk.digest())
    return digest.hexdigest()


def _chunks(array: np.ndarray, kind: type[np.generic]) -> list[memoryview]:
    """The bytes of an array in chunks; it is copied only if its dtype differs."""
    content = np.ascontiguousarray(array, dtype=kind).reshape(-1).view(np.uint8).data
    return [content[start : start + CHUNK_BYTES] for start in range(0, max(1, len(content)), CHUNK_BYTES)]


def cached_arrays(
    kind: str, name: str, shapes: Mapping[str, tuple[int, ...]], make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays stored under this name, or the result of `make`, which is then stored.

    If several processes need the same arrays, one computes them and the others wait. If no lock file can be written, or
    after a timeout, each process computes them.
    """
    path = cache_folder() / kind / f"{name}.npz"
    arrays = _read(path, kind, shapes)
    if arrays is not None:
        return arrays
    with ExitStack() as stack:
        try:
            waited = stack.enter_context(exclusive_lock(path.with_suffix(".lock"), f"computing the same {kind} arrays"))
        except HeldElsewhere:
            LOG.warning("the wait timed out; computing the %s arrays here as well", kind)
            waited = True
        arrays = _read(path, kind, shapes) if waited else None
        if arrays is None:
            arrays = make()
            if all(np.isfinite(array).all() for array in arrays.values()):
                _write(path, kind, arrays)
                trim_cache()
    return arrays


def _read(path: Path, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray] | None:
    """The arrays stored in a file; None if they are missing or damaged."""
    try:
        with np.load(io.BytesIO(read_plain(path)), allow_pickle=False) as content:  # with a checksum
            sizes = [*(math.prod(shape) * MAX_ITEM_BYTES for shape in shapes.values()), 0]  # the last is for NAME
            limit = sum(size + MAX_HEADER_BYTES for size in sizes)
            if sum(member.file_size for member in content.zip.infolist()) > limit:  # a zip bomb
                raise ValueError(f"it unpacks to more than {limit} bytes")
            arrays = {key: content[key] for key in shapes}
            if str(content[NAME]) != path.stem:  # copied from the file of another graph
                raise ValueError(f"it was stored as {str(content[NAME])[:80]}")
        with suppress(OSError):
            os.utime(path)  # the least recently used are removed first
        for key, shape in shapes.items():
            if arrays[key].shape != shape or arrays[key].dtype.kind != "f" or not np.isfinite(arrays[key]).all():
                raise ValueError(f"{key} does not hold finite numbers of shape {shape}")
    except FileNotFoundError:
        return None
    except Exception as error:  # any error of zipfile and numpy: the arrays can be computed again
        why = " ".join(str(error).split())[:200] or type(error).__name__
        message = f"stored {kind} arrays in {path} are invalid ({why}) and are recomputed"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    return arrays


def _write(path: Path, kind: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Store arrays; warns on failure."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays, **{NAME: np.array(path.stem)})
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise OSError(errno.EEXIST, f"{path.name} is not a plain file")
        write_atomically(path, content.getvalue())
    except OSError as error:
        why = error.strerror or error
        remedy = "free some space or set MTGCN_CACHE to another folder"
        message = f"cannot store {kind} arrays in {path.parent}: {why}; {remedy}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
