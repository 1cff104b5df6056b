"""Locks between processes, by files. The system releases a lock when its process ends, even if it is killed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOG = logging.getLogger("mtgcn")
QUIET_SECONDS = 2.0  # a wait is logged after this time
TIMEOUT = 300.0  # seconds


class HeldElsewhere(Exception):
    """Another process holds the lock."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner}")
        self.owner = owner  # process id, or "unknown"


class OwnedLock:
    """A lock that never waits: `acquire` raises `HeldElsewhere` with the id of the process that holds it."""

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path, thread_local=False)
        # A separate file, since some systems do not allow reading a locked file.
        self._owner = path.with_name(f"{path.name}.owner")

    def acquire(self) -> None:
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            owner = ""
            with suppress(OSError):  # just acquired, or just released
                owner = self._owner.read_text(encoding="utf-8").strip()
            raise HeldElsewhere(owner or "unknown") from None
        try:
            self._owner.write_text(str(os.getpid()), encoding="utf-8")
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        with suppress(OSError):
            self._owner.unlink()
        self._lock.release()


@contextmanager
def exclusive_lock(path: Path, title: str, timeout: float | None = None) -> Iterator[bool]:
    """Wait for a lock and hold it; yields whether another process held it first. The file is removed afterwards.

    Long waits are logged with `title`, what the other process is doing. After `timeout` seconds, by default `TIMEOUT`,
    `HeldElsewhere` is raised. Where no lock file can be written, no lock is taken.
    """
    lock = FileLock(path, thread_local=False)
    waited = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            waited = True
            _wait_for(lock, path, title, TIMEOUT if timeout is None else timeout)
    except OSError:
        yield False
        return
    try:
        yield waited
    finally:
        with suppress(OSError):
            path.unlink()  # while the lock is held: processes that wait start over with a new file
        lock.release()


def _wait_for(lock: FileLock, path: Path, title: str, timeout: float) -> None:
    try:
        lock.acquire(timeout=min(QUIET_SECONDS, timeout))
        return
    except Timeout:
        # Logged, since a warning may be shown only at the end.
        LOG.warning("another process is %s; waiting for it, at most %.0f s (lock %s)", title, timeout, path)
    try:
        lock.acquire(timeout=max(0.0, timeout - QUIET_SECONDS))
    except Timeout:
        raise HeldElsewhere("unknown") from None
