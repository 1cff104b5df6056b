"""Files of a folder replaced together: whoever reads it finds all the old ones or all the new ones.

New files are written into a folder of their own inside it. Renaming that to `.replacement` is the moment from which
they count; then each moves to its place. Where somebody was killed in between, readers find the rest in `.replacement`
and the next writer moves it. The folder itself stays, and so does all else in it: it may be a mount point, or hold
files of its owner's.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mtgcn.storage.atomic import force_to_disk, like
from mtgcn.storage.locks import one_at_a_time

Content = TypeVar("Content")

READY = ".replacement"
PARTIAL = ".mtgcn-*.partial"
LOCK = ".mtgcn.lock"
PATIENCE = 60.0  # seconds for another process that writes into the same folder, which takes one at most


def place_of(folder: Path, name: str) -> Path:
    """Where the file of that name is to be read."""
    ready = folder / READY / name
    return ready if os.path.exists(ready) else folder / name


def found_in(folder: Path, name: str, read: Callable[[Path], Content]) -> Content:
    """What `read` makes of the file of that name, which may be moved to its place just while it is looked for."""
    while True:
        path = place_of(folder, name)
        try:
            return read(path)
        except FileNotFoundError:
            if path == folder / name == place_of(folder, name):
                raise


def holds_others(folder: Path) -> bool:
    """Whether a folder holds anything but what an update that was stopped has left."""
    return any(path.name not in (READY, LOCK) and not path.match(PARTIAL) for path in folder.iterdir())


@contextmanager
def updating(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """A folder to fill with some of these files, which then take the place of all of them in `folder`. If that fails,
    nothing has happened; if another process is at it, this one waits, and may be told that it is HeldElsewhere."""
    folder = Path(os.path.realpath(folder))
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder / LOCK, f"writing into {folder}", PATIENCE):
            _finish(folder)
            for left in folder.glob(PARTIAL):  # nobody else is writing
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
        partial.mkdir(mode=0o700)  # nobody reads in it what they may not read later
        yield partial
        new = [name for name in names if (partial / name).exists()]
        for name in new:
            if (folder / name).exists():
                with (partial / name).open("rb") as file:
                    like((folder / name).stat(), file.fileno())
        partial.chmod(folder.stat().st_mode)
        force_to_disk(partial)
        os.rename(partial, folder / READY)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    force_to_disk(folder)
    with suppress(OSError):  # from here on they count, wherever they lie
        _finish(folder)
        for name in names:
            if name not in new:
                (folder / name).unlink(missing_ok=True)


def _finish(folder: Path) -> None:
    """Move what an update has left to its place."""
    ready = folder / READY
    if ready.is_dir():
        for path in sorted(ready.iterdir()):
            os.replace(path, folder / path.name)
        ready.rmdir()
