import os
import subprocess
import sys
import threading
import time

import pytest

from mtgcn.storage import files as locks
from mtgcn.storage.files import HeldElsewhere, OwnedLock, exclusive_lock

HOLD = (
    "import sys, time; from pathlib import Path; from mtgcn.storage.files import OwnedLock\n"
    "lock = OwnedLock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lock"


@pytest.fixture
def holder(path):
    """Another process that holds a lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_killed_owner_releases_the_lock(path, holder):
    lock, owner = OwnedLock(path), path.with_name("x.lock.owner")
    for _ in range(2):
        with pytest.raises(HeldElsewhere) as held:
            lock.acquire()
        assert held.value.owner == str(holder.pid)
    holder.kill()
    holder.wait()
    lock.acquire()
    assert owner.read_text() == str(os.getpid())
    with pytest.raises(HeldElsewhere):
        OwnedLock(path).acquire()
    lock.release()
    assert not owner.exists()
    OwnedLock(path).acquire()


def test_unwritable_owner_releases_the_lock(path):
    path.with_name("x.lock.owner").mkdir()
    with pytest.raises(OSError, match=r"x\.lock\.owner"):
        OwnedLock(path).acquire()
    path.with_name("x.lock.owner").rmdir()
    OwnedLock(path).acquire()


def test_exclusive_lock_serialises(tmp_path):
    inside, waited, most = [], [], 0

    def work():
        nonlocal most
        with exclusive_lock(tmp_path / "below" / "y.lock", "working") as had_to_wait:
            inside.append(1)
            most = max(most, len(inside))
            waited.append(had_to_wait)
            time.sleep(0.2)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, sorted(waited)) == (1, [False, True, True])
    assert list((tmp_path / "below").iterdir()) == []


def test_unwritable_lock_is_skipped(path):
    path.write_text("")
    with exclusive_lock(path / "y.lock", "working") as waited:
        assert waited is False


def test_long_wait_is_logged_and_times_out(path, holder, monkeypatch, caplog):
    monkeypatch.setattr(locks, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(locks, "LOCK_TIMEOUT", 0.3)
    for timeout in ({"timeout": 0.3}, {}):
        with pytest.raises(HeldElsewhere), exclusive_lock(path, "making it", **timeout):
            pytest.fail("another process holds it")
    assert path.exists()
    logged = {record.getMessage() for record in caplog.records}
    assert logged == {f"another process is making it; waiting for it, at most 0 s (lock {path})"}


def test_short_wait_is_not_logged(path, caplog):
    with exclusive_lock(path, "working"):
        thread = threading.Thread(target=lambda: exclusive_lock(path, "working").__enter__())
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert caplog.records == []
