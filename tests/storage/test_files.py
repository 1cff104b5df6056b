import errno
import math
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from mtgcn.errors import InputError
from mtgcn.storage import files

NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)  # device numbers on Linux

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")


@pytest.fixture
def path(tmp_path):
    """An existing file."""
    (tmp_path / "file").write_bytes(b"before")
    return tmp_path / "file"


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


@pytest.fixture
def loop(tmp_path_factory):
    """A symbolic link to itself."""
    loop = tmp_path_factory.mktemp("links") / "loop"
    loop.symlink_to(loop)
    return loop


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_keeps_the_old_content(failure, step, path, monkeypatch):
    monkeypatch.setattr(os, step, Mock(side_effect=failure))
    with pytest.raises(type(failure)):
        files.write_atomically(path, b"after")
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("mode", [0o640, 0o444, 0o755])
def test_write_keeps_mode_and_owner(path, mode):
    path.chmod(mode)
    if os.geteuid() == 0:  # only root may change owners
        os.chown(path, 1234, 5678)
    before = path.stat()
    files.write_atomically(path, b"after")
    assert (path.read_bytes(), path.stat().st_mode) == (b"after", before.st_mode)
    assert (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid)


def test_new_file_has_the_default_mode(path):
    new = path.parent / "new" / "file"
    files.write_file(new, "e\udcff.csv and é")
    assert new.stat().st_mode == path.stat().st_mode
    assert new.read_text(encoding="utf-8") == "e\\udcff.csv and é"  # lone surrogates are escaped


@pytest.mark.parametrize("name", ["file", "x" * 255], ids=["short", "longest"])
def test_write_follows_links(tmp_path, name):
    (tmp_path / "near").symlink_to(tmp_path / "far" / name)
    (tmp_path / "nearer").symlink_to("near")
    for content in (b"new", b"replaced"):
        files.write_atomically(tmp_path / "nearer", content)
        assert (tmp_path / "far" / name).read_bytes() == content
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_symlink()) == ["near", "nearer"]
    assert len(list(tmp_path.rglob("*"))) == 4


def test_write_goes_through_devices(tmp_path, make_device):
    null, full = make_device("null", NULL), make_device("full", FULL)
    (tmp_path / "link").symlink_to("null")
    for path in (null, tmp_path / "link"):
        files.write_atomically(path, b"content")
    with pytest.raises(InputError, match=r"cannot write .*full: No space left on device; free some space, or give"):
        files.write_file(full, "content")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 3


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
    files.write_atomically(pipe, content)
    thread.join()
    assert read == [content[:7]]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_write_file_refuses_folders_and_invalid_names(tmp_path, loop):
    for path in (tmp_path, loop, tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(InputError, match=r"cannot write .*; free some space, or give another path"):
            files.write_file(path, "content")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def place(path):
    """A folder with a file and a folder, which checks must not touch."""
    (path.parent / "folder").mkdir()
    yield path.parent
    assert sorted(entry.name for entry in path.parent.rglob("*")) == ["file", "folder"]
    assert path.read_bytes() == b"before"


def test_writable_destinations(place):
    for name in ("new", "file", "new/and/deep", "folder/new", "folder/../new"):
        files.check_file(place / name)
        files.check_file(str(place / name))
    for name in ("new", "folder", "new/and/deep", "folder/new"):
        files.check_folder(place / name)


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (files.check_file, "folder", "folder is a folder; give a file name"),
        (files.check_file, "file/page.html", "cannot write .*page.html: .*file is a file; give another path"),
        (files.check_file, "file/a/b", "cannot write .*b: .*file is a file; give another path"),
        (files.check_folder, "file", "file is a file; give a folder for the output"),
        (files.check_folder, "file/model", "cannot create folder .*model: .*file is a file; give another folder"),
    ],
)
def test_destinations_of_the_wrong_kind(place, check, name, message):
    with pytest.raises(InputError, match=message):
        check(place / name)


