"""Places that could not be written to are refused, and nothing is touched."""

import os
import tempfile
from pathlib import Path

import pytest

from mtgcn.errors import InputError
from mtgcn.storage.destinations import check_file, check_files, check_folder


@pytest.fixture
def place(tmp_path):
    """A folder that holds a file and a folder."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_is_touched(place):
    yield
    assert sorted(path.name for path in place.rglob("*")) == ["file", "folder"]
    assert (place / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["new", "file", "new/and/deep", "folder/new", "folder/../new"])
def test_files_that_can_be_written(place, name):
    check_file(place / name)
    check_file(str(place / name))


@pytest.mark.parametrize("name", ["new", "folder", "new/and/deep", "folder/new"])
def test_folders_that_can_be_written(place, name):
    check_folder(place / name)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("folder", "folder is a folder; give a file name"),
        ("file/page.html", "cannot write .*page.html: .*file is a file; give another place"),
        ("file/a/b", "cannot write .*b: .*file is a file; give another place"),
    ],
)
def test_files_that_cannot(place, name, complaint):
    with pytest.raises(InputError, match=complaint):
        check_file(place / name)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("file", "file is a file; give a folder for the model"),
        ("file/model", "cannot make folder .*model: .*file is a file; give another folder"),
    ],
)
def test_folders_that_cannot(place, name, complaint):
    with pytest.raises(InputError, match=complaint):
        check_folder(place / name, holds="the model")


def test_places_one_may_not_write_to(place, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another place"):
        check_file(place / "new" / "page.html")
    with pytest.raises(InputError, match=f"cannot write to {place}: permission denied; give another folder"):
        check_folder(place / "model")


def test_special_files_may_be_written(place):
    with tempfile.TemporaryDirectory() as elsewhere:
        os.mkfifo(Path(elsewhere) / "pipe")
        check_file(Path(elsewhere) / "pipe")
        check_files([Path(elsewhere) / "pipe", Path(elsewhere) / "pipe", None])
    check_file("/dev/fd/1")


def test_a_file_that_is_protected(place, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, _: str(path) != str(place / "file"))
    with pytest.raises(InputError, match=r"cannot write .*file: permission denied; give another place"):
        check_file(place / "file")


def test_a_file_that_is_there_may_be_written_where_no_other_may_be_made(place, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, _: str(path) == str(place / "file"))
    check_file(place / "file")


@pytest.mark.parametrize("name", ["x" * 300, "new/" + "x" * 300, "new/" + "ä" * 130 + "/page.html", "a\0b"])
def test_names_that_cannot_be(place, name):
    for check in (check_file, check_folder):
        with pytest.raises(InputError, match=r"cannot (write|make folder) .*: .*(name|byte).*; give another"):
            check(place / name)


def test_links_in_a_circle(place):
    with tempfile.TemporaryDirectory() as elsewhere:
        loop = Path(elsewhere) / "loop"
        loop.symlink_to(loop)
        for path in (loop, loop / "below"):
            for check in (check_file, check_folder):
                with pytest.raises(InputError, match=r"Too many levels of symbolic links; give another"):
                    check(path)


def test_one_file_for_two_things(place):
    check_files([place / "one", place / "two", None, None])
    with pytest.raises(InputError, match=r"\.\./one is to be written twice, as one thing and as another; give another"):
        check_files([place / "one", place / "folder" / ".." / "one"])
