import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest

from fuzz import malformed
from mtgcn.storage import files as locks
from mtgcn.storage.cache import cache_folder, cached_arrays


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    return tmp_path / "numbers"


def maker(seconds=0.0):
    return Mock(side_effect=lambda: time.sleep(seconds) or {"a": np.arange(3.0)})


def cached(make, name="x"):
    return cached_arrays("numbers", name, {"a": (3,)}, make)["a"].tolist()


def test_cache_folder(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path
    monkeypatch.setenv("MTGCN_CACHE", "")
    assert cache_folder().name.lower() in ("mtgcn", "cache")


def test_arrays_are_made_once(folder):
    make = maker()
    assert cached(make) == cached(make) == [0, 1, 2]
    assert make.call_count == 1
    assert [path.name for path in folder.iterdir()] == ["x.npz"]


def test_concurrent_callers_wait_for_the_first():
    make = maker(seconds=0.5)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: cached(make), range(3))) == [[0, 1, 2]] * 3
    assert make.call_count == 1


def test_different_arrays_are_made_at_the_same_time():
    both = threading.Barrier(2, timeout=30)

    def make():
        both.wait()
        return {"a": np.arange(3.0)}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: cached(make, name), "xy"))


def test_failures_and_nan_are_not_cached(folder):
    with pytest.raises(RuntimeError):
        cached(Mock(side_effect=RuntimeError("no")))
    assert np.isnan(cached(lambda: {"a": np.array([1, np.nan, 2])})[1])
    assert list(folder.iterdir()) == []
    assert cached(maker()) == [0, 1, 2]


@pytest.mark.parametrize(
    "content",
    [
        b"PK",
        b"\x80\x04K\x01.",  # a pickle
        malformed.archive_of_zeros({"a.npy": 1900, "b.npy": 1900}),  # of a few MB, which unpacks to 3.7 GiB
        {"a": np.zeros(3, "M8[s]")},
        {"a": np.array([0.0, np.nan, 2.0])},
        {"a": np.arange(3)},  # integers
        {"a": np.array(["0", "1", "2"])},
        {"a": np.zeros(3, complex)},
        {"a": np.arange(4.0)},
        {"b": np.arange(3.0)},
        {"a": np.arange(3.0), "b": np.zeros(10**6)},
        {"a": np.arange(3.0) + 1, "stored_as": np.array("y")},  # of another graph
    ],
)
def test_unexpected_content_is_replaced(folder, content):
    folder.mkdir()
    if isinstance(content, bytes):
        (folder / "x.npz").write_bytes(content)
    else:
        np.savez(folder / "x.npz", **{"stored_as": np.array("x")} | content)
    make = maker()
    with pytest.warns(RuntimeWarning, match="are recomputed") as caught:
        assert cached(make) == cached(make) == [0, 1, 2]
    assert (len(caught), make.call_count) == (1, 1)


@pytest.mark.skipif(os.name != "posix", reason="a file in place of the folder")
def test_unwritable_folder(folder):
    folder.write_text("")
    with pytest.warns(RuntimeWarning):
        assert cached(maker()) == [0, 1, 2]


def test_lock_timeout(folder, monkeypatch, caplog):
    monkeypatch.setattr(locks, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(locks, "LOCK_TIMEOUT", 0.3)
    make = maker()
    with locks.exclusive_lock(folder / "x.lock", "holding it"):
        assert cached(make) == [0, 1, 2]
    waiting, timed_out = (record.getMessage() for record in caplog.records)
    assert waiting.startswith("another process is computing the same numbers arrays; waiting for it")
    assert timed_out == "the wait timed out; computing the numbers arrays here as well"
    assert make.call_count == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_pipe_is_not_waited_for(folder):
    folder.mkdir()
    os.mkfifo(folder / "x.npz")
    with pytest.warns(RuntimeWarning) as caught:
        assert cached(maker()) == [0, 1, 2]
    cannot_read, cannot_write = (str(one.message) for one in caught)
    assert "are invalid ([Errno 22] it is not a plain file" in cannot_read
    assert cannot_write.startswith(f"cannot store numbers arrays in {folder}: x.npz is not a plain file; free some")
