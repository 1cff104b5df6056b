"""Files of a folder are replaced together, whoever is killed when; the folder and all else in it stay."""

import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from mtgcn.storage import folder_update
from mtgcn.storage.folder_update import READY, found_in, holds_others, place_of, updating
from mtgcn.storage.locks import HeldElsewhere, one_at_a_time

NAMES = ("a", "b", "c")


def write(folder, **contents):
    with updating(folder, NAMES) as partial:
        for name, content in contents.items():
            (partial / name).write_text(content)


def write_half(folder):
    with updating(folder, NAMES) as partial:
        (partial / "a").write_text("half")
        raise KeyboardInterrupt


def found(folder):
    """What a reader finds. The content of `a` says which files go with it, as the card of a model does."""
    content = {name: place_of(folder, name).read_text() for name in NAMES if place_of(folder, name).exists()}
    return {name: content[name] for name in content.get("a", "")}


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_stays_and_so_do_other_files(tmp_path):
    folder = tmp_path / "new" / "folder"
    write(folder, a="abc", b="1", c="1")
    number = folder.stat().st_ino
    (folder / "mine").write_text("mine")
    write(folder, a="ab", b="2")
    assert found(folder) == {"a": "ab", "b": "2"}
    assert visible(folder) == ["a", "b", "mine"]
    assert folder.stat().st_ino == number


def test_files_and_folder_keep_their_modes(tmp_path):
    write(tmp_path, a="abc", b="1", c="1")
    (tmp_path / "a").chmod(0o640)
    tmp_path.chmod(0o750)
    write(tmp_path, a="abc", b="2", c="2")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "a")]
    assert modes == [0o750, 0o640]
    (tmp_path / "usual").touch()
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_fails_has_changed_nothing(tmp_path):
    write(tmp_path / "there", a="abc", b="1", c="1")
    for place in ("there", "new/parents/folder"):
        with pytest.raises(KeyboardInterrupt):
            write_half(tmp_path / place)
    assert found(tmp_path / "there") == {"a": "abc", "b": "1", "c": "1"}
    assert visible(tmp_path / "there") == ["a", "b", "c"]
    assert visible(tmp_path) == ["there"]


STEPS = ("mkdir", "rename", "replace", "rmdir", "unlink", "chmod")


def write_until_killed(folder, step, contents):
    """Ends without any tidying up before so many steps are taken; those that change a folder are counted."""
    left = step

    def counted(real):
        def call(*arguments, **named):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return real(*arguments, **named)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    write(folder, **contents)
    os._exit(0)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="a process that is killed is forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("before", [{}, {"a": "abc", "b": "1", "c": "1"}], ids=["new folder", "files are replaced"])
def test_killed_at_any_step_there_are_the_old_files_or_the_new(tmp_path, before):
    after = {"a": "ab", "b": "2"}
    outcomes = []
    for step in range(100):
        folder = tmp_path / str(step) / "folder"
        if before:
            write(folder, **before)
            (folder / "mine").write_text("mine")
        process = multiprocessing.get_context("fork").Process(target=write_until_killed, args=(folder, step, after))
        process.start()
        process.join()
        assert not folder.exists() or found(folder) in (before, after)
        outcomes.append(folder.exists() and found(folder) == after)
        if folder.exists() and not before and not outcomes[-1]:
            assert not holds_others(folder)  # so that it may be written again
        write(folder, a="abc", b="3", c="3")
        assert found(folder) == {"a": "abc", "b": "3", "c": "3"}
        assert visible(folder) == ["a", "b", "c", *(["mine"] if before else [])]
        if process.exitcode == 0:
            break
    assert step > 5, "no step was counted"
    assert sorted(outcomes) == outcomes, "once the new ones are there they stay"
    assert outcomes.count(True) > 1, "and they are before the last step"


def test_of_two_who_write_at_the_same_time_each_is_whole(tmp_path):
    (tmp_path / "mine").write_text("mine")

    def often(content):
        for _ in range(20):
            write(tmp_path, a="abc", b=content, c=content)

    threads = [threading.Thread(target=often, args=(content,)) for content in "123"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = found(tmp_path)
    assert last["b"] == last["c"]
    assert visible(tmp_path) == ["a", "b", "c", "mine"]


def test_a_writer_that_never_ends_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_update, "PATIENCE", 0.1)
    with one_at_a_time(tmp_path / folder_update.LOCK, "holding it"), pytest.raises(HeldElsewhere):
        write(tmp_path, a="abc")
    assert visible(tmp_path) == []


MOUNT_AND_WRITE = """
import subprocess, sys
from pathlib import Path
from mtgcn.storage.atomic import write_file
from mtgcn.storage.folder_update import updating
folder, file = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
subprocess.run(["mount", "--bind", file.with_name("lent"), file], check=True)
for content in ("first", "second"):
    with updating(folder, ["a"]) as partial:
        (partial / "a").write_text(content)
    write_file(file, content)
print((folder / "a").read_text(), len(list(folder.iterdir())), file.with_name("lent").read_text())
"""


def test_mount_points_will_do(tmp_path):
    """As in a container whose volumes are the folder for a model, and the file for predictions."""
    unshared = ["unshare", "--mount", "--map-root-user"]
    for name in ("volume", "elsewhere"):
        (tmp_path / name).mkdir()
    for name in ("file", "lent"):
        (tmp_path / name).touch()
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*unshared, "mount", "-t", "tmpfs", "none", tmp_path / "elsewhere"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("nothing can be mounted here")
    command = [*unshared, sys.executable, "-c", MOUNT_AND_WRITE, tmp_path / "volume", tmp_path / "file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("second 1 second\n", "")


def test_a_file_that_is_moved_to_its_place_while_it_is_looked_for_is_found(tmp_path):
    (tmp_path / READY).mkdir()
    (tmp_path / READY / "a").write_text("new")
    looked_at = []

    def read(path):
        looked_at.append(path)
        if len(looked_at) == 1:
            os.replace(tmp_path / READY / "a", tmp_path / "a")
        return path.read_text()

    assert found_in(tmp_path, "a", read) == "new"
    assert looked_at == [tmp_path / READY / "a", tmp_path / "a"]


def test_a_file_that_comes_while_it_is_looked_for_is_found_and_one_that_does_not_is_missing(tmp_path):
    def read(path):
        if not (tmp_path / READY).exists():
            (tmp_path / READY).mkdir()
            (tmp_path / READY / "a").write_text("first")
        return path.read_text()

    assert found_in(tmp_path, "a", read) == "first"
    with pytest.raises(FileNotFoundError):
        found_in(tmp_path, "b", lambda path: path.read_text())
