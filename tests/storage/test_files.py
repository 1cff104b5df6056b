import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from mtgcn.errors import InputError
from mtgcn.storage.files import (
    check_file,
    check_files,
    check_folder,
    own_descriptor,
    read_plain,
    write_atomically,
    write_file,
)

NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)  # device numbers on Linux

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
needs_descriptor_paths = pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no paths")


@pytest.fixture
def make_device(tmp_path):
    """Creates device files, so that those of the machine are not at risk."""

    def make(name, number):
        try:
            os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, os.makedev(*number))
            os.close(os.open(tmp_path / name, os.O_RDONLY))
        except (PermissionError, AttributeError):
            pytest.skip("creating devices needs root on Linux")
        return tmp_path / name

    return make


def raising(error):
    def fail(*_):
        raise error

    return fail


# ------------------------------------------------------------------------------------------------------------ writing


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_keeps_the_old_content(failure, step, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, step, raising(failure))
    with pytest.raises(type(failure)):
        write_atomically(path, b"after")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("mode", [0o640, 0o444, 0o755])
def test_write_keeps_the_mode(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(mode)
    write_atomically(path, b"after")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"after", mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="changing owners needs root")
def test_write_keeps_the_owner(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    os.chown(path, 1234, 5678)
    write_atomically(path, b"after")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_new_file_has_the_default_mode(tmp_path):
    (tmp_path / "default").touch()
    write_atomically(tmp_path / "new" / "file", b"content")
    assert (tmp_path / "new" / "file").stat().st_mode == (tmp_path / "default").stat().st_mode


def test_write_follows_links(tmp_path):
    (tmp_path / "near").symlink_to(tmp_path / "far" / "file")
    (tmp_path / "nearer").symlink_to("near")
    for content in (b"new", b"replaced"):
        write_atomically(tmp_path / "nearer", content)
        assert (tmp_path / "far" / "file").read_bytes() == content
    assert (tmp_path / "nearer").is_symlink()
    assert (tmp_path / "near").is_symlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "file", "near", "nearer"]


def test_write_goes_through_devices(tmp_path, make_device):
    null, full = make_device("null", NULL), make_device("full", FULL)
    (tmp_path / "link").symlink_to("null")
    for path in (null, tmp_path / "link"):
        write_atomically(path, b"content")
    with pytest.raises(InputError, match=r"cannot write .*full: No space left on device; make room there, or give"):
        write_file(full, "content")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "link", "null"]


@needs_pipes
@pytest.mark.parametrize("content", [b"content", b"x" * 10_000_000], ids=["short", "reader stops early"])
def test_write_goes_through_a_pipe(tmp_path, content):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def reader():
        with pipe.open("rb") as file:
            read.append(file.read(7))

    thread = threading.Thread(target=reader)
    thread.start()
    write_atomically(pipe, content)
    thread.join()
    assert read == [content[:7]]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


WRITE_AND_PRINT = (
    "from pathlib import Path; from mtgcn.storage.files import write_atomically\n"
    "print('before'); write_atomically(Path('{}'), b'content\\n'); print('after')"
)


@needs_descriptor_paths
@pytest.mark.parametrize("mode", ["wb", "ab"], ids=["> file", ">> file"])
def test_write_to_standard_output_by_path(tmp_path, mode):
    """Through a link like /dev/stdout, so that the machine's own is not at risk."""
    target, path = tmp_path / "file", tmp_path / "stdout"
    path.symlink_to("/dev/fd/1")
    target.write_bytes(b"old\n")
    with target.open(mode) as output:
        subprocess.run([sys.executable, "-c", WRITE_AND_PRINT.format(path)], stdout=output, check=True)
    kept = b"old\n" if mode == "ab" else b""
    assert target.read_bytes() == kept + b"before\ncontent\nafter\n"
    assert path.is_symlink()


@needs_descriptor_paths
def test_own_descriptor(tmp_path):
    (tmp_path / "link").symlink_to("/dev/fd/7")
    (tmp_path / "loop").symlink_to("loop")
    paths = ("/dev/fd/12", tmp_path / "link", "1", tmp_path / "loop")
    assert [own_descriptor(path) for path in paths] == [12, 7, None, None]


