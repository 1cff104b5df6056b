import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from mtgcn.storage import files as folders
from mtgcn.storage.files import (
    READY,
    HeldElsewhere,
    current_path,
    exclusive_lock,
    has_other_files,
    read_current,
    updating,
)

NAMES = ("a", "b", "c")
OLD, NEW = {"a": "abc", "b": "1", "c": "1"}, {"a": "ab", "b": "2"}


def write(folder, contents, interrupted=False):
    with updating(folder, NAMES) as partial:
        for name, content in contents.items():
            (partial / name).write_text(content)
        if interrupted:
            raise KeyboardInterrupt


def found(folder):
    """The files that a reader finds; the content of `a` lists them, like the card of a model."""
    content = {name: current_path(folder, name).read_text() for name in NAMES if current_path(folder, name).exists()}
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
            assert not has_other_files(folder)
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

    threads = [threading.Thread(target=often, args=(content,)) for content in "123"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found(tmp_path)["b"] == found(tmp_path)["c"]
    assert visible(tmp_path) == ["a", "b", "c"]


def test_update_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "UPDATE_TIMEOUT", 0.1)
    with exclusive_lock(tmp_path / folders.LOCK, "holding it"), pytest.raises(HeldElsewhere):
        write(tmp_path, OLD)
    assert visible(tmp_path) == []


MOUNT_AND_WRITE = """
import subprocess, sys
from pathlib import Path
from mtgcn.storage.files import write_file
from mtgcn.storage.files import updating
folder, file = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
subprocess.run(["mount", "--bind", file.with_name("mounted"), file], check=True)
for content in ("first", "second"):
    with updating(folder, ["a"]) as partial:
        (partial / "a").write_text(content)
    write_file(file, content)
print((folder / "a").read_text(), len(list(folder.iterdir())), file.with_name("mounted").read_text())
"""


def test_mount_points(tmp_path):
    """As in a container with a volume for the model and a mounted file for predictions."""
    unshared = ["unshare", "--mount", "--map-root-user"]
    for name in ("volume", "elsewhere"):
        (tmp_path / name).mkdir()
    for name in ("file", "mounted"):
        (tmp_path / name).touch()
    mount = [*unshared, "mount", "-t", "tmpfs", "none", tmp_path / "elsewhere"]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted")
    command = [*unshared, sys.executable, "-c", MOUNT_AND_WRITE, tmp_path / "volume", tmp_path / "file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("second 1 second\n", "")


def test_read_current_follows_a_moving_file(tmp_path):
    (tmp_path / READY).mkdir()
    (tmp_path / READY / "a").write_text("new")
    looked_at = []

    def read(path):
        looked_at.append(path)
        if len(looked_at) == 1:
            os.replace(tmp_path / READY / "a", tmp_path / "a")
        return path.read_text()

    assert read_current(tmp_path, "a", read) == "new"
    assert looked_at == [tmp_path / READY / "a", tmp_path / "a"]


def test_read_current_of_new_and_missing_files(tmp_path):
    def read(path):
        if not (tmp_path / READY).exists():
            (tmp_path / READY).mkdir()
            (tmp_path / READY / "a").write_text("first")
        return path.read_text()

    assert read_current(tmp_path, "a", read) == "first"
    with pytest.raises(FileNotFoundError):
        read_current(tmp_path, "b", lambda path: path.read_text())
