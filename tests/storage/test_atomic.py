"""Files are written whole or not at all, and what is no plain file stays what it is."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mtgcn.errors import InputError
from mtgcn.storage.atomic import own_descriptor, write_atomically, write_file
from mtgcn.storage.cache import cache_folder

NULL, FULL = (1, 3), (1, 7)  # the numbers of these devices on Linux


def device(path, number):
    """A device of our own: the machine's must not be at risk."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number))
        os.close(os.open(path, os.O_WRONLY))
    except (PermissionError, AttributeError):
        pytest.skip("devices can be made and opened by root on Linux alone")
    return path


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


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o444, 0o755])
def test_a_plain_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(mode)
    write_atomically(path, b"after")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"after", mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_a_plain_file_keeps_its_owner(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    os.chown(path, 1234, 5678)
    write_atomically(path, b"after")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new" / "file", b"content")
    assert (tmp_path / "new" / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_links_are_followed_and_stay(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_bytes(b"before")
    (tmp_path / "near").symlink_to(tmp_path / "far" / "file")
    (tmp_path / "nearer").symlink_to("near")
    write_atomically(tmp_path / "nearer", b"after")
    assert (tmp_path / "nearer").is_symlink()
    assert (tmp_path / "near").is_symlink()
    assert (tmp_path / "far" / "file").read_bytes() == b"after"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "file", "near", "nearer"]


def test_a_link_to_nothing_gets_its_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new" / "file")
    write_atomically(tmp_path / "link", b"content")
    assert (tmp_path / "new" / "file").read_bytes() == b"content"
    assert (tmp_path / "link").is_symlink()


def test_a_device_is_written_through(tmp_path):
    null = device(tmp_path / "null", NULL)
    (tmp_path / "link").symlink_to("null")
    for path in (null, tmp_path / "link"):
        write_atomically(path, b"content")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "null"]


def test_a_full_device_is_one_clear_error(tmp_path):
    full = device(tmp_path / "full", FULL)
    with pytest.raises(InputError, match=r"cannot write .*full: No space left on device; make room there, or give"):
        write_file(full, "content")
    assert stat.S_ISCHR(full.stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize("content", [b"content", b"x" * 10_000_000], ids=["short", "longer than who reads wants"])
def test_a_pipe_is_written_through(tmp_path, content):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def reader():
        with pipe.open("rb") as file:
            read.append(file.read(7))  # and leaves, as head does

    thread = threading.Thread(target=reader)
    thread.start()
    write_atomically(pipe, content)
    thread.join()
    assert read == [content[:7]]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


WRITE_AND_PRINT = (
    "from pathlib import Path; from mtgcn.storage.atomic import write_atomically\n"
    "print('before'); write_atomically(Path('{}'), b'content\\n'); print('after')"
)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no paths here")
@pytest.mark.parametrize("mode", ["wb", "ab"], ids=["> file", ">> file"])
def test_standard_output_by_its_path_is_where_it_was_sent(tmp_path, mode):
    """By a link of our own, as /dev/stdout is one: where this fails, the machine's is not what it costs."""
    target, path = tmp_path / "file", tmp_path / "stdout"
    path.symlink_to("/dev/fd/1")
    target.write_bytes(b"long ago\n")
    with target.open(mode) as output:
        subprocess.run([sys.executable, "-c", WRITE_AND_PRINT.format(path)], stdout=output, check=True)
    kept = b"long ago\n" if mode == "ab" else b""
    assert target.read_bytes() == kept + b"before\ncontent\nafter\n"
    assert path.is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no paths here")
def test_what_is_a_descriptor(tmp_path):
    (tmp_path / "link").symlink_to("/dev/fd/7")
    (tmp_path / "loop").symlink_to("loop")
    assert [own_descriptor(path) for path in ("/dev/fd/12", tmp_path / "link", "1", tmp_path / "loop")] == [
        *(12, 7, None, None)
    ]


def test_names_may_be_as_long_as_they_can_be(tmp_path):
    path = tmp_path / ("x" * 255)
    for content in (b"first", b"second"):
        write_atomically(path, content)
    assert path.read_bytes() == b"second"


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EPERM])
def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch, code):
    """As where a container was lent a single file, which is a mount point."""

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    path.write_bytes(b"what was there, which is longer")
    number = path.stat().st_ino
    monkeypatch.setattr(os, "replace", refuse)
    write_atomically(path, b"after")
    assert (path.read_bytes(), path.stat().st_ino) == (b"after", number)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_where_overwriting_fails_what_was_there_returns(tmp_path, monkeypatch):
    def busy(*_):
        raise OSError(errno.EBUSY, "Device or resource busy")

    synced = []

    def fails_the_second_time(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "replace", busy)
    monkeypatch.setattr(os, "fsync", fails_the_second_time)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"something longer")
    assert path.read_bytes() == b"before"


def test_text_that_is_not_unicode_is_written_as_numbers(tmp_path):
    write_file(tmp_path / "page", "e\udcff.csv and é")
    assert (tmp_path / "page").read_text(encoding="utf-8") == "e\\udcff.csv and é"


def test_folders_and_impossible_names_are_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(InputError, match=r"cannot write .*; make room there, or give another place"):
            write_file(path, "content")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
