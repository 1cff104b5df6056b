"""Where files and folders may be written, asked before time is spent on what goes into them."""

from __future__ import annotations

import os
from pathlib import Path

from mtgcn.errors import InputError


def check_file(path: str | Path) -> None:
    """Refuse a file that could not be written."""
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file name")
    _check_parents(path, f"cannot write {path}", "give another place")


def check_folder(folder: str | Path, holds: str = "what is written") -> None:
    """Refuse a folder that could not be made, or replaced where it is there already. `holds` is what it is for."""
    folder = Path(os.path.abspath(folder))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give a folder for {holds}")
    _check_parents(folder, f"cannot make folder {folder}", "give another folder")


def _check_parents(path: Path, complaint: str, remedy: str) -> None:
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"{complaint}: {nearest} is a file; {remedy}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {nearest}: permission denied; {remedy}")