def test_destinations_without_permission(place, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another path"):
        files.check_file(place / "new" / "page.html")
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another folder"):
        files.check_folder(place / "model")
    with pytest.raises(InputError, match=r"cannot write .*file: permission denied; give another path"):
        files.check_file(place / "file")
    monkeypatch.setattr("os.access", lambda path, _: str(path) == str(place / "file"))
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another path"):
        files.check_file(place / "file")  # which is replaced by another


@needs_pipes
def test_special_files_are_allowed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    files.check_files([tmp_path / "pipe", tmp_path / "pipe", None])


@pytest.mark.parametrize("name", ["x" * 300, "new/" + "x" * 300, "new/" + "ä" * 130 + "/page.html", "a\0b"])
@pytest.mark.parametrize("check", [files.check_file, files.check_folder])
def test_invalid_names(place, check, name):
    with pytest.raises(InputError, match=r"cannot (write|create folder) .*: .*(name|byte).*; give another"):
        check(place / name)


@pytest.mark.parametrize("check", [files.check_file, files.check_folder])
def test_circular_links(loop, check):
    for path in (loop, loop / "below"):
        with pytest.raises(InputError, match=r"Too many levels of symbolic links; give another"):
            check(path)


def test_one_file_for_two_outputs(place):
    files.check_files([place / "one", place / "two", None, None])
    with pytest.raises(InputError, match=r"\.\./one would be written twice; give another file"):
        files.check_files([place / "one", place / "folder" / ".." / "one"])


def test_read_plain(path):
    link = path.parent / "link"
    link.symlink_to("file")
    assert files.read_plain(link) == files.read_plain(path, 6) == b"before"
    with pytest.raises(OSError, match="it has more than 5 bytes"):
        files.read_plain(path, 5)
    with pytest.raises(FileNotFoundError):
        files.read_plain(path.parent / "nothing")
    with pytest.raises(OSError, match=r"directory|plain file"):
        files.read_plain(path.parent)


@needs_pipes
def test_read_plain_refuses_pipes_and_devices(tmp_path, make_device):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a plain file"):
        files.read_plain(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a plain file"):
        files.read_plain(make_device("endless", ZERO), 10)


def test_parsed_json():
    assert files.parsed_json(b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}') == {"a": [1, 2.5, None, True, "é"]}
    assert math.isnan(files.parsed_json("[NaN]", allow_nan=True)[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": 1, "b": 2}}', "key 'b' is given twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("9" * 5000, "digits"),
        (b"\xff\xfe\xff", "decode|codec"),
        ("{", "Expecting"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_json(text, message):
    with pytest.raises(ValueError, match=message):
        files.parsed_json(text)


HOLD = (
    "import sys, time; from filelock import FileLock\n"
    "lock = FileLock(sys.argv[1]); lock.acquire(); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def lock_path(tmp_path):
    return tmp_path / "x.lock"


@pytest.fixture
def holder(lock_path):
    """Another process that holds a lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_killed_owner_releases_the_lock(lock_path, holder):
    with pytest.raises(files.HeldElsewhere), files.exclusive_lock(lock_path, "working", 0.1):
        pytest.fail("another process holds it")
    holder.kill()
    holder.wait()
    with files.exclusive_lock(lock_path, "working", 0.1) as waited:
        assert not waited


def test_exclusive_lock_serialises(tmp_path):
    inside, waited, most = [], [], 0

    def work():
        nonlocal most
        with files.exclusive_lock(tmp_path / "below" / "y.lock", "working") as had_to_wait:
            inside.append(1)
            most = max(most, len(inside))
            waited.append(had_to_wait)
            time.sleep(0.2)
            inside.pop()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: work(), range(3)))
    assert (most, sorted(waited)) == (1, [False, True, True])
    assert list((tmp_path / "below").iterdir()) == []


def test_unwritable_lock_is_skipped(lock_path):
    lock_path.write_text("")
    with files.exclusive_lock(lock_path / "y.lock", "working") as waited:
        assert waited is False


def test_long_wait_is_logged_and_times_out(lock_path, holder, monkeypatch, caplog):
    monkeypatch.setattr(files, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 0.3)
    for timeout in ({"timeout": 0.3}, {}):
        with pytest.raises(files.HeldElsewhere), files.exclusive_lock(lock_path, "making it", **timeout):
            pytest.fail("another process holds it")
    assert lock_path.exists()
    logged = {record.getMessage() for record in caplog.records}
    assert logged == {f"another process is making it; waiting for it, at most 0 s (lock {lock_path})"}


def test_short_wait_is_not_logged(lock_path, caplog):
    with files.exclusive_lock(lock_path, "working"):
        thread = threading.Thread(target=lambda: files.exclusive_lock(lock_path, "working").__enter__())
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert caplog.records == []


NAMES = ("a", "b", "c")
OLD, NEW = {"a": "abc", "b": "1", "c": "1"}, {"a": "ab", "b": "2"}


def write(folder, contents, interrupted=False):
    with files.updating(folder, NAMES) as partial:
        for name, content in contents.items():
            (partial / name).write_text(content)
        if interrupted:
            raise KeyboardInterrupt


def found(folder):
    """The files that a reader finds; the content of `a` lists them, like the card of a model."""
    content = {n: files.current_path(folder, n).read_text() for n in NAMES if files.current_path(folder, n).exists()}
    return {name: content[name] for name in content.get("a", "")}


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


def test_update_keeps_the_folder_modes_and_other_files(tmp_path):
    folder = tmp_path / "new" / "folder"
    write(folder, OLD)
    number = folder.stat().st_ino
    (folder / "mine").touch()
    (folder / "a").chmod(0o640)
    folder.chmod(0o750)
    write(folder, NEW)
    assert found(folder) == NEW
    assert visible(folder) == ["a", "b", "mine"]
    assert folder.stat().st_ino == number
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "a")] == [0o750, 0o640]
    assert (folder / "b").stat().st_mode == (folder / "mine").stat().st_mode


def test_failed_update_changes_nothing(tmp_path):
    write(tmp_path / "there", OLD)
    for place in ("there", "new/parents/folder"):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / place, {"a": "half"}, interrupted=True)
    assert found(tmp_path / "there") == OLD
    assert visible(tmp_path / "there") == ["a", "b", "c"]
    assert visible(tmp_path) == ["there"]


def write_until_killed(folder, step, contents):
    """Exits without cleanup after `step` calls that change a folder."""
    left = step

    def counted(real):
        def call(*arguments, **named):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return real(*arguments, **named)

        return call

    for name in ("mkdir", "rename", "replace", "rmdir", "unlink", "chmod"):
        setattr(os, name, counted(getattr(os, name)))
    write(folder, contents)
    os._exit(0)


@pytest.mark.slow
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("before", [{}, OLD], ids=["new folder", "files are replaced"])
def test_killed_writer_leaves_old_or_new_files(tmp_path, before):
    outcomes = []
    for step in range(100):
        folder = tmp_path / str(step) / "folder"
        if before:
            write(folder, before)
            (folder / "mine").touch()
        process = multiprocessing.get_context("fork").Process(target=write_until_killed, args=(folder, step, NEW))
        process.start()
        process.join()
        assert not folder.exists() or found(folder) in (before, NEW)
        outcomes.append(folder.exists() and found(folder) == NEW)
        if folder.exists() and not before and not outcomes[-1]:
            assert not files.has_other_files(folder)
        write(folder, OLD)
        assert found(folder) == OLD
        assert visible(folder) == ["a", "b", "c", *(["mine"] if before else [])]
        if process.exitcode == 0:
            break
    assert step > 5, "no step was counted"
    assert sorted(outcomes) == outcomes
    assert outcomes.count(True) > 1  # committed before the last step


def test_concurrent_updates_are_atomic(tmp_path):
    def often(content):
        for _ in range(20):
            write(tmp_path, {"a": "abc", "b": content, "c": content})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(often, "123"))
    assert found(tmp_path)["b"] == found(tmp_path)["c"]
    assert visible(tmp_path) == ["a", "b", "c"]


def test_update_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "UPDATE_TIMEOUT", 0.1)
    with files.exclusive_lock(tmp_path / files.LOCK, "holding it"), pytest.raises(files.HeldElsewhere):
        write(tmp_path, OLD)
    assert visible(tmp_path) == []


MOUNT_AND_WRITE = """
import subprocess, sys
from pathlib import Path
from mtgcn.storage.files import updating
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
for content in ("first", "second"):
    with updating(folder, ["a"]) as partial:
        (partial / "a").write_text(content)
print((folder / "a").read_text(), len(list(folder.iterdir())))
"""


def test_mount_point(tmp_path):
    """As in a container with a volume for the model."""
    unshared = ["unshare", "--mount", "--map-root-user"]
    mount = [*unshared, "mount", "-t", "tmpfs", "none", tmp_path]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted")
    command = [*unshared, sys.executable, "-c", MOUNT_AND_WRITE, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("second 1\n", "")


def test_read_current_follows_a_moving_file(tmp_path):
    (tmp_path / files.READY).mkdir()
    (tmp_path / files.READY / "a").write_text("new")
    looked_at = []

    def read(path):
        looked_at.append(path)
        if len(looked_at) == 1:
            os.replace(tmp_path / files.READY / "a", tmp_path / "a")
        return path.read_text()

    assert files.read_current(tmp_path, "a", read) == "new"
    assert looked_at == [tmp_path / files.READY / "a", tmp_path / "a"]


def test_read_current_of_new_and_missing_files(tmp_path):
    def read(path):
        if not (tmp_path / files.READY).exists():
            (tmp_path / files.READY).mkdir()
            (tmp_path / files.READY / "a").write_text("first")
        return path.read_text()

    assert files.read_current(tmp_path, "a", read) == "first"
    with pytest.raises(FileNotFoundError):
        files.read_current(tmp_path, "b", lambda path: path.read_text())
