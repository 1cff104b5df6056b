"""The one place through which files are written: plain ones whole or not at all, anything else as what it is."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mtgcn.errors import InputError

LINKS_AT_MOST = 40  # one after the other, as Linux counts
# What a system answers where a file may be written, and yet none may take its place: a mount point (a single file that
# a container was lent), a folder where one may make nothing.
NOT_TO_BE_REPLACED = {errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS}


def write_file(path: str | Path, content: bytes | str) -> Path:
    """Write a file for a person; where that fails, an error says why. Gives back where it is."""
    if isinstance(content, str):
        # A file name that is not UTF-8 may stand in a text, and no such letter can be written as it is.
        content = content.encode("utf-8", "backslashreplace")
    try:
        write_atomically(Path(path), content)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {why}; make room there, or give another place") from error
    return Path(path)


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of `content` or, whatever happens, nothing.

    A plain file is replaced whole, and keeps its mode and owner. A link is followed, and stays. A device, a pipe or an
    open descriptor (/dev/stdout) is written through: it has nothing to keep, and must not become a file.
    """
    descriptor = own_descriptor(path)
    if descriptor is not None:
        _flush_printed()
        _write_through(os.dup(descriptor), content)
        return
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        # A folder is refused here by the system. A pipe is waited for until somebody reads it, as everywhere.
        _write_through(os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), content)
        return
    target = Path(os.path.realpath(path))
    try:
        _replace(target, content, found)
    except OSError as error:
        if found is None or error.errno not in NOT_TO_BE_REPLACED:
            raise
        _overwrite(target, content)


def own_descriptor(path: str | Path) -> int | None:
    """The descriptor of this process that a path such as /dev/stdout or /dev/fd/63 stands for; None for any other."""
    current = os.fspath(path)
    try:
        for _ in range(LINKS_AT_MOST):
            folder, name = os.path.split(current)
            folder = os.path.realpath(folder)
            if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd"):
                return int(name) if name.isdecimal() else None
            if not os.path.islink(current):
                return None
            current = os.path.join(folder, os.readlink(current))
    except (OSError, ValueError):  # whoever writes there will say what is wrong with it
        return None
    return None


def like(found: os.stat_result, descriptor: int) -> None:
    """Give an open file the owner, as far as one may, and the mode of another."""
    if os.name == "posix":
        with suppress(OSError):
            os.chown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def force_to_disk(folder: Path) -> None:
    """What was renamed in a folder stays renamed, also where the power fails; not every system can promise that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(target: Path, content: bytes, found: os.stat_result | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Its own for every process and thread; and short, since the name of the file may be as long as names can be.
    partial = target.with_name(f".mtgcn-{secrets.token_hex(8)}.partial")
    mode = 0o666 if found is None else 0o600  # nobody reads in the meantime what they may not read afterwards
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if found is not None:
                like(found, file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _overwrite(target: Path, content: bytes) -> None:
    """Where no other file can take its place, the content of a file is exchanged; if that fails, what was there
    returns, for which there is room."""
    with target.open("r+b") as file:
        before = file.read()
        try:
            _exchange(file, content)
        except BaseException:
            with suppress(OSError):
                _exchange(file, before)
            raise


def _exchange(file: BinaryIO, content: bytes) -> None:
    file.seek(0)
    file.write(content)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _write_through(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb") as file, suppress(BrokenPipeError):  # whoever reads may have enough before the end
        file.write(content)
        file.flush()


def _flush_printed() -> None:
    """What was printed before comes before."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
