"""Where the cache lies, and what happens when a file there cannot be written."""

import errno
import os
from pathlib import Path

import pytest

from mtgcn.storage.atomic import write_atomically
from mtgcn.storage.cache import cache_folder


def test_the_cache_is_the_users_own_unless_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MTGCN_CACHE", "")
    assert cache_folder().name.lower() in ("mtgcn", "cache")
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_what_was_there(
    failure: BaseException, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise failure

    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(failure)):
        write_atomically(path, b"after")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"
