"""Locks between processes, by files. The system lets go of a lock when its process ends, however it ends."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOG = logging.getLogger("mtgcn")
UNSAID = 2.0  # seconds that a lock is waited for without a word
PATIENCE = 300.0  # seconds until whoever waits goes on without it


class HeldElsewhere(Exception):
    """A lock that somebody else holds."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner}")
        self.owner = owner  # the number of the process, or "unknown"


class OwnedLock:
    """A lock that nobody waits for: whoever comes second is told which process holds it."""

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path, thread_local=False)
        # Beside the lock, since a file that is locked cannot be read on every system.
        self._owner = path.with_name(f"{path.name}.owner")

    def acquire(self) -> None:
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise HeldElsewhere(self._owner_now()) from None
        try:
            self._owner.write_text(str(os.getpid()), encoding="utf-8")
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        with suppress(OSError):
            self._owner.unlink()
        self._lock.release()

    def _owner_now(self) -> str:
        try:
            return self._owner.read_text(encoding="utf-8").strip() or "unknown"
        except OSError:  # it has just begun, or just ended
            return "unknown"


@contextmanager
def one_at_a_time(path: Path, title: str, patience: float | None = None) -> Iterator[bool]:
    """Hold a lock that is waited for; yields whether another had it first. Its file is gone afterwards. Where no lock
    can be written nobody waits.

    Whoever waits is soon told for what, `title`; after so many seconds of patience, PATIENCE if it is not said, it is
    HeldElsewhere.
    """
    lock = FileLock(path, thread_local=False)
    waited = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            waited = True
            _wait_for(lock, path, title, PATIENCE if patience is None else patience)
    except OSError:
        yield False
        return
    try:
        yield waited
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: whoever waits for this very file starts over with a new one
        lock.release()


def _wait_for(lock: FileLock, path: Path, title: str, patience: float) -> None:
    try:
        lock.acquire(timeout=min(UNSAID, patience))
        return
    except Timeout:
        # A log line is seen at once, where a warning may be kept for the end.
        LOG.warning("another process is %s; waiting for it, at most %.0f s (lock %s)", title, patience, path)
    try:
        lock.acquire(timeout=max(0.0, patience - UNSAID))
    except Timeout:
        raise HeldElsewhere("unknown") from None
