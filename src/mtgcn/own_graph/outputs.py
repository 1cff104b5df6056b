"""Where files may be written, asked before time is spent on what goes into them."""

from __future__ import annotations

import os
from pathlib import Path

from mtgcn.errors import InputError


def check_file_destination(path: Path) -> None:
    """Refuse a file that could not be written."""
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file name")
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"cannot write {path}: {nearest} is a file; give another place")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {nearest}: permission denied; give another place")
