"""The files of a model folder: written whole or not at all, and read only if they are what the card says they are."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.errors import InputError
from mtgcn.storage.folders import current_path, updating
from mtgcn.storage.locks import HeldElsewhere

CARD, WEIGHTS, ANSWERS, GRAPH = "card.json", "weights.safetensors", "answers.safetensors", "graph.safetensors"
FILES = (CARD, WEIGHTS, ANSWERS, GRAPH)

Arrays = dict[str, np.ndarray]


def damaged(folder: Path, why: str) -> InputError:
    """What to raise of a folder that is no longer what was written."""
    return InputError(f"model folder {folder} is damaged: {why}; restore it from a copy, or fit the model again")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A folder to fill, whose files become those of the model in `folder` once that is done; otherwise nothing has
    happened. All else in `folder` stays as it is."""
    try:
        with updating(folder, FILES) as partial:
            yield partial
    except HeldElsewhere:
        raise InputError(
            f"another process is writing model folder {folder} and does not end; try again, or give another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write model folder {folder}: {error.strerror or error}; make room or give another folder, "
            "nothing was changed"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _force_to_disk(path)


def write_arrays(path: Path, arrays: Arrays) -> dict[str, Any]:
    """Writes a safetensors file; returns its entry in the card."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path.touch()
    usual_mode = path.stat().st_mode  # safetensors would let only the owner read the file
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # a full disk, for instance
        raise OSError(str(error)) from error
    path.chmod(usual_mode)
    _force_to_disk(path)
    return entry_of(path)


def read_arrays(folder: Path, name: str, entry: Mapping[str, Any]) -> Arrays:
    """The arrays of a safetensors file that is what its entry in the card says."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if name not in FILES:
        raise damaged(folder, f"its card names a file {name!r}")
    path = current_path(folder, name)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise damaged(folder, f"{name} is not a plain file")
        size = found.st_size
        if size != entry["bytes"]:
            raise damaged(folder, f"{name} has {size} bytes, not {entry['bytes']}")
        if entry_of(path)["sha256"] != entry["sha256"]:
            raise damaged(folder, f"{name} was changed after it was written")
        return load_file(path)
    except FileNotFoundError:
        raise damaged(folder, f"{name} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error
    except SafetensorError as error:
        raise damaged(folder, f"{name} is no safetensors file, {error}") from error


def entry_of(path: Path) -> dict[str, Any]:
    """What the card says of a file: its size and checksum."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _force_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
