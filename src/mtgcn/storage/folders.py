"""Replaces several files of a folder together: readers find all old files or all new ones.

New files are written to a temporary subfolder. Renaming it to `.replacement` commits them; then each moves to its
place. After a crash in between, readers find the rest in `.replacement` and the next writer moves it. The folder itself
and all other files in it stay: it may be a mount point.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mtgcn.storage.files import copy_mode, force_to_disk
from mtgcn.storage.locks import exclusive_lock

Content = TypeVar("Content")

READY = ".replacement"
PARTIAL = ".mtgcn-*.partial"
LOCK = ".mtgcn.lock"
TIMEOUT = 60.0  # seconds to wait for another process that writes to the same folder


def current_path(folder: Path, name: str) -> Path:
    """Where the committed file of that name is."""
    ready = folder / READY / name
    return ready if os.path.exists(ready) else folder / name


def read_current(folder: Path, name: str, read: Callable[[Path], Content]) -> Content:
    """Apply `read` to the committed file of that name; tries again if the file moves meanwhile."""
    while True:
        path = current_path(folder, name)
        try:
            return read(path)
        except FileNotFoundError:
            if path == folder / name == current_path(folder, name):
                raise


def has_other_files(folder: Path) -> bool:
    """Whether a folder holds anything besides the remains of an interrupted update."""
    return any(path.name not in (READY, LOCK) and not path.match(PARTIAL) for path in folder.iterdir())


@contextmanager
def updating(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder for some of these files; on success they replace all of them in `folder`, on failure
    nothing changes. Raises `HeldElsewhere` if another process keeps writing to the folder."""
    folder = Path(os.path.realpath(folder))
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(folder / LOCK, f"writing to {folder}", TIMEOUT):
            _finish(folder)
            for left in folder.glob(PARTIAL):  # of a crashed process, since this one holds the lock
                shutil.rmtree(left, ignore_errors=True)
            yield from _replaced(folder, names)
    except BaseException:
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise


def _replaced(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    partial = folder / f".mtgcn-{secrets.token_hex(8)}.partial"
    try:
        partial.mkdir(mode=0o700)  # never more readable than the result
        yield partial
        new = [name for name in names if (partial / name).exists()]
        for name in new:
            if (folder / name).exists():
                with (partial / name).open("rb") as file:
                    copy_mode((folder / name).stat(), file.fileno())
        partial.chmod(folder.stat().st_mode)
        force_to_disk(partial)
        os.rename(partial, folder / READY)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    force_to_disk(folder)
    with suppress(OSError):  # the files are committed wherever they are
        _finish(folder)
        for name in names:
            if name not in new:
                (folder / name).unlink(missing_ok=True)


def _finish(folder: Path) -> None:
    """Move committed files to their places."""
    ready = folder / READY
    if ready.is_dir():
        for path in sorted(ready.iterdir()):
            os.replace(path, folder / path.name)
        ready.rmdir()
