import os

import pytest

from mtgcn.errors import InputError
from mtgcn.studio import folder as studio_folder
from mtgcn.studio.folder import LOCK, ProjectFolder, checked_name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x.csv",
        "a/b.csv",
        "a\\b.csv",
        "/etc/passwd",
        ".hidden",
        "x\0.csv",
        "x\n.csv",
        " x",
        "x.",
        "c:x",
    ],
)
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(InputError, match="file name"):
        checked_name(name)


def test_names_that_are_too_long_for_a_file_are_refused():
    assert checked_name("é" * 100) == "é" * 100  # 200 bytes
    with pytest.raises(InputError, match="longer than 200 bytes"):
        checked_name("é" * 101)


def test_a_link_out_of_the_folder_is_neither_read_nor_written(tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_text("precious")
    folder = ProjectFolder(tmp_path / "project")
    folder.make()
    (folder.root / "labels.csv").symlink_to(outside)
    (folder.root / "files").symlink_to(tmp_path)
    for attempt in (
        lambda: folder.read("labels.csv"),
        lambda: folder.write(b"mine", "labels.csv"),
        lambda: folder.write(b"mine", "files", "outside.csv"),
    ):
        with pytest.raises(InputError, match="outside the project"):
            attempt()
    assert outside.read_text() == "precious"


def test_a_link_within_the_folder_is_followed(tmp_path):
    folder = ProjectFolder(tmp_path)
    (tmp_path / "real.csv").write_bytes(b"1")
    (tmp_path / "labels.csv").symlink_to("real.csv")
    folder.write(b"2", "labels.csv")
    assert folder.read("real.csv") == b"2"


def test_what_is_not_there_is_none_and_what_is_no_file_is_refused(tmp_path):
    folder = ProjectFolder(tmp_path)
    assert folder.read("labels.csv") is None
    os.mkfifo(tmp_path / "labels.csv")
    with pytest.raises(InputError, match="not a plain file"):
        folder.read("labels.csv")


def test_a_project_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "project").write_text("")
    with pytest.raises(InputError, match="give a folder for the project"):
        ProjectFolder(tmp_path / "project")


def test_one_lock_for_all_who_open_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(studio_folder, "PATIENCE", 0.1)
    first, second = ProjectFolder(tmp_path), ProjectFolder(tmp_path)
    with first.locked(), first.locked():  # who holds it may ask again
        with pytest.raises(InputError, match="nothing was changed"), second.locked():
            raise AssertionError("both hold it")
        assert (tmp_path / LOCK).exists()
    with second.locked():
        pass
    assert not (tmp_path / LOCK).exists()
