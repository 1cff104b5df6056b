import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mtgcn.storage import locks
from mtgcn.storage.locks import HeldElsewhere, OwnedLock, exclusive_lock

HOLD = (
    "import sys, time; from pathlib import Path; from mtgcn.storage.locks import OwnedLock\n"
    "lock = OwnedLock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "x.lock")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_held_lock_names_its_owner(tmp_path, holder):
    for _ in range(2):
        with pytest.raises(HeldElsewhere) as held:
            OwnedLock(tmp_path / "x.lock").acquire()
        assert held.value.owner == str(holder.pid)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_process_releases_its_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lock = OwnedLock(tmp_path / "x.lock")
    lock.acquire()
    assert (tmp_path / "x.lock.owner").read_text() == str(os.getpid())
    lock.release()
    assert not (tmp_path / "x.lock.owner").exists()


def test_release(tmp_path):
    first, second = OwnedLock(tmp_path / "x.lock"), OwnedLock(tmp_path / "x.lock")
    first.acquire()
    with pytest.raises(HeldElsewhere):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_unwritable_owner_releases_the_lock(tmp_path):
    (tmp_path / "x.lock.owner").mkdir()
    lock = OwnedLock(tmp_path / "x.lock")
    with pytest.raises(OSError, match=r"x\.lock\.owner"):
        lock.acquire()
    (tmp_path / "x.lock.owner").rmdir()
    OwnedLock(tmp_path / "x.lock").acquire()


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
    assert most == 1
    assert sorted(waited) == [False, True, True]
    assert list((tmp_path / "below").iterdir()) == []


def test_unwritable_lock_is_skipped(tmp_path):
    (tmp_path / "file").write_text("")
    with exclusive_lock(tmp_path / "file" / "y.lock", "working") as waited:
        assert waited is False


def test_long_wait_is_logged_and_times_out(tmp_path, holder, monkeypatch, caplog):
    monkeypatch.setattr(locks, "QUIET_SECONDS", 0.1)
    for timeout in ({"timeout": 0.3}, {}):
        monkeypatch.setattr(locks, "TIMEOUT", 0.3)
        with pytest.raises(HeldElsewhere), exclusive_lock(tmp_path / "x.lock", "making it", **timeout):
            pytest.fail("another process holds it")
    assert (tmp_path / "x.lock").exists()
    logged = {record.getMessage() for record in caplog.records}
    assert logged == {f"another process is making it; waiting for it, at most 0 s (lock {tmp_path / 'x.lock'})"}


def test_short_wait_is_not_logged(tmp_path, caplog):
    with exclusive_lock(tmp_path / "y.lock", "working"):
        thread = threading.Thread(target=lambda: exclusive_lock(tmp_path / "y.lock", "working").__enter__())
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert caplog.records == []
