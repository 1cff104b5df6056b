"""Only plain files are read, and not more of them than was asked for."""

import os
import stat

import pytest

from mtgcn.storage.reading import read_plain


def test_a_plain_file_is_read_also_through_a_link(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link") == read_plain(tmp_path / "file", 7) == b"content"


def test_too_long_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(OSError, match="it has more than 6 bytes"):
        read_plain(tmp_path / "file", 6)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a plain file"):
        read_plain(tmp_path / "pipe")


def test_a_device_is_not_read(tmp_path):
    try:
        os.mknod(tmp_path / "endless", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except (PermissionError, AttributeError):
        pytest.skip("devices can be made by root on Linux alone")
    with pytest.raises(OSError, match="it is not a plain file"):
        read_plain(tmp_path / "endless", 10)


def test_nothing_and_a_folder_are_what_they_always_are(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "nothing")
    with pytest.raises(OSError, match=r"directory|plain file"):
        read_plain(tmp_path)
