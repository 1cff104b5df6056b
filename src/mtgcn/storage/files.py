"""Files and folders on disk: atomic writes, locks between processes, checks of destinations, plain reads, JSON.

`updating` replaces several files of a folder together: readers find all old files or all new ones. New files are
written to a temporary subfolder. Renaming it to `.replacement` commits them; then each moves to its place. After a
crash in between, readers find the rest in `.replacement` and the next writer moves it. The folder itself and its other
files stay in place, since it may be a mount point.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from mtgcn.errors import InputError

Content = TypeVar("Content")

LOG = logging.getLogger("mtgcn")
QUIET_SECONDS = 2.0  # longer waits for a lock are logged
LOCK_TIMEOUT = 300.0  # seconds
UPDATE_TIMEOUT = 60.0  # seconds to wait for another process that writes to the same folder
READY, PARTIAL, LOCK = ".replacement", ".mtgcn-*.partial", ".mtgcn.lock"  # names in a folder that is being updated
DEFAULT_NAME_BYTES = 255  # longest file name if the system reports no limit


def write_file(path: str | Path, content: bytes | str) -> Path:
    """Write a file atomically and return its path; failures raise an `InputError`."""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")  # file names that are not UTF-8 hold lone surrogates
    try:
        write_atomically(Path(path), content)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {why}; free some space, or give another path") from error
    return Path(path)


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of `content` or nothing.

    A plain file is replaced and keeps its mode and owner. Symbolic links are followed. Devices and pipes are written
    directly.
    """
    found = _stat(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        # The system refuses a folder here. Opening a pipe blocks until it has a reader.
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
        with open(descriptor, "wb") as file, suppress(BrokenPipeError):  # the reader may stop before the end
            file.write(content)
            file.flush()
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Unique per process and thread; short, since the name of the target may have the maximum length.
    partial = target.with_name(f".mtgcn-{secrets.token_hex(8)}.partial")
    mode = 0o666 if found is None else 0o600  # never more readable than the target
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if found is not None:
                _copy_mode(found, file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _copy_mode(found: os.stat_result, descriptor: int) -> None:
    """Give an open file the mode and, where permitted, the owner of another file."""
    if os.name == "posix":
        with suppress(OSError):
            os.chown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def _stat(path: Path) -> os.stat_result | None:
    """The status of a file, through links; None if it does not exist."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def force_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_plain(path: Path, max_bytes: int | None = None) -> bytes:
    """The content of a plain file of at most `max_bytes`; raises OSError otherwise. Pipes and devices are not read,
    since they may block or never end."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        content = file.read(-1 if max_bytes is None else max_bytes + 1)
    if max_bytes is not None and len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return content


class HeldElsewhere(Exception):
    """Another process holds the lock."""


@contextmanager
def exclusive_lock(path: Path, title: str, timeout: float | None = None) -> Iterator[bool]:
    """Wait for a lock and hold it; yields whether another process held it first. The file is removed afterwards. The
    system releases the lock when its process ends, even if it is killed.

    Long waits log `title`, a description of what the lock holder does. After `timeout` seconds, by default
    `LOCK_TIMEOUT`, `HeldElsewhere` is raised. If no lock file can be written, no lock is taken.
    """
    timeout = LOCK_TIMEOUT if timeout is None else timeout
    quiet = min(QUIET_SECONDS, timeout)
    lock = FileLock(path, thread_local=False)
    waited = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for attempt, seconds in enumerate((0.0, quiet, timeout - quiet)):
            try:
                lock.acquire(timeout=seconds)
                break
            except Timeout:
                waited = True
                if attempt == 1:  # logged, since a warning may be shown only at the end
                    LOG.warning("another process is %s; waiting for it, at most %.0f s (lock %s)", title, timeout, path)
        else:
            raise HeldElsewhere
    except OSError:
        yield False
        return
    try:
        yield waited
    finally:
        with suppress(OSError):
            path.unlink()  # while the lock is held: processes that wait start over with a new file
        lock.release()


def check_no_links(folder: Path) -> None:
    """Raise if a path inside a folder is a link, since links in a foreign folder could redirect writes to any path."""
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            check_no_link(Path(place, name))


def check_no_link(path: Path) -> None:
    """Raise if a path inside a model folder or a project is a link."""
    if path.is_symlink():
        raise InputError(f"{path} is a link, and its folder must not contain any; replace it by what it refers to")


def current_path(folder: Path, name: str) -> Path:
    """The path of the committed file of this name."""
    ready = folder / READY / name
    return ready if os.path.exists(ready) else folder / name


def read_current(folder: Path, name: str, read: Callable[[Path], Content]) -> Content:
    """Apply `read` to the committed file of this name, again if the file is moved meanwhile."""
    while True:
        path = current_path(folder, name)
        try:
            return read(path)
        except FileNotFoundError:
            if path == folder / name == current_path(folder, name):
                raise


def has_other_files(folder: Path) -> bool:
    """Whether a folder has files other than leftovers of an interrupted update."""
    return any(path.name not in (READY, LOCK) and not path.match(PARTIAL) for path in folder.iterdir())


@contextmanager
def updating(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder for new files. On success they replace all files `names` in `folder`; on failure
    nothing changes. Raises `HeldElsewhere` if another process keeps writing to the folder."""
    folder = Path(os.path.realpath(folder))
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    partial = folder / f".mtgcn-{secrets.token_hex(8)}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_no_links(folder)
        with exclusive_lock(folder / LOCK, f"writing to {folder}", UPDATE_TIMEOUT):
            _finish(folder)
            for left in folder.glob(PARTIAL):  # left by a crashed process, since this one holds the lock
                shutil.rmtree(left, ignore_errors=True)
            try:
                partial.mkdir(mode=0o700)  # never more readable than the result
                yield partial
                new = [name for name in names if (partial / name).exists()]
                for name in new:
                    if (folder / name).exists():
                        with (partial / name).open("rb") as file:
                            _copy_mode((folder / name).stat(), file.fileno())
                partial.chmod(folder.stat().st_mode)
                force_to_disk(partial)
                os.rename(partial, folder / READY)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
            force_to_disk(folder)
            with suppress(OSError):  # the files are already committed
                _finish(folder)
                for name in set(names) - set(new):
                    (folder / name).unlink(missing_ok=True)
    except BaseException:
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise


def _finish(folder: Path) -> None:
    """Move committed files into place."""
    ready = folder / READY
    if ready.is_dir():
        for path in sorted(ready.iterdir()):
            os.replace(path, folder / path.name)
        ready.rmdir()


def check_file(path: str | Path) -> None:
    """Raise if a file could not be written. Devices and pipes are allowed."""
    path = Path(os.path.abspath(path))
    problem, remedy = f"cannot write {path}", "give another path"
    with _as_input_error(problem, remedy):
        found = _stat(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise InputError(f"{path} is a folder; give a file name")
        if found is not None and stat.S_ISSOCK(found.st_mode):
            raise InputError(f"{path} is a socket, which cannot be written like a file; give another path")
        if found is not None and not os.access(path, os.W_OK):
            raise InputError(f"{problem}: permission denied; {remedy}")
        if found is None or stat.S_ISREG(found.st_mode):
            _check_parents(Path(os.path.realpath(path)), problem, remedy)


def check_files(paths: Iterable[str | Path | None]) -> None:
    """Raise if one of several files could not be written, or if two are the same; None entries are skipped."""
    seen: set[str] = set()
    for path in paths:
        if path is not None:
            check_file(path)
            real = os.path.realpath(path)
            found = _stat(Path(real))
            if real in seen and (found is None or stat.S_ISREG(found.st_mode)):
                raise InputError(f"{path} would be written twice; give another file")
            seen.add(real)


def check_folder(folder: str | Path, holds: str = "the output") -> None:
    """Raise if a folder could not be created or written to. `holds` names its content in the message."""
    folder = Path(os.path.abspath(folder))
    problem, remedy = f"cannot create folder {folder}", "give another folder"
    with _as_input_error(problem, remedy):
        found = _stat(folder)
        if found is None:
            _check_parents(Path(os.path.realpath(folder)), problem, remedy)
        elif not stat.S_ISDIR(found.st_mode):
            raise InputError(f"{folder} is a file; give a folder for {holds}")
        elif not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"cannot write to {folder}: permission denied; {remedy}")


@contextmanager
def _as_input_error(problem: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise InputError(f"{problem}: {getattr(error, 'strerror', None) or error}; {remedy}") from error


def _check_parents(path: Path, problem: str, remedy: str) -> None:
    nearest, found = next((parent, found) for parent in path.parents if (found := _stat(parent)) is not None)
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{problem}: {nearest} is a file; {remedy}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {nearest}: permission denied; {remedy}")
    longest = os.pathconf(nearest, "PC_NAME_MAX") if hasattr(os, "pathconf") else DEFAULT_NAME_BYTES
    for name in path.relative_to(nearest).parts:
        if (length := len(os.fsencode(name))) > longest:
            raise InputError(f"{problem}: a name has {length} bytes, the limit is {longest}; {remedy}")


def parsed_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """Parse JSON. Repeated keys, NaN and infinity (unless `allow_nan`) and deep nesting raise ValueError, like other
    invalid JSON.

    >>> parsed_json('{"train": [1], "train": [2]}')
    Traceback (most recent call last):
    ValueError: key 'train' is given twice
    """

    def checked_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in content if names.count(name) > 1)
            raise ValueError(f"key {twice[:60]!r} is given twice")
        return content

    def reject(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, object_pairs_hook=checked_object, parse_constant=None if allow_nan else reject)
    except RecursionError:
        raise ValueError("nested too deeply") from None