def test_names_of_maximum_length(tmp_path):
    path = tmp_path / ("x" * 255)
    for content in (b"first", b"second"):
        write_atomically(path, content)
    assert path.read_bytes() == b"second"


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EPERM])
def test_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch, code):
    path = tmp_path / "file"
    path.write_bytes(b"the old content is longer")
    inode = path.stat().st_ino
    monkeypatch.setattr(os, "replace", raising(OSError(code, os.strerror(code))))
    write_atomically(path, b"after")
    assert (path.read_bytes(), path.stat().st_ino) == (b"after", inode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_failed_overwrite_restores_the_content(tmp_path, monkeypatch):
    synced = []

    def fails_the_second_time(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "replace", raising(OSError(errno.EBUSY, "busy")))
    monkeypatch.setattr(os, "fsync", fails_the_second_time)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"something longer")
    assert path.read_bytes() == b"before"


def test_lone_surrogates_are_escaped(tmp_path):
    write_file(tmp_path / "page", "e\udcff.csv and é")
    assert (tmp_path / "page").read_text(encoding="utf-8") == "e\\udcff.csv and é"


def test_write_file_refuses_folders_and_invalid_names(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(InputError, match=r"cannot write .*; make room there, or give another place"):
            write_file(path, "content")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


# ------------------------------------------------------------------------------------------------------- destinations


@pytest.fixture
def place(tmp_path):
    """A folder with a file and a folder, which checks must not touch."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    yield tmp_path
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


def test_writable_destinations(place):
    for name in ("new", "file", "new/and/deep", "folder/new", "folder/../new"):
        check_file(place / name)
        check_file(str(place / name))
    for name in ("new", "folder", "new/and/deep", "folder/new"):
        check_folder(place / name)


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (check_file, "folder", "folder is a folder; give a file name"),
        (check_file, "file/page.html", "cannot write .*page.html: .*file is a file; give another place"),
        (check_file, "file/a/b", "cannot write .*b: .*file is a file; give another place"),
        (check_folder, "file", "file is a file; give a folder for the output"),
        (check_folder, "file/model", "cannot make folder .*model: .*file is a file; give another folder"),
    ],
)
def test_destinations_of_the_wrong_kind(place, check, name, message):
    with pytest.raises(InputError, match=message):
        check(place / name)


def test_destinations_without_permission(place, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another place"):
        check_file(place / "new" / "page.html")
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another folder"):
        check_folder(place / "model")
    with pytest.raises(InputError, match=r"cannot write .*file: permission denied; give another place"):
        check_file(place / "file")
    monkeypatch.setattr("os.access", lambda path, _: str(path) == str(place / "file"))
    check_file(place / "file")  # an existing file needs no permission to create others


@needs_pipes
def test_special_files_are_allowed(place):
    with tempfile.TemporaryDirectory() as elsewhere:
        pipe = Path(elsewhere) / "pipe"
        os.mkfifo(pipe)
        check_files([pipe, pipe, None])
    check_file("/dev/fd/1")


@pytest.mark.parametrize("name", ["x" * 300, "new/" + "x" * 300, "new/" + "ä" * 130 + "/page.html", "a\0b"])
@pytest.mark.parametrize("check", [check_file, check_folder])
def test_invalid_names(place, check, name):
    with pytest.raises(InputError, match=r"cannot (write|make folder) .*: .*(name|byte).*; give another"):
        check(place / name)


@pytest.mark.parametrize("check", [check_file, check_folder])
def test_circular_links(place, check):
    with tempfile.TemporaryDirectory() as elsewhere:
        loop = Path(elsewhere) / "loop"
        loop.symlink_to(loop)
        for path in (loop, loop / "below"):
            with pytest.raises(InputError, match=r"Too many levels of symbolic links; give another"):
                check(path)


def test_one_file_for_two_outputs(place):
    check_files([place / "one", place / "two", None, None])
    with pytest.raises(InputError, match=r"\.\./one would be written twice; give another file"):
        check_files([place / "one", place / "folder" / ".." / "one"])


# ------------------------------------------------------------------------------------------------------------ reading


def test_read_plain(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link") == read_plain(tmp_path / "file", 7) == b"content"
    with pytest.raises(OSError, match="it has more than 6 bytes"):
        read_plain(tmp_path / "file", 6)
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "nothing")
    with pytest.raises(OSError, match=r"directory|plain file"):
        read_plain(tmp_path)


@needs_pipes
def test_read_plain_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a plain file"):
        read_plain(tmp_path / "pipe")


def test_read_plain_refuses_a_device(make_device):
    with pytest.raises(OSError, match="it is not a plain file"):
        read_plain(make_device("endless", ZERO), 10)
