"""A lock is one process's at a time, says whose it is, and dies with its process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mtgcn.storage import locks
from mtgcn.storage.locks import HeldElsewhere, OwnedLock, one_at_a_time

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


def test_whoever_comes_second_is_told_who_holds_it(tmp_path, holder):
    for _ in range(2):  # asking takes nothing away from the one who holds it
        with pytest.raises(HeldElsewhere) as held:
            OwnedLock(tmp_path / "x.lock").acquire()
        assert held.value.owner == str(holder.pid)


@pytest.mark.skipif(os.name != "posix", reason="a signal that cannot be caught")
def test_it_dies_with_its_process(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lock = OwnedLock(tmp_path / "x.lock")
    lock.acquire()
    assert (tmp_path / "x.lock.owner").read_text() == str(os.getpid())
    lock.release()
    assert not (tmp_path / "x.lock.owner").exists()


def test_it_is_free_again_after_its_release(tmp_path):
    first, second = OwnedLock(tmp_path / "x.lock"), OwnedLock(tmp_path / "x.lock")
    first.acquire()
    with pytest.raises(HeldElsewhere):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_lock_whose_owner_cannot_be_written_is_not_held(tmp_path):
    (tmp_path / "x.lock.owner").mkdir()
    lock = OwnedLock(tmp_path / "x.lock")
    with pytest.raises(OSError, match=r"x\.lock\.owner"):
        lock.acquire()
    (tmp_path / "x.lock.owner").rmdir()
    OwnedLock(tmp_path / "x.lock").acquire()


def test_those_who_wait_come_one_after_the_other_and_know_that_they_waited(tmp_path):
    inside, waited, most = [], [], 0

    def work():
        nonlocal most
        with one_at_a_time(tmp_path / "below" / "y.lock", "working") as had_to_wait:
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
    assert list((tmp_path / "below").iterdir()) == []  # no lock is left behind


def test_where_no_lock_can_be_written_nobody_waits(tmp_path):
    (tmp_path / "file").write_text("")
    with one_at_a_time(tmp_path / "file" / "y.lock", "working") as waited:
        assert waited is False


def test_whoever_waits_is_told_for_what_and_has_patience_for_so_long(tmp_path, holder, monkeypatch, caplog):
    monkeypatch.setattr(locks, "UNSAID", 0.1)
    for patience in ({"patience": 0.3}, {}):
        monkeypatch.setattr(locks, "PATIENCE", 0.3)
        with pytest.raises(HeldElsewhere), one_at_a_time(tmp_path / "x.lock", "making it", **patience):
            pytest.fail("it is held by somebody else")
    assert (tmp_path / "x.lock").exists()  # it is not ours to take away
    said = {record.getMessage() for record in caplog.records}
    assert said == {f"another process is making it; waiting for it, at most 0 s (lock {tmp_path / 'x.lock'})"}


def test_a_short_wait_is_not_worth_a_word(tmp_path, caplog):
    with one_at_a_time(tmp_path / "y.lock", "working"):
        thread = threading.Thread(target=lambda: one_at_a_time(tmp_path / "y.lock", "working").__enter__())
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert caplog.records == []
