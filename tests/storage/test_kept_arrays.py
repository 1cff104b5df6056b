"""What took long is made once, kept whole, and made again where it was damaged."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mtgcn.storage import locks
from mtgcn.storage.kept_arrays import kept_or_made

SHAPES = {"a": (3,)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    return tmp_path / "numbers"


class Maker:
    def __init__(self, seconds=0.0):
        self.calls, self.seconds = 0, seconds

    def __call__(self):
        self.calls += 1
        time.sleep(self.seconds)
        return {"a": np.arange(3.0)}


def test_it_is_made_once(folder):
    make = Maker()
    for _ in range(2):
        assert kept_or_made("numbers", "x", SHAPES, make)["a"].tolist() == [0, 1, 2]
    assert make.calls == 1
    assert [path.name for path in folder.iterdir()] == ["x.npz"]  # no lock is left behind


def test_those_who_need_it_at_the_same_time_wait_for_the_first():
    make = Maker(seconds=0.5)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: kept_or_made("numbers", "x", SHAPES, make), range(3)))
    assert make.calls == 1
    assert all(one["a"].tolist() == [0, 1, 2] for one in found)


def test_others_do_not_wait():
    make = Maker(seconds=0.5)
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: kept_or_made("numbers", str(name), SHAPES, make), range(4)))
    assert make.calls == 4
    assert time.monotonic() - started < 1.5


def test_what_fails_can_be_tried_again():
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        kept_or_made("numbers", "x", SHAPES, fail)
    assert kept_or_made("numbers", "x", SHAPES, Maker())["a"].tolist() == [0, 1, 2]


def test_damage_is_told_once_and_made_good(folder):
    make = Maker()
    kept_or_made("numbers", "x", SHAPES, make)
    (folder / "x.npz").write_bytes(b"PK")
    with pytest.warns(RuntimeWarning, match="are made anew") as told:
        kept_or_made("numbers", "x", SHAPES, make)
    assert len(told) == 1
    assert make.calls == 2


@pytest.mark.parametrize(
    "kept",
    [
        {"a": np.array([0.0, np.nan, 2.0])},
        {"a": np.arange(3)},  # whole numbers, where fractions are due
        {"a": np.array(["0", "1", "2"])},
        {"a": np.zeros(3, complex)},
        {"a": np.arange(4.0)},
        {"b": np.arange(3.0)},
        {"a": np.arange(3.0), "b": np.zeros(10**6)},  # more than is due
    ],
)
def test_what_is_whole_and_yet_not_what_is_due_is_made_anew(folder, kept):
    folder.mkdir()
    np.savez(folder / "x.npz", **kept)
    with pytest.warns(RuntimeWarning, match="are made anew"):
        assert kept_or_made("numbers", "x", SHAPES, make := Maker())["a"].tolist() == [0, 1, 2]
    assert make.calls == 1


@pytest.mark.skipif(os.name != "posix", reason="a file stands where the folder should be")
def test_a_folder_that_cannot_be_written_costs_the_keeping_alone(folder):
    folder.write_text("")
    with pytest.warns(RuntimeWarning):
        assert kept_or_made("numbers", "x", SHAPES, Maker())["a"].tolist() == [0, 1, 2]


def test_a_lock_that_nobody_lets_go_of_costs_the_sharing_alone(folder, monkeypatch, caplog):
    monkeypatch.setattr(locks, "UNSAID", 0.1)
    monkeypatch.setattr(locks, "PATIENCE", 0.3)
    make = Maker()
    with locks.one_at_a_time(folder / "x.lock", "holding it"):
        assert kept_or_made("numbers", "x", SHAPES, make)["a"].tolist() == [0, 1, 2]
    waiting, going_on = (record.getMessage() for record in caplog.records)
    assert waiting.startswith("another process is making the same numbers numbers; waiting for it")
    assert going_on == "that took too long; going on without the numbers numbers of the other process"
    assert make.calls == 1


def test_what_nobody_could_use_is_not_kept(folder):
    made = kept_or_made("numbers", "x", SHAPES, lambda: {"a": np.array([1, np.nan, 2])})
    assert np.isnan(made["a"][1])
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe_in_its_place_is_not_waited_for(folder):
    folder.mkdir()
    os.mkfifo(folder / "x.npz")
    with pytest.warns(RuntimeWarning) as told:
        assert kept_or_made("numbers", "x", SHAPES, Maker())["a"].tolist() == [0, 1, 2]
    cannot_read, cannot_write = (str(one.message) for one in told)
    assert "cannot be used ([Errno 22] it is not a plain file" in cannot_read
    assert cannot_write.startswith(f"cannot keep numbers numbers in {folder}: x.npz is not a plain file; make room")
